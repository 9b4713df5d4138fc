"""Fitting the posterior to a dataset, and keeping the result."""

from slatewise.training.config import TrainingConfig
from slatewise.training.fitting import StoppedError, fit
from slatewise.training.runs import load, save

__all__ = ["StoppedError", "TrainingConfig", "fit", "load", "save"]
