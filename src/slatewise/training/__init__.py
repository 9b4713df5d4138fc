"""Fitting the posterior to a dataset, and keeping the result."""

from typing import TYPE_CHECKING

from slatewise.lazy import exports

if TYPE_CHECKING:
    from slatewise.training.config import TrainingConfig as TrainingConfig
    from slatewise.training.runs import load as load
    from slatewise.training.runs import save as save
    from slatewise.training.trainer import StoppedError as StoppedError
    from slatewise.training.trainer import fit as fit

__all__, __dir__, __getattr__ = exports(
    __name__,
    {
        "config": "TrainingConfig",
        "runs": "load save",
        "trainer": "StoppedError fit",
    },
)
