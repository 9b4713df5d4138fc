"""Fitting the posterior to a dataset, and keeping the result."""

from typing import TYPE_CHECKING

from slatewise.lazy import exports

if TYPE_CHECKING:
    from slatewise.training.config import TrainingConfig as TrainingConfig
    from slatewise.training.runs import load as load
    from slatewise.training.runs import save as save
    from slatewise.training.tracking import epoch_observer as epoch_observer
    from slatewise.training.tracking import mlflow_observer as mlflow_observer
    from slatewise.training.tracking import wandb_observer as wandb_observer
    from slatewise.training.trainer import StoppedError as StoppedError
    from slatewise.training.trainer import fit as fit

__all__, __dir__, __getattr__ = exports(
    __name__,
    {
        "config": "TrainingConfig",
        "runs": "load save",
        "tracking": "epoch_observer mlflow_observer wandb_observer",
        "trainer": "StoppedError fit",
    },
)
