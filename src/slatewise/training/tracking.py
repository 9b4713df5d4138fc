"""Epochs of a training for experiment trackers, where these are installed.

    slatewise.fit(dataset, observer=mlflow_observer())

logs validation likelihood, the best so far and the learning rate of every epoch to the active run.
"""

from collections.abc import Callable, Mapping
from typing import Final

from slatewise.errors import SlatewiseError
from slatewise.training.loop import Progress
from slatewise.training.trainer import Observer

METRICS: Final = ("validation", "best", "rate")
"""What is logged of an epoch."""


def epoch_observer(log: Callable[[Mapping[str, float], int], object]) -> Observer:
    """Return an observer of training that calls `log` with the metrics of each epoch, from 0."""
    logged = 0

    def observe(at: Progress) -> None:
        nonlocal logged
        for record in at.history[logged:]:
            log({name: float(record[name]) for name in METRICS}, logged)
            logged += 1

    return observe


def mlflow_observer() -> Observer:
    """Log epochs to the active run of MLflow."""
    try:
        import mlflow  # noqa: PLC0415 (optional)
    except ImportError as error:
        raise SlatewiseError("MLflow is not installed.", "pip install mlflow") from error
    return epoch_observer(lambda metrics, epoch: mlflow.log_metrics(dict(metrics), step=epoch))


def wandb_observer() -> Observer:
    """Log epochs to the active run of Weights & Biases, as `wandb.init` started it."""
    try:
        import wandb  # noqa: PLC0415 (optional)
    except ImportError as error:
        raise SlatewiseError("wandb is not installed.", "pip install wandb") from error
    return epoch_observer(lambda metrics, epoch: wandb.log(dict(metrics), step=epoch))
