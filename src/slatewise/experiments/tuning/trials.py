"""Trials of a search: run, given up where hopeless, and kept as they end."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal

from slatewise.data.dataset import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.experiments.store import read_json, write_json
from slatewise.experiments.study import Bench
from slatewise.experiments.tuning.space import Point, Space
from slatewise.model.fitted import SlateModel
from slatewise.training import fit
from slatewise.training.loop import Progress as State
from slatewise.training.trainer import Observer
from slatewise.words import counted

Origin = Literal["defaults", "sobol", "model"]
Status = Literal["completed", "stopped", "failed"]

_ENOUGH: Final = 3
"""Completed trials from which a new one is held against them."""
_NEVER_FINITE: Final = -1e29
"""Training stands below it as long as no validation likelihood was a number."""


@dataclass(frozen=True)
class Trial:
    """A trial that has ended."""

    number: int
    origin: Origin
    """Where its settings came from: the defaults, the Sobol sequence, or the surrogate."""
    parameters: Point
    status: Status
    value: float | None
    """The objective; of a stopped trial its best so far, None of one that failed."""
    validation: float | None
    """Validation log-likelihood, whatever the objective."""
    curve: list[list[float]]
    """For each stage of training, the best validation log-likelihood by epoch."""
    seconds: float
    why: str = ""
    """Why it was stopped or failed."""

    @property
    def epochs(self) -> int:
        """Passes over the training data."""
        return sum(map(len, self.curve))


class TrialLog:
    """The trials of one search in a JSON file, which is whole after every trial."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.trials: list[Trial] = []
        if file.exists():
            self.trials = [Trial(**record) for record in read_json(file)["trials"]]

    def add(self, trial: Trial) -> None:
        """Keep one more trial."""
        self.trials.append(trial)
        write_json(self._file, {"trials": [asdict(one) for one in self.trials]})


class PrunedTrialError(SlatewiseError):
    """A trial is not worth its remaining epochs."""


def curve_of(history: Sequence[dict[str, Any]]) -> list[list[float]]:
    """Return the best validation log-likelihood by epoch, for each stage of training."""
    stages = groupby(history, key=lambda record: record["stage"])
    return [[record["best"] for record in records] for _, records in stages]


def hopeless(
    curve: Sequence[Sequence[float]], finished: Sequence[Trial], window: int, max_epochs: int
) -> str:
    """Return why a trial should end early, or an empty text.

    It should if, gaining as fast as over the last `window` epochs until its last epoch, it would
    still end below the median of the completed trials. Learning curves flatten, so this pace is
    more than it can hope for. Held against other trials at the same *epoch* instead, small
    learning rates would be stopped that end above all others.
    """
    bars = [trial.curve[len(curve) - 1][-1] for trial in finished if trial.status == "completed"]
    stage = curve[-1]
    if len(bars) < _ENOUGH or len(stage) <= window:
        return ""
    pace = (stage[-1] - stage[-1 - window]) / window
    reachable = stage[-1] + pace * (max_epochs - len(stage))
    if reachable >= median(bars):
        return ""
    return (
        f"after {len(stage)} epochs {stage[-1]:.4f}, at its pace {reachable:.4f} at most; "
        f"the median of {counted(len(bars), 'trial')} is {median(bars):.4f}"
    )


def run_trial(
    dataset: SlateDataset,
    space: Space,
    point: Point,
    *,
    number: int,
    origin: Origin,
    seed: int,
    device: str,
    finished: Sequence[Trial],
    score: Callable[[SlateModel], float] | None,
    observer: Observer,
) -> Trial:
    """Train with the settings of a point and score the model.

    Without `score` the validation likelihood is the objective, and hopeless trials are stopped.
    """
    model, training = space.configs(point)
    history: list[dict[str, Any]] = []
    steps = 0

    def observe(at: State) -> None:
        nonlocal steps
        steps += 1
        observer(at)
        if len(at.history) == len(history):
            return
        history[:] = at.history
        goes_on = at.stage == history[-1]["stage"]
        if score is None and goes_on:
            why = hopeless(curve_of(history), finished, training.patience, training.max_epochs)
            if why:
                raise PrunedTrialError(why)

    start = time.perf_counter()
    status: Status = "completed"
    value, validation, why = None, None, ""
    try:
        fitted = fit(dataset, model, training, seed=seed, device=device, observer=observe)
    except PrunedTrialError as error:
        status, why = "stopped", error.problem
        value = validation = history[-1]["best"]
    except SlatewiseError as error:
        if not steps:  # Not the settings: no trial could be run.
            raise
        status, why = "failed", error.problem
    else:
        validation = fitted.metrics["validation_log_likelihood"]
        value = score(fitted) if score is not None else validation
    if validation is not None and validation < _NEVER_FINITE:
        status, why = "failed", "the validation likelihood was never finite"
        value = validation = None
    seconds = time.perf_counter() - start
    return Trial(number, origin, point, status, value, validation, curve_of(history), seconds, why)


def shown(text: str, bench: Bench) -> Callable[[State], None]:
    """Return an observer that shows the epochs of a training."""

    def observe(at: State) -> None:
        bench.progress(f"{text}, epoch {at.epoch + 1}", at.step, at.steps)

    return observe
