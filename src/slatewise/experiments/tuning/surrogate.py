"""Bayesian optimisation by Ax: what to try next, and what it believes of what was not tried.

A Gaussian process is fitted to all trials anew each time. What comes out depends on the space, the
trials and the seed alone, so a search that was stopped goes on as it would have.
"""

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import torch

from slatewise.errors import SlatewiseError, install_remedy
from slatewise.experiments.store import Row
from slatewise.experiments.tuning.space import Point, Space
from slatewise.experiments.tuning.trials import Trial

if TYPE_CHECKING:
    from ax.api.client import Client

FIGURES: Final = {6: ("temperature", "kappa_mu"), 7: ("sigma_max", "learning_rate")}
"""The settings that a figure of the paper sets against each other."""
TO_LEARN_FROM: Final = 3
"""Trials with a value that the surrogate needs."""

_SCORE: Final = "score"
_GRID: Final = 25


def require_ax() -> None:
    """Raise an error if Ax is not installed."""
    if find_spec("ax") is None:
        raise SlatewiseError("the search needs Ax, which is not installed.", install_remedy("tune"))


def propose(
    space: Space, trials: Sequence[Trial], seed: int, pending: Sequence[Point] = ()
) -> Point:
    """Return the point that promises most after these trials, beside the pending points."""
    with _quiet(), _seeded(seed):
        return space.rounded(_asked(space, trials, seed, pending)[1])


def predict(
    space: Space, trials: Sequence[Trial], points: Sequence[Mapping[str, float]], seed: int
) -> list[tuple[float, float]]:
    """Return what the surrogate believes of points: mean and standard deviation of each."""
    with _quiet(), _seeded(seed):
        # Ax has a fitted surrogate only after it has been asked for a trial.
        client, _ = _asked(space, trials, seed)
        found = client.predict(points=points)
    return [(float(one[_SCORE][0]), float(one[_SCORE][1])) for one in found]


def contours(space: Space, trials: Sequence[Trial], best: Trial, seed: int) -> Iterator[Row]:
    """Yield the surrogate over two settings, the others as in the best trial (Figures 6 and 7)."""
    if sum(trial.value is not None for trial in trials) < TO_LEARN_FROM:
        return
    cells: list[Row] = []
    for figure, names in FIGURES.items():
        # Under a flat prior, σ_v has the part of κ_μ.
        across, up = (name if name in space.ranges else "sigma_v" for name in names)
        head = {"figure": figure, "across": across, "up": up}
        cells += [
            head | {"x": x, "y": y}
            for y in space.grid(up, _GRID)
            for x in space.grid(across, _GRID)
        ]
    points = [
        best.parameters | {cell["across"]: cell["x"], cell["up"]: cell["y"]} for cell in cells
    ]
    believed = predict(space, trials, points, seed)
    for cell, (mean, deviation) in zip(cells, believed, strict=True):
        yield cell | {"mean": mean, "deviation": deviation}


def _asked(
    space: Space, trials: Sequence[Trial], seed: int, pending: Sequence[Point] = ()
) -> "tuple[Client, Mapping[str, float]]":
    """Return a client that knows the trials, and the next trial it wants.

    Points that are pending are trials that it knows to be running.
    """
    client = _client(space, seed)
    for trial in trials:
        index = client.attach_trial(parameters=trial.parameters)
        if trial.value is None:
            client.mark_trial_abandoned(index)
        else:
            client.complete_trial(index, raw_data={_SCORE: trial.value})
    for running in pending:
        client.attach_trial(parameters=running)
    (point,) = client.get_next_trials(max_trials=1).values()
    return client, {name: float(value) for name, value in point.items()}


def _client(space: Space, seed: int) -> "Client":
    from ax.api.client import Client  # noqa: PLC0415 (optional, and takes seconds)
    from ax.api.configs import RangeParameterConfig  # noqa: PLC0415

    client = Client(random_seed=seed)
    client.configure_experiment(
        parameters=[
            RangeParameterConfig(name=name, bounds=bounds, parameter_type="float", scaling="log")
            for name, bounds in space.ranges.items()
        ]
    )
    client.configure_optimization(objective=_SCORE)
    # The first trials are ours: Ax comes in when it has them.
    client.configure_generation_strategy(
        initialization_budget=1, initialization_random_seed=seed, initialize_with_center=False
    )
    return client


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generator and use one thread, which few trials keep busy; restore both.

    With several threads sums are added in another order, and other points chosen.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep back what Ax logs of every trial, and warnings that only its authors can act on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import ax.utils.common.logger as ax_logger  # noqa: PLC0415
        from botorch.exceptions.warnings import BotorchWarning  # noqa: PLC0415
        from linear_operator.utils.warnings import NumericalWarning  # noqa: PLC0415

        # Few trials make badly conditioned fits, which are repeated or get jitter.
        warnings.simplefilter("ignore", BotorchWarning)
        warnings.simplefilter("ignore", NumericalWarning)
        before = ax_logger.ROOT_STREAM_HANDLER.level
        ax_logger.set_stderr_log_level(logging.ERROR)
        try:
            yield
        finally:
            ax_logger.set_stderr_log_level(before)
