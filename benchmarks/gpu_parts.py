"""Whether every part of the model ends at the same likelihood on a GPU as on a CPU.

A log is drawn from a world in which each part has something to find: users who follow what they
click, items with a quality, features with weights, positions, sources of which one is clicked less.
Each model is fitted to it with several seeds, to the end, and judged by the closed form on held-out
interactions: on the GPU, on the CPU, and on the CPU by the steps that a GPU takes. The same steps
have the same noise and must end together. A CPU's own steps move the rows of a batch and not all
items, with other noise: seeds leave more open there, and a GPU must not end lower than that allows.

Where one machine does not have both, `--device cpu --json FILE` on one and `--device cuda --against
FILE` on the other do the same. `--small` runs on the CPU alone, against itself.
"""

import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from math import sqrt
from pathlib import Path
from statistics import mean, variance
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from harness import Row, Target, parse, parser, report
from slatewise.data.interactions import Interactions, SeveralClicks
from slatewise.model.config import ModelConfig
from slatewise.model.resident import resident
from slatewise.model.terms import feature_terms
from slatewise.training.config import TrainingConfig
from slatewise.training.dense import DenseSteps
from slatewise.training.loop import Training

USERS, ITEMS, GROUPS, STEPS, LONGEST, EPOCHS, SEEDS = 1_500, 300, 12, 12, 10, 100, 3
SOURCES = ["search", "recommendation"]
FEATURES, OF_ITEMS, DIMENSIONS = 20, 3, 6
LEAST = 0.006
"""Nats that two fits may be apart in any case: what seeds of one fit differ by on such logs."""
SAME = 0.0005
"""The same where steps and noise are the same, and the order of additions is not."""
CPU = ("cpu", "dense")
"""Ways to fit on a CPU: by its own steps, and by those of a GPU."""
PARTS: dict[str, dict[str, Any]] = {
    "linear, flat": {"dynamics": "linear", "prior": "flat"},
    "gru, hierarchical": {},
    "dot": {"relevance": "dot"},
    "all-item": {"likelihood": "all-item", "negatives": 128},
    "source-aware": {"likelihood": "source-aware", "negatives": 128},
    "evidence": {"evidence": ("search",)},
    "amortised": {"initial_state": "amortised"},
    "item features": {},
    "bias": {"terms": ("bias",)},
    "history": {"terms": ("history",)},
    "popularity": {"terms": ("popularity",)},
    "co_clicks": {"terms": ("co_clicks",)},
    "contrast": {"terms": ("contrast",)},
    "networks": {"terms": ("item_network", "network", "position")},
    "position": {"terms": ("position",)},
    "propensity": {"terms": ("propensity",)},
    "source": {"terms": ("source",)},
    "enough": {"terms": ("enough",)},
    "everything": {
        "terms": ("bias", "history", "popularity", "position", "propensity", "source"),
        "evidence": ("search",),
    },
}
MINIATURE = {
    "device": "cpu",
    "USERS": 60,
    "ITEMS": 30,
    "STEPS": 6,
    "EPOCHS": 2,
    "SEEDS": 1,
    "DIMENSIONS": 3,
    "PARTS": {"linear, flat": PARTS["linear, flat"], "everything": PARTS["everything"]},
}


def main() -> None:
    """Fit every part on the device, and on the CPU unless its numbers are given."""
    arguments = parser(__doc__)
    arguments.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    arguments.add_argument("--against", type=Path, help="numbers of a CPU, made by --device cpu")
    arguments.add_argument("--alone", action="store_true", help="compare with nothing")
    arguments.add_argument("--part", help="fit one part, and print its numbers")
    arguments.add_argument("--way", help="how to fit that part: cpu, dense or cuda")
    arguments.add_argument("--workers", type=int, default=1, help="parts fitted at the same time")
    options = parse(arguments, globals())
    torch.set_num_threads(1)
    if options.part:
        print(json.dumps(_fits(options.part, options.way or options.device)))
        return
    ways = CPU if options.device == "cpu" or not (options.against or options.alone) else ()
    ways = (*ways, options.device) if options.device not in ways else ways
    found = _all(options, ways)
    if options.against:
        found |= json.loads(options.against.read_text())["found"]
    if options.alone:
        found |= dict.fromkeys(CPU, found[options.device])
    rows = [_row(part, *(found[way][part] for way in (*CPU, options.device))) for part in PARTS]
    report(
        options,
        f"Held-out log-likelihood, CPU and {options.device}, {SEEDS} seeds each",
        {
            "part": "{}",
            "start": "{:.4f}",
            "cpu": "{:.4f}",
            "same_steps": "{:.4f}",
            "device": "{:.4f}",
            "apart": "{:.4f}",
            "allowed_apart": "{:.4f}",
            "lower": "{:.4f}",
            "allowed_lower": "{:.4f}",
            "epochs": "{}",
        },
        rows,
        [
            target
            for row in rows
            for target in (
                Target(
                    f"thousandths of a nat apart by the same steps, {row['part']}",
                    1000 * row["apart"],
                    1000 * row["allowed_apart"],
                ),
                Target(
                    f"thousandths of a nat below a CPU's own steps, {row['part']}",
                    1000 * row["lower"],
                    1000 * row["allowed_lower"],
                ),
            )
        ],
        found=found,
        machine=torch.cuda.get_device_name() if options.device == "cuda" else "CPU",
    )


def _row(part: str, cpu: dict[str, Any], same: dict[str, Any], found: dict[str, Any]) -> Row:
    """Compare the means over seeds.

    Three standard errors may lie between them, as the seeds of both differ.
    """
    error = sqrt(sum(variance(each["ends"]) / SEEDS for each in (cpu, found))) if SEEDS > 1 else 0.0
    return {
        "part": part,
        "start": mean(cpu["starts"]),
        "cpu": mean(cpu["ends"]),
        "same_steps": mean(same["ends"]),
        "device": mean(found["ends"]),
        "apart": abs(mean(found["ends"]) - mean(same["ends"])),
        "allowed_apart": SAME,
        "lower": mean(cpu["ends"]) - mean(found["ends"]),
        "allowed_lower": max(LEAST, 3 * error),
        "epochs": max(found["epochs"]),
    }


def _all(options: Any, ways: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Fit every part in every way."""
    jobs = [(way, part) for way in ways for part in PARTS]

    def fitted(job: tuple[str, str]) -> dict[str, Any]:
        way, part = job
        if options.workers == 1:
            return _fits(part, way)
        command = [sys.executable, __file__, "--way", way, "--part", part]
        with tempfile.TemporaryFile("w+") as errors:
            done = subprocess.run(
                command, check=False, stdout=subprocess.PIPE, stderr=errors, text=True
            )
            if done.returncode:
                errors.seek(0)
                raise RuntimeError(f"{part}: {errors.read()[-3000:]}")
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return result

    with ThreadPoolExecutor(options.workers) as pool:
        results = dict(zip(jobs, pool.map(fitted, jobs), strict=True))
    return {way: {part: results[way, part] for part in PARTS} for way in ways}


def _dense_steps(*arguments: Any, peers: Any, **options: Any) -> DenseSteps:
    return DenseSteps(*arguments, **options, compiled=False)


def _fits(part: str, way: str) -> dict[str, Any]:
    """Fit a part with each seed; return held-out likelihoods after one epoch, and at the end."""
    with ExitStack() as stack:
        if way == "dense":
            stack.enter_context(patch("slatewise.training.loop.SparseSteps", _dense_steps))
        return _fitted(part, "cuda" if way == "cuda" else "cpu")


def _fitted(part: str, device: str) -> dict[str, Any]:
    log, features, groups = _log(several=part == "enough")
    model = ModelConfig(dimensions=DIMENSIONS, **PARTS[part])
    used = features if part == "item features" else None
    starts, ends, epochs = [], [], []
    for seed in range(SEEDS):
        work = Training(
            model,
            TrainingConfig(batch_users=128, max_epochs=EPOCHS),
            resident(_described(log, model), device),
            groups.to(device),
            [str(number) for number in range(GROUPS)],
            SOURCES,
            seed,
            item_features=None if used is None else used.to(device),
        )
        for _ in work.advance():
            pass
        if work.progress.skipped:
            raise RuntimeError(f"{part}: {work.progress.skipped} steps were not finite")
        starts.append(work.progress.history[0]["validation"])
        ends.append(work.progress.best)
        epochs.append(len(work.progress.history))
    return {"starts": starts, "ends": ends, "epochs": epochs}


def _described(log: Interactions, model: ModelConfig) -> Interactions:
    """Give a model as many of the features as it has weights."""
    terms = [term for term in feature_terms(model).values() if not term.waits]
    count = sum(len(term.columns(model)) for term in terms if term.acts_on == "items")
    steps = sum(len(term.columns(model)) for term in terms if term.acts_on == "no click")
    assert log.cell_features is not None
    cells = log.cell_features[:, :count].contiguous() if count else None
    return replace(log, cell_features=cells, step_features=log.step_features if steps else None)


def _log(*, several: bool) -> tuple[Interactions, Tensor, Tensor]:
    """Draw a world and what its users did; return features and groups of its items as well."""
    rng = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng)

    groups = torch.arange(ITEMS) % GROUPS
    features = normal(ITEMS, OF_ITEMS)
    vectors = 1.5 * normal(GROUPS, 4)[groups] + 0.5 * normal(ITEMS, 4)
    vectors = vectors + 0.5 * features @ normal(OF_ITEMS, 4)
    quality, weights = 0.7 * normal(ITEMS), 0.5 * normal(FEATURES)
    lengths = torch.randint(2, LONGEST + 1, (USERS, STEPS), generator=rng)
    items = torch.randint(ITEMS, (USERS, STEPS, LONGEST), generator=rng)
    sources = torch.randint(2, (USERS, STEPS), generator=rng)
    cells, bonus = normal(USERS, STEPS, LONGEST, FEATURES), normal(USERS, STEPS, 1)
    place = torch.arange(LONGEST)
    wish, clicks = 1.5 * normal(USERS, 4), []
    for step in range(STEPS):
        seen = items[:, step]
        # A search shows what is near to what the user wants.
        near = (vectors[seen] - wish[:, None]).norm(dim=2).argsort(1)
        searched = torch.gather(seen, 1, near)
        items[:, step] = seen = torch.where(sources[:, step, None] == 0, searched, seen)
        utility = -(vectors[seen] - wish[:, None]).norm(dim=2) + quality[seen]
        utility = utility + cells[:, step] @ weights - 0.15 * place
        none = -0.5 + 1.2 * sources[:, step] + 0.5 * bonus[:, step, 0]
        there = place < lengths[:, step, None]
        choices = torch.cat([utility.masked_fill(~there, -torch.inf), none[:, None]], 1)
        chosen = torch.multinomial(choices.softmax(1), 1, generator=rng)[:, 0]
        clicked = torch.where(chosen < LONGEST, chosen, -1)
        moved = 0.7 * wish + 0.3 * vectors[seen.gather(1, clicked.clamp(min=0)[:, None])[:, 0]]
        wish = torch.where(clicked[:, None] >= 0, moved, wish)
        clicks.append(clicked)
    there = place < lengths[..., None]
    ends = torch.full((USERS,), STEPS, dtype=torch.int32)
    offsets = torch.nn.functional.pad(lengths.flatten().cumsum(0), (1, 0))
    chosen = torch.stack(clicks, 1).flatten().int()
    log = Interactions(
        user_offsets=torch.arange(0, USERS * STEPS + 1, STEPS),
        train_end=ends - STEPS // 4,
        valid_end=ends,
        times=torch.arange(USERS * STEPS),
        sources=sources.flatten().to(torch.uint8),
        clicks=chosen,
        slate_offsets=offsets,
        slate_items=items[there].int(),
        cell_features=cells[there],
        step_features=bonus.flatten(0, 1),
    )
    if not several:
        return log, features, groups
    first = torch.zeros(len(chosen), dtype=torch.int32)
    known = SeveralClicks.of(first.numpy(), chosen.numpy(), offsets.numpy())
    return replace(log, several=known), features, groups


if __name__ == "__main__":
    main()
