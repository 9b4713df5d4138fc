"""Fitting the posterior to a dataset, and keeping the result."""

from typing import TYPE_CHECKING

from slatewise.lazy import exports

if TYPE_CHECKING:
    from slatewise.training.config import TrainingConfig as TrainingConfig
    from slatewise.training.fitting import StoppedError as StoppedError
    from slatewise.training.fitting import fit as fit
    from slatewise.training.runs import load as load
    from slatewise.training.runs import save as save

_HOMES = {
    "TrainingConfig": "slatewise.training.config",
    "StoppedError": "slatewise.training.fitting",
    "fit": "slatewise.training.fitting",
    "load": "slatewise.training.runs",
    "save": "slatewise.training.runs",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605

__getattr__ = exports(__name__, _HOMES)
