"""How long one step of training takes on a GPU, with the data resident there, beside its floor.

30,000 users a step with 20 interactions each, slates of up to 25 items (11 on average), exposure as
skewed as 1 / rank, 25 dimensions, 1.3 million items in 300 groups, one draw, everything learned.
`median_ms` covers the whole of `DenseSteps.step` as training takes it, one step after the other
without waiting: gathering the batch, drawing, forward, backward, Adam.

The floor is the fewest bytes over the bandwidth of a plain copy measured in the same run: 17 passes
over an item table (draw 3; Adam on means and scales 12, and the gradient read and cleared), and for
every cell that is seen its number, its features in half precision, a row read and a row of gradient
added; with an exposure term, five products of states with candidates at the measured rate of a
TF32 matrix product come on top.

Then all 2.3 million users of FINN.no are resident, with 16 interactions each, for the memory that
takes; and one size after the other changes: items, users a step, slate length, dimensions.
`--small` runs the same in miniature, on a CPU and in plain torch.
"""

import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from harness import Row, Target, parse, parser, report
from slatewise.data.interactions import Interactions
from slatewise.model.config import ModelConfig
from slatewise.model.likelihood import Exposure
from slatewise.model.posterior import Posterior
from slatewise.model.resident import MOST_BYTES
from slatewise.training.config import TrainingConfig
from slatewise.training.dense import DenseSteps, DeviceResult

TABLES = 17
SOURCES = ["search", "recommendation"]
TERMS = ("bias", "co_clicks", "history", "popularity", "position", "propensity", "source")
FACTOR_OF_TERMS = 1.4
LIMITS = {
    "slate-linear": 5.5,
    "slate-gru": 7.0,
    "all-item-linear": 8.0,
    "all-item-gru": 8.0,
    "source-aware-linear": 8.0,
    "source-aware-gru": 8.0,
}
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

    @property
    def label(self) -> str:
        """What is printed of it."""
        return f"{self.items:,} items, {self.batch:,} users, S {self.longest}, D {self.dimensions}"


FULL = Size(users=120_000, batch=30_000, items=1_300_000, groups=300)
TINY = Size(users=60, batch=30, items=500, groups=5, steps=5, dimensions=3, warm_up=1, repeats=2)
WHOLE = replace(FULL, users=ALL_USERS, steps=16, repeats=10)
CHECKED = replace(TINY, users=200, batch=200, items=1_000, dimensions=25, steps=20)
SCALES: dict[str, tuple[int, ...]] = {
    "items": (100_000, 10_000_000),
    "batch": (3_000, 10_000, 100_000),
    "longest": (10, 100),
    "dimensions": (10, 50, 100),
}
CASES = [
    (f"{likelihood}-{dynamics}", terms)
    for likelihood in ("slate", "all-item", "source-aware")
    for dynamics in ("linear", "gru")
    for terms in ((), TERMS)
]
IN_WHOLE = [("slate-gru", ()), ("slate-gru", TERMS), ("all-item-gru", TERMS)]
SCALED = "slate-gru"
FIRST_STEP_S, PEAK_GB, TOTAL_S = 15.0, 16.0, 480.0
MINIATURE = {
    "device": "cpu",
    "FULL": TINY,
    "WHOLE": replace(TINY, users=90),
    "IN_WHOLE": [("slate-gru", ())],
    "CHECKED": replace(CHECKED, users=20, batch=20, items=100, dimensions=3),
    "SCALES": {"items": (100,), "batch": (10,)},
    "CASES": [("slate-gru", ()), ("source-aware-linear", TERMS)],
}


def main() -> None:
    """Measure every model, then every size, then the error beside float64."""
    arguments = parser(__doc__)
    arguments.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    arguments.add_argument("--first-step", action="store_true", help="time one step, and end")
    options, begun = parse(arguments, globals()), time.perf_counter()
    if options.device == "cpu":
        torch.set_num_threads(1)  # the miniature is over before threads have met
    if options.first_step:
        print(_first_step(options.device))
        return
    bandwidth, rate = _bandwidth(options.device), _product_rate(options.device)
    rows: list[Row] = []

    def measured(size: Size, data: Interactions, name: str, terms: tuple[str, ...]) -> Row:
        steps = _steps(data, size, name, terms)
        floor = _floor_ms(steps, data, size, bandwidth, rate)
        what = {"model": name, "terms": len(terms), "size": size.label, "resident": size.users}
        row = what | _measure(steps, size, floor)
        print(row, file=sys.stderr, flush=True)
        rows.append(row)
        return row

    data = _interactions(FULL, options.device)
    for name, terms in CASES:
        measured(FULL, data, name, terms)
    full = {(row["model"], row["terms"]): row for row in rows}
    del data
    data = _interactions(WHOLE, options.device)
    whole = [measured(WHOLE, data, *case) for case in IN_WHOLE]
    del data
    for size in _scaled():
        measured(size, _interactions(size, options.device), SCALED, ())
    compiled = _first_steps(options.device)
    agreement = dict(_agreement(options.device))
    targets, total = [], time.perf_counter() - begun
    for (name, count), row in full.items():
        limit = LIMITS[name] * (FACTOR_OF_TERMS if count else 1)
        what = f"milliseconds a step, {name}{', all terms' * bool(count)}"
        targets.append(Target(what, row["median_ms"], limit))
    peak = max(row["peak_gb"] for row in whole)
    report(
        options,
        f"A training step, {FULL.batch:,} users, {FULL.items:,} items, {_machine(options.device)}",
        {
            "model": "{}",
            "terms": "{}",
            "size": "{}",
            "resident": "{:,}",
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
            *targets,
            Target(f"GB at most, {WHOLE.users:,} users resident", peak, PEAK_GB),
            Target("seconds to the first step, nothing cached", compiled[0], FIRST_STEP_S),
            Target("seconds to the first step, in the next run", compiled[1], FIRST_STEP_S),
            Target("seconds of all of this", total, TOTAL_S),
            Target("millionths of error beside float64", 1e6 * max(agreement.values()), 2_000),
        ],
        machine=_machine(options.device),
        copy_tb_per_s=bandwidth / 1e12,
        tf32_tflops=rate / 1e12,
        first_steps_s=compiled,
        agreement=agreement,
        seconds=total,
    )


def _scaled() -> Iterator[Size]:
    for field, values in SCALES.items():
        for value in values:
            size = replace(FULL, **{field: value})  # type: ignore[arg-type]
            yield replace(size, users=max(size.users, 2 * size.batch), repeats=10)


def _machine(device: str) -> str:
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    return f"{name}, torch {torch.__version__}"


def _model(size: Size, name: str, terms: tuple[str, ...], **more: object) -> ModelConfig:
    likelihood, _, dynamics = name.rpartition("-")
    values = {"dynamics": dynamics, "likelihood": likelihood, "dimensions": size.dimensions}
    return ModelConfig.build(values | {"terms": terms, "negatives": 1_024} | more, "the benchmark")


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
    return posterior


def _steps(data: Interactions, size: Size, name: str, terms: tuple[str, ...]) -> DenseSteps:
    model = _model(size, name, terms)
    posterior = _posterior(model, size, data.clicks.device)
    data = _described(data, posterior)
    training = TrainingConfig(batch_users=size.batch)
    return DenseSteps(posterior, data, training, Exposure.of(model, SOURCES))


def _described(data: Interactions, posterior: Posterior) -> Interactions:
    """Draw features: their values do not matter to the time."""
    device, parameters = data.clicks.device, posterior.mean()
    generator = torch.Generator(device).manual_seed(0)
    dtype = torch.float16 if device.type == "cuda" else torch.float32
    cells = steps = None
    if parameters.cell_weights is not None:
        shape = len(data.slate_items), len(parameters.cell_weights)
        if 2 * math.prod(shape) > MOST_BYTES:
            options = {"generator": generator, "device": device, "dtype": torch.int8}
            cells = torch.randint(-127, 128, shape, **options)
            data = replace(data, cell_scales=torch.full(shape[1:], 1 / 64, device=device))
        else:
            cells = torch.randn(shape, generator=generator, device=device, dtype=dtype)
    if parameters.step_weights is not None:
        shape = len(data.clicks), len(parameters.step_weights)
        steps = torch.randn(shape, generator=generator, device=device)
    return replace(data, cell_features=cells, step_features=steps)


def _interactions(size: Size, device: str) -> Interactions:
    """Draw users who all have `size.steps` interactions, and clicks without rhyme or reason."""
    rng = np.random.default_rng(0)
    count, mean = size.users * size.steps, 0.42 * size.longest
    lengths = rng.negative_binomial(3, 3 / (3 + mean), count).clip(0, size.longest - 1) + 1
    clicks = np.where(rng.random(count) < 0.5, rng.integers(0, lengths), -1)
    cells = int(lengths.sum())
    generator = torch.Generator(device).manual_seed(0)
    weight = 1 / torch.arange(1, size.items + 1, device=device, dtype=torch.float64)
    place = torch.rand(cells, generator=generator, device=device, dtype=torch.float64)
    ranks = torch.searchsorted(weight.cumsum(0) / weight.sum(), place).clamp(max=size.items - 1)
    items = torch.randperm(size.items, generator=generator, device=device)[ranks]
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
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    results = [_step(steps, batches, 0)]
    first = (results[0].finite, time.perf_counter() - start)[1]  # asking waits for the step
    results += [_step(steps, batches, number) for number in range(1, size.warm_up)]
    marks = [_mark(cuda)]
    for number in range(size.repeats):
        results.append(_step(steps, batches, number))
        marks.append(_mark(cuda))
    if not all(result.finite for result in results):
        raise RuntimeError("a step was not finite")
    times = [_between(*pair) for pair in pairwise(marks)]
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


def _step(steps: DenseSteps, batches: tuple[Tensor, ...], number: int) -> DeviceResult:
    generator = torch.Generator().manual_seed(number)
    return steps.step(batches[number % len(batches)], generator, 0.02)


def _mark(cuda: bool) -> "torch.cuda.Event | float":
    if not cuda:
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _between(one: "torch.cuda.Event | float", other: "torch.cuda.Event | float") -> float:
    """Return milliseconds."""
    if isinstance(one, float) or isinstance(other, float):
        return 1000 * (other - one)  # type: ignore[operator]
    return float(one.elapsed_time(other))


def _best(work: Callable[[], object], cuda: bool) -> float:
    """Return the least seconds of ten runs."""
    marks = []
    for _ in range(11):
        marks.append(_mark(cuda))
        work()
    marks.append(_mark(cuda))
    if cuda:
        torch.cuda.synchronize()
    return min(_between(*pair) for pair in pairwise(marks)) / 1000


def _bandwidth(device: str) -> float:
    """Return bytes read and written a second by a plain copy."""
    source = torch.randn(1 << 30 if device == "cuda" else 1 << 22, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / _best(lambda: target.copy_(source), source.is_cuda)


def _product_rate(device: str) -> float:
    """Return operations a second of a TF32 matrix product."""
    size = 8_192 if device == "cuda" else 128
    one, other = torch.randn(2, size, size, device=device)
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    taken = _best(lambda: one @ other, one.is_cuda)
    torch.backends.cuda.matmul.allow_tf32 = before
    return 2 * size**3 / taken


def _floor_ms(
    steps: DenseSteps, data: Interactions, size: Size, bandwidth: float, rate: float
) -> float:
    posterior = steps.posterior
    row, share = 4 * posterior.items.mean.shape[1], size.batch / size.users
    weights = posterior.mean().cell_weights
    numbers = 0 if weights is None else len(weights)
    features = numbers * (1 if 2 * numbers * len(data.slate_items) > MOST_BYTES else 2)
    cells = len(data.slate_items) * share
    moved = TABLES * size.items * row + cells * (3 * row + 4 + features)
    seconds = moved / bandwidth
    if posterior.config.likelihood != "slate":
        states = size.batch + float((data.clicks >= 0).sum()) * share
        candidates = min(posterior.config.negatives, size.items)
        seconds += 5 * 2 * states * candidates * size.dimensions / rate
    return 1000 * seconds


def _first_step(device: str) -> float:
    """Return seconds from nothing to the first step of a GRU, data and imports left out."""
    size = replace(FULL, users=FULL.batch)
    data = _interactions(size, device)
    start = time.perf_counter()
    steps = _steps(data, size, "slate-gru", ())
    if not _step(steps, torch.split(steps.users, size.batch), 0).finite:
        raise RuntimeError("the first step was not finite")
    return time.perf_counter() - start


def _first_steps(device: str) -> list[float]:
    """Return the same in a process that has compiled nothing, and in the one after it."""
    if device == "cpu":
        return [_first_step(device)] * 2
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, __file__, "--first-step"]
        environment = os.environ | {"TRITON_CACHE_DIR": cache}
        found = [
            subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
            for _ in range(2)
        ]
    return [float(each.stdout.split()[-1]) for each in found]


def _agreement(device: str) -> Iterator[tuple[str, float]]:
    """Yield the largest relative error of loss and gradients, beside float64 on the CPU."""
    size = CHECKED
    data = _interactions(size, "cpu")
    # Products over many candidates are of half precision.
    cases = [(*case, 64) for case in CASES]
    cases += [(*case, 1_024) for case in CASES if not case[0].startswith("slate")]
    for name, terms, negatives in cases:
        # Of the likelihood alone: its gradient in the items is one that both keep.
        model = _model(size, name, terms, temperature=1e-12, negatives=negatives)
        exact, fast = (
            _gradients(data, size, model, where, dtype)
            for where, dtype in (("cpu", torch.float64), (device, torch.float32))
        )
        yield (
            f"{name}{', all terms' * bool(terms)}, {negatives:,} candidates",
            max(
                float((one - other).norm() / other.norm())
                for one, other in zip(fast, exact, strict=True)
            ),
        )


def _gradients(
    data: Interactions, size: Size, model: ModelConfig, device: str, dtype: torch.dtype
) -> list[Tensor]:
    posterior = _posterior(model, size, device, dtype)
    parameters = posterior.mean()
    rng, described = torch.Generator().manual_seed(5), {}
    if parameters.cell_weights is not None:
        # Rounded as a GPU keeps them, so that what differs is the arithmetic.
        shape = len(data.slate_items), len(parameters.cell_weights)
        cells = torch.randn(shape, generator=rng).half()
        described["cell_features"] = cells if device == "cuda" else cells.to(dtype)
    if parameters.step_weights is not None:
        shape = len(data.clicks), len(parameters.step_weights)
        described["step_features"] = torch.randn(shape, generator=rng).to(dtype)
    log = replace(data, **described).to(device)
    training, exposure = TrainingConfig(batch_users=size.batch), Exposure.of(model, SOURCES)
    steps = DenseSteps(posterior, log, training, exposure)
    key = torch.full((1,), 77, dtype=torch.int64, device=device)
    with steps.shared.differentiable():
        loss, _ = steps.negative_elbo(steps.users, log.train_end[steps.users], key)
        loss.backward()  # type: ignore[no-untyped-call]
    if steps.items.gradient is not None:
        steps.items.gradient.collect()
        items = steps.items.gradient.total
    else:
        items = posterior.items.mean.grad
    found = [loss.detach(), items, *steps.shared.gradients(1e9)[0][:1]]
    return [tensor.double().cpu() for tensor in found]


if __name__ == "__main__":
    main()
