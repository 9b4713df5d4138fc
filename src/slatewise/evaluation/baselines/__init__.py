"""Recommenders without a model: the floor of every table."""

from slatewise.evaluation.baselines.counting import (
    COUNTING,
    Baseline,
    BaseRate,
    CoClick,
    Popularity,
    SmoothedCTR,
)
from slatewise.evaluation.baselines.logits import LOGITS, Logit, fit_logits
from slatewise.evaluation.baselines.registry import BASELINES, fit_baselines

__all__ = [
    "BASELINES",
    "COUNTING",
    "LOGITS",
    "BaseRate",
    "Baseline",
    "CoClick",
    "Logit",
    "Popularity",
    "SmoothedCTR",
    "fit_baselines",
    "fit_logits",
]
