"""The job at FINN.no's size from the simulator's arrays, in one process and without files.

For machines that have torch and little else: logs, preparation and commands are those of
`finn.py`, this measures what lies between. Chunks of users are simulated on all cores and put
together in memory; a model is trained on them, judged, and makes slates. What counts is the share
of the truth's gain over the click rate by source and scroll length.
"""

import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import torch

if find_spec("polars") is None:  # names of items and users are not read here
    sys.modules["polars"] = MagicMock()

from harness import Row, Target, kept, parse, parser, report, show
from slatewise import evaluation
from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.evaluation.baselines.held_out import HeldOut
from slatewise.features.user_history import UserHistory
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.terms import FittedTerms
from slatewise.simulation import Marketplace, SimulationConfig, load_config
from slatewise.simulation.log import simulate_chunk
from slatewise.simulation.processes import available_cores
from slatewise.slates.batched import BatchRanker
from slatewise.slates.strategies import InSlateThompson
from slatewise.slates.users import Users
from slatewise.training.config import TrainingConfig
from slatewise.training.loop import Training

SLATES, DIMENSIONS = 8_192, 25
LADDER = tuple(
    (batch, stages) for batch in (3_000, 10_000, 30_000) for stages in ("joint", "two-step")
)
MINIATURE = {
    "SLATES": 8,
    "DIMENSIONS": 3,
    "LADDER": ((512, "joint"),),
    "scale": 0.0005,
    "seconds": 1.0,
    "ladder": True,
}
SOURCES = ("all sources", "search", "recommendation")
_world: Marketplace | None = None
_folder = Path()


def main() -> None:
    """Run the job, and tell how long each stage took and what the model learned."""
    arguments = parser(__doc__)
    arguments.add_argument("--device", default="cpu", help="cpu or cuda")
    arguments.add_argument("--scale", type=float, default=1.0, help="share of users and items")
    arguments.add_argument("--batch", type=int, default=30_000, help="users a step")
    arguments.add_argument("--dynamics", default="gru", help="gru or linear")
    arguments.add_argument("--seconds", type=float, default=600.0, help="of training, at most")
    arguments.add_argument("--ladder", action="store_true", help="compare batches and stages too")
    options = parse(arguments, globals())
    stages: list[Row] = []
    with _timed(stages, "simulate"):
        dataset, truth = _simulated(load_config("finn", scale=options.scale))
    with _timed(stages, "count for baselines"):
        held = HeldOut.of(dataset, 0)
    with _timed(stages, "train"):
        model, trained = _trained(dataset, options, options.batch, "joint")
    with _timed(stages, "evaluate: closed form, recall, hitrate"):
        by_mean = evaluation.ModelRecommender(model, device=options.device)
        found = {"model": evaluation.evaluate(by_mean, dataset, batch_users=8_192)}
    with _timed(stages, "evaluate: 20 draws"):
        drawn = evaluation.ModelRecommender(model, samples=20, device=options.device)
        only = evaluation.OnlyPredicts(drawn)
        found["20 draws"] = evaluation.evaluate(only, dataset, batch_users=8_192)
    with _timed(stages, "evaluate: baselines"):
        found |= _baselines(dataset, held)
    with _timed(stages, f"slates for {SLATES:,} users"):
        _slates(dataset, model, options.device)
    learned = _learned(found, truth)
    show("What was learned", dict.fromkeys(learned[0], "{}"), learned)
    ladder = []
    if options.ladder:
        ladder = [
            kept(
                options.keep,
                f"ladder {batch} {stages}",
                lambda batch=batch, stages=stages: _trained(dataset, options, batch, stages)[1],  # type: ignore[misc]
            )
            for batch, stages in LADDER
        ]
        columns = {"batch": "{:,}", "stages": "{}", "seconds": "{:.0f}", "validation": "{:.4f}"}
        show("Held-out log-likelihood against wall-clock", columns, ladder)
    share = float(learned[0]["share"].rstrip("%")) / 100
    report(
        options,
        "FINN.no, arrays",
        {"stage": "{}", "seconds": "{:,.1f}"},
        stages,
        [
            Target("share of the truth's gain", share, 0.6, at_least=True),
            Target("seconds per 100,000 slates", stages[-1]["seconds"] / SLATES * 1e5, 60.0),
        ],
        learned=learned,
        curve=trained["curve"],
        ladder=ladder,
        scale=options.scale,
        device=options.device,
    )


@contextmanager
def _timed(stages: list[Row], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    stages.append({"stage": name, "seconds": time.perf_counter() - start})
    print(f"{name}: {stages[-1]['seconds']:.1f} s", flush=True)


class ArrayDataset(SlateDataset):
    """A dataset in memory."""

    def __init__(self, arrays: dict[str, Any], groups: int) -> None:
        vars(self).update(arrays)
        self.path, self.meta = Path(), {"clock_times": True, "content_hash": "arrays"}
        self.meta |= {"sources": ["recommendation", "search"], "counts": {"groups": groups}}
        self.__dict__["further_clicks"] = None
        self.__dict__["group_names"] = [str(group) for group in range(groups)]

    def interactions(self, device: torch.device | str = "cpu") -> Interactions:
        """Return the arrays as tensors."""
        return Interactions.of_dataset(self, device)


def _simulated(config: SimulationConfig) -> tuple[ArrayDataset, Any]:
    """Simulate all users; return the dataset, and the log-likelihood [N] of the truth."""
    global _world, _folder
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        _world, _folder = Marketplace(config), Path(folder)
        numbers = range(-(-config.users // config.chunk_users))
        if len(numbers) == 1:
            _keep_chunk(0)
        else:
            with multiprocessing.get_context("fork").Pool(available_cores()) as pool:
                pool.map(_keep_chunk, numbers, chunksize=1)
        with ThreadPoolExecutor(available_cores()) as threads:
            chunks = list(threads.map(_read_chunk, numbers))
    arrays = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
    lengths = np.bincount(arrays.pop("user"), minlength=config.users).astype(np.int32)
    scroll, truth = arrays.pop("scroll"), arrays.pop("truth")
    drawn, first = np.random.default_rng(1).random(config.users), np.minimum(5, lengths)
    train_end = np.where(drawn < 0.9, lengths, first).astype(np.int32)
    arrays |= {
        "user_keys": np.arange(config.users, dtype=np.uint64),
        "user_offsets": np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
        "slate_offsets": np.concatenate([[0], np.cumsum(scroll, dtype=np.int64)]),
        "train_end": train_end,
        "valid_end": np.where(drawn < 0.95, lengths, train_end).astype(np.int32),
        "item_groups": _world.catalogue.group.astype(np.int32),
    }
    dataset = ArrayDataset(arrays, config.catalogue.groups)
    index = np.arange(len(truth)) - np.repeat(dataset.user_offsets[:-1], lengths)
    test = index >= np.repeat(dataset.valid_end, lengths)
    return dataset, {
        source: float(truth[rows].mean())
        for source, rows in zip(
            SOURCES,
            (test, test & (dataset.sources == 1), test & (dataset.sources == 0)),
            strict=True,
        )
    }


def _keep_chunk(number: int) -> None:
    assert _world is not None
    chunk = simulate_chunk(_world, number)
    order = np.lexsort((chunk.time, chunk.user))
    seen = np.arange(chunk.slates.shape[1]) < chunk.scroll[:, None]
    hit = (chunk.slates == chunk.clicks[:, None]).argmax(1)
    clicks = np.where(chunk.clicks < 0, -1, hit).astype(np.int32)
    chosen = chunk.probability[np.arange(len(hit)), hit]
    np.savez(
        _folder / f"{number}.npz",
        user=chunk.user[order],
        times=chunk.time[order],
        sources=chunk.searched[order].astype(np.uint8),
        clicks=clicks[order],
        scroll=chunk.scroll[order],
        slate_items=chunk.slates[order][seen[order]].astype(np.int32),
        truth=np.log(np.where(clicks < 0, chunk.no_click, chosen)[order]),
    )


def _read_chunk(number: int) -> dict[str, Any]:
    with np.load(_folder / f"{number}.npz") as kept:
        return dict(kept)


def _trained(
    dataset: ArrayDataset, options: Any, batch: int, stages: str
) -> tuple[SlateModel, Row]:
    """Train until it converges or the time is over."""
    device, start = options.device, time.perf_counter()
    work = Training(
        ModelConfig(dimensions=DIMENSIONS, dynamics=options.dynamics),
        TrainingConfig(batch_users=batch, optimisation=stages),  # type: ignore[arg-type]
        dataset.interactions(device),
        torch.from_numpy(dataset.item_groups).long().to(device),
        dataset.group_names,
        dataset.source_names,
        seed=0,
    )
    curve: list[list[float]] = []
    for _ in work.advance():
        taken = time.perf_counter() - start
        if len(work.progress.history) > len(curve):
            curve.append([taken, work.progress.history[-1]["validation"]])
        if taken > options.seconds and curve:
            break
    work.posterior.load(work.best)
    posterior, views = work.result(), work.views.cpu()
    posterior.to_("cpu")
    items = list(range(dataset.num_items))
    names = dataset.group_names, dataset.source_names
    model = SlateModel(posterior, items, *names, views, metrics={}, terms=FittedTerms())
    best = max(value for _, value in curve)
    row = {"batch": batch, "stages": stages, "seconds": curve[-1][0], "validation": best}
    return model, row | {"curve": curve}


def _baselines(dataset: ArrayDataset, held: HeldOut) -> dict[str, evaluation.Evaluation]:
    def judged(kind: type[evaluation.Baseline]) -> evaluation.Evaluation:
        return evaluation.evaluate(kind.fit_on(dataset, held), dataset, batch_users=8_192)

    with ThreadPoolExecutor(available_cores()) as threads:
        names = [kind.name for kind in evaluation.COUNTING]
        return dict(zip(names, threads.map(judged, evaluation.COUNTING), strict=True))


def _slates(dataset: ArrayDataset, model: SlateModel, device: str) -> None:
    histories = []
    for user in range(SLATES):
        rows = np.arange(dataset.user_offsets[user], dataset.user_offsets[user + 1])
        rows = rows[dataset.clicks[rows] >= 0]
        clicked = dataset.slate_items[dataset.slate_offsets[rows] + dataset.clicks[rows]]
        histories.append(UserHistory.of_clicks(clicked.astype(np.int64)))
    users = Users.of_histories(histories, 0, show_clicked=False)
    InSlateThompson().slates(BatchRanker(model, device), users, 20)


def _learned(found: dict[str, evaluation.Evaluation], truth: dict[str, float]) -> list[Row]:
    """Compare what was found with the base rate and with the truth, by source."""
    values = {
        name: {source: one.value for source, one in each.estimates["log_likelihood"].items()}
        for name, each in found.items()
    }
    rows = []
    for source in SOURCES:
        base, best = values["base rate"][source], truth[source]
        share = (values["model"][source] - base) / (best - base)
        numbers = {name: f"{value[source]:.4f}" for name, value in values.items()}
        rows.append({"source": source, "truth": f"{best:.4f}", **numbers, "share": f"{share:.1%}"})
    for name in ("recall@20", "hitrate@20"):
        ranked = {
            each: f"{one[name].value:.4f}" for each, one in found.items() if each != "20 draws"
        }
        rows.append(dict.fromkeys(rows[0], "") | {"source": name} | ranked)
    return rows


if __name__ == "__main__":
    main()
