"""How long one step of training takes on a GPU, with the data resident there.

30,000 users a step with 20 interactions each, slates of up to 25 items (11 on average), 25
dimensions, 1.3 million items in 300 groups, one draw, everything learned. `median_ms` covers the
whole of `DenseSteps.step`: gathering the batch, drawing, forward, backward, Adam, reading the loss.

The floor is the fewest bytes over the bandwidth of a plain copy measured in the same run: 25 passes
over an item table (draw 5, its gradient 4, Adam on means and scales 16), and for every cell that
is seen a row read in each direction and a row of gradient added. Arithmetic, padding and collisions
of popular items, the exposure term and launching come on top: the loss is read after every
step, and while the next one is set out the GPU waits.

`--small` runs the same in miniature, on a CPU and uncompiled.
"""

import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch
from torch import Tensor

from harness import Row, Target, parse, parser, report
from slatewise.data.interactions import Interactions
from slatewise.model.config import ModelConfig
from slatewise.model.likelihood import Candidates, Exposure
from slatewise.model.posterior import Posterior
from slatewise.training.config import TrainingConfig
from slatewise.training.dense import DenseSteps, Noise, Passes, dense_negative_elbo, draw_noise
from slatewise.training.validation import Validation

TABLES, ROWS_PER_CELL = 25, 4
SOURCES = ["search", "recommendation"]
PASSES, ALL_USERS = 800, 2_300_000
"""What the paper's training took on a P100 in ten hours: passes over the FINN.no data."""


@dataclass(frozen=True)
class Size:
    """How large a measurement is."""

    users: int
    batch: int
    items: int
    groups: int
    steps: int = 20
    longest: int = 25
    dimensions: int = 25
    warm_up: int = 5
    repeats: int = 30


FULL = Size(users=120_000, batch=30_000, items=1_300_000, groups=300)
TINY = Size(users=60, batch=30, items=500, groups=5, steps=5, dimensions=4, warm_up=1, repeats=2)
CHECKED = replace(TINY, users=200, batch=200, items=1_000, dimensions=25, steps=20)
TRAINED, PASSED = replace(FULL, users=16_000, batch=2_000, items=2_000, groups=20, dimensions=8), 30
MINIATURE = {
    "device": "cpu",
    "FULL": TINY,
    "CHECKED": replace(CHECKED, users=20, batch=20, items=100),
    "TRAINED": replace(TRAINED, users=400, batch=100, steps=10, items=200),
    "PASSED": 5,
}


def main() -> None:
    """Measure every variant compiled, the slate likelihood uncompiled as well, and train once."""
    arguments = parser(__doc__)
    arguments.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    options = parse(arguments, globals())
    if options.device == "cpu":
        torch.set_num_threads(1)  # the miniature is over before threads have met
    size = FULL
    bandwidth = _bandwidth(options.device)
    rows: list[Row] = []
    for popularity in ("uniform", "zipf"):
        data = _interactions(size, popularity, options.device)
        for likelihood in ("slate", "all-item"):
            for dynamics in ("linear", "gru"):
                kinds = [options.device == "cuda"]
                if kinds[0] and popularity == "uniform" and likelihood == "slate":
                    kinds.append(False)
                for compiled in kinds:
                    steps = _steps(data, size, dynamics, likelihood, compiled)
                    name = {"dynamics": dynamics, "likelihood": likelihood}
                    name |= {"popularity": popularity, "compiled": compiled}
                    row = name | _measure(steps, size, _floor_ms(data, size, bandwidth))
                    print(row, file=sys.stderr)
                    rows.append(row)
                    del steps
    agreement = _agreement(options.device)
    training = {kind: _training_check(options.device, kind) for kind in ("linear", "gru")}
    for kind, check in training.items():
        print(f"{kind} on data of the model's kind: {check}")
    report(
        options,
        f"A training step, {size.batch:,} users, {size.items:,} items, {_machine(options.device)}",
        {
            "dynamics": "{}",
            "likelihood": "{}",
            "popularity": "{}",
            "compiled": "{}",
            "median_ms": "{:.2f}",
            "worst_ms": "{:.2f}",
            "floor_ms": "{:.2f}",
            "times_floor": "{:.1f}",
            "peak_gb": "{:.1f}",
            "first_step_s": "{:.1f}",
            "minutes_800_passes": "{:.1f}",
        },
        rows,
        [
            Target(
                f"milliseconds a step, {row['dynamics']}, slate, {row['popularity']}",
                row["median_ms"],
                20.0,
            )
            for row in rows
            if row["compiled"] and row["likelihood"] == "slate"
        ]
        + [
            Target(f"nats gained by training, {kind}", check["gain"], 0.05, at_least=True)
            for kind, check in training.items()
        ]
        + [Target("millionths of error beside float64", 1e6 * max(agreement.values()), 1_000)],
        machine=_machine(options.device),
        copy_tb_per_s=bandwidth / 1e12,
        agreement=agreement,
        training=training,
    )


def _machine(device: str) -> str:
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    return f"{name}, torch {torch.__version__}"


def _model(size: Size, dynamics: str, likelihood: str) -> ModelConfig:
    values = {"dynamics": dynamics, "likelihood": likelihood, "dimensions": size.dimensions}
    return ModelConfig.build(values, "the benchmark")


def _posterior(
    model: ModelConfig, size: Size, device: str | torch.device, dtype: torch.dtype = torch.float32
) -> Posterior:
    generator = torch.Generator().manual_seed(0)
    # Groups of very different sizes, as categories have.
    share = torch.rand(size.items, generator=generator).square()
    groups = (share * size.groups).long()
    posterior = Posterior(model, groups, range(size.groups), size.longest, generator, SOURCES)
    posterior.to_(device)
    for part in (posterior.items, *posterior.shared.values()):
        part.mean, part.raw = part.mean.to(dtype), part.raw.to(dtype)
        part.requires_grad_()
    return posterior


def _steps(
    data: Interactions, size: Size, dynamics: str, likelihood: str, compiled: bool
) -> DenseSteps:
    model = _model(size, dynamics, likelihood)
    training = TrainingConfig(batch_users=size.batch)
    exposure = Exposure.of(model, SOURCES)
    posterior = _posterior(model, size, data.clicks.device)
    return DenseSteps(posterior, data, training, exposure, compiled=compiled)


def _interactions(size: Size, popularity: str, device: str) -> Interactions:
    """Draw users who all have `size.steps` interactions, and clicks without rhyme or reason."""
    rng = np.random.default_rng(0)
    count = size.users * size.steps
    lengths = rng.negative_binomial(3, 3 / (3 + 10.5), count).clip(0, size.longest - 1) + 1
    clicks = np.where(rng.random(count) < 0.5, rng.integers(0, lengths), -1)
    cells = int(lengths.sum())
    generator = torch.Generator(device).manual_seed(0)
    if popularity == "zipf":
        weight = 1 / torch.arange(1, size.items + 1, device=device, dtype=torch.float64)
        place = torch.rand(cells, generator=generator, device=device, dtype=torch.float64)
        ranks = torch.searchsorted(weight.cumsum(0) / weight.sum(), place).clamp(max=size.items - 1)
        items = torch.randperm(size.items, generator=generator, device=device)[ranks]
    else:
        items = torch.randint(size.items, (cells,), generator=generator, device=device)
    ends = torch.full((size.users,), size.steps, dtype=torch.int32, device=device)
    return Interactions(
        user_offsets=torch.arange(0, count + 1, size.steps, device=device),
        train_end=ends,
        valid_end=ends,
        times=torch.zeros(count, dtype=torch.int64, device=device),
        sources=torch.from_numpy(rng.integers(0, 2, count)).to(device, torch.uint8),
        clicks=torch.from_numpy(clicks).to(device, torch.int32),
        slate_offsets=torch.from_numpy(np.concatenate([[0], lengths.cumsum()])).to(device),
        slate_items=items.int(),
    )


def _measure(steps: DenseSteps, size: Size, floor: float) -> Row:
    cuda = steps.views.is_cuda
    batches = torch.split(steps.users, size.batch)

    def step(number: int) -> None:
        generator = torch.Generator().manual_seed(number)
        result = steps.step(batches[number % len(batches)], generator, 0.02)
        if not result.finite:
            raise RuntimeError(f"step {number} came to {result}")

    if cuda:
        torch.cuda.reset_peak_memory_stats()
    first = _milliseconds(lambda: step(0), cuda) / 1000
    for number in range(1, size.warm_up):
        step(number)
    times = [_milliseconds(lambda n=n: step(n), cuda) for n in range(size.repeats)]  # type: ignore[misc]
    median = statistics.median(times)
    return {
        "median_ms": median,
        "worst_ms": max(times),
        "floor_ms": floor,
        "times_floor": median / floor,
        "peak_gb": torch.cuda.max_memory_allocated() / 1e9 if cuda else 0.0,
        "first_step_s": first,
        "minutes_800_passes": PASSES * math.ceil(ALL_USERS / size.batch) * median / 60_000,
    }


def _milliseconds(work: Callable[[], object], cuda: bool) -> float:
    if not cuda:
        start = time.perf_counter()
        work()
        return 1000 * (time.perf_counter() - start)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    work()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))


def _bandwidth(device: str) -> float:
    """Return bytes read and written a second by a plain copy."""
    source = torch.randn(1 << 30 if device == "cuda" else 1 << 22, device=device)
    target = torch.empty_like(source)
    copy = [_milliseconds(lambda: target.copy_(source), source.is_cuda) for _ in range(10)]
    return 2 * source.nbytes / (min(copy) / 1000)


def _floor_ms(data: Interactions, size: Size, bandwidth: float) -> float:
    row = 4 * size.dimensions
    cells = len(data.slate_items) * size.batch / size.users
    return 1000 * (TABLES * size.items + ROWS_PER_CELL * cells) * row / bandwidth


def _agreement(device: str) -> dict[str, float]:
    """Return the largest relative error of loss and gradients, beside float64 on the CPU."""
    size = CHECKED
    data = _interactions(size, "uniform", "cpu")
    shape, chosen = (size.steps, size.longest), torch.arange(0, size.items, 8)
    passes = Passes.compiled() if device == "cuda" else Passes()
    errors = {}
    for dynamics, likelihood in product(("linear", "gru"), ("slate", "all-item")):
        model = _model(size, dynamics, likelihood)
        exact = _posterior(model, size, "cpu", torch.float64)
        noise = draw_noise(exact, torch.Generator().manual_seed(0))
        fast = _posterior(model, size, device, torch.float32)

        def results(posterior: Posterior, passes: Passes, noise: Noise = noise) -> list[Tensor]:
            like = posterior.items.mean
            on_device = data.to(like.device)
            batch = passes.pad(
                on_device,
                torch.arange(size.users, device=like.device),
                on_device.train_end,
                shape,
                size.items,
            )
            exposure = Exposure.of(posterior.config, SOURCES)
            if exposure is not None:
                exposure = replace(exposure, source_weights=exposure.source_weights.to(like))
            loss, _ = dense_negative_elbo(
                posterior,
                batch,
                {name: part.to(like) for name, part in noise.items()},
                torch.full_like(like[:, 0], 1e-3),
                1_000,
                exposure,
                Candidates(chosen.to(like.device), size.items),
                passes,
            )
            parts = [posterior.items, *posterior.shared.values()]
            leaves = [leaf for part in parts for leaf in (part.mean, part.raw)]
            wanted = [loss.detach(), *torch.autograd.grad(loss, leaves, allow_unused=True)]
            return [tensor.double().cpu() for tensor in wanted if tensor is not None]

        pairs = zip(results(fast, passes), results(exact, Passes()), strict=True)
        errors[f"{dynamics}, {likelihood}"] = max(
            float((value - right).norm() / right.norm()) for value, right in pairs
        )
        score, right = (_validation_score(data, posterior) for posterior in (fast, exact))
        errors[f"{dynamics}, {likelihood}, validation"] = abs(score / right - 1)
    return errors


def _validation_score(data: Interactions, posterior: Posterior) -> float:
    half = replace(data, train_end=data.train_end // 2)
    exposure = Exposure.of(posterior.config, SOURCES)
    on_device = half.to(posterior.items.mean.device)
    return Validation(on_device, exposure, len(posterior.item_groups)).score(posterior)


def _training_check(device: str, dynamics: str) -> dict[str, float]:
    """Train on clicks that a user makes on what is near her, and see the likelihood rise."""
    size = TRAINED
    data = _interactions(size, "uniform", device)
    count = len(data.clicks)
    generator = torch.Generator(device).manual_seed(1)
    vectors = torch.randn(size.items, 8, generator=generator, device=device)
    wishes = torch.randn(size.users, 8, generator=generator, device=device)
    wish = wishes.repeat_interleave(size.steps, 0)  # [N, D]
    place = data.slate_offsets[:-1, None] + torch.arange(size.longest, device=device)
    seen = data.slate_items[place.clamp(max=len(data.slate_items) - 1)].long()  # [N, S]
    utility = 2.0 - (wish[:, None] - vectors[seen]).norm(dim=2)
    beyond = torch.arange(size.longest, device=device) >= data.scroll_lengths[:, None]
    utility = torch.cat([utility.masked_fill(beyond, -torch.inf), utility.new_zeros(count, 1)], 1)
    chosen = torch.multinomial(utility.softmax(1), 1, generator=generator).squeeze(1)
    data = replace(data, clicks=torch.where(chosen < size.longest, chosen, -1).int())
    steps = _steps(data, size, dynamics, "slate", compiled=device == "cuda")
    batches = torch.split(steps.users, size.batch)
    passes = []
    for epoch in range(PASSED):
        results = [
            steps.step(batch, torch.Generator().manual_seed(epoch * 1000 + n), 0.02)
            for n, batch in enumerate(batches)
        ]
        if not all(result.finite for result in results):
            raise RuntimeError("a step was not finite")
        passes.append(statistics.mean(result.log_likelihood for result in results))
    return {"first_pass": passes[0], "last_pass": passes[-1], "gain": passes[-1] - passes[0]}


if __name__ == "__main__":
    main()
