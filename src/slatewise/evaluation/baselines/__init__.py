"""Recommenders to compare with: the floor of every table, and models of others."""

from slatewise.evaluation.baselines.counting import (
    COUNTING,
    Baseline,
    BaseRate,
    CoClick,
    Popularity,
    SmoothedCTR,
)
from slatewise.evaluation.baselines.logits import LOGITS, Logit, fit_logits
from slatewise.evaluation.baselines.registry import BASELINES, COMPARATORS, fit_baselines

__all__ = [
    "BASELINES",
    "COMPARATORS",
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
