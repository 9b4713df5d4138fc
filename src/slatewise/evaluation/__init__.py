"""Judging recommenders one step ahead: metrics with intervals, calibration and baselines."""

from slatewise.evaluation.bootstrap import Estimate, bootstrap, difference
from slatewise.evaluation.calibration import Calibration
from slatewise.evaluation.metrics import (
    MRR,
    ClickRate,
    HitRate,
    InSlateAUC,
    InSlateHit,
    InSlateMRR,
    LogLikelihood,
    LogLikelihoodSum,
    Metric,
    PredictedClickRate,
    Recall,
    Recommended,
    TargetRanks,
)
from slatewise.evaluation.parts import Part, part_bounds, prefixes, scored_interactions
from slatewise.evaluation.predictions import Predictions, Slates
from slatewise.evaluation.recommender import Predictor, Ranker, target_ranks, top_items
from slatewise.evaluation.reliability import ExpectedCalibrationError, reliability

__all__ = [
    "MRR",
    "Calibration",
    "ClickRate",
    "Estimate",
    "ExpectedCalibrationError",
    "HitRate",
    "InSlateAUC",
    "InSlateHit",
    "InSlateMRR",
    "LogLikelihood",
    "LogLikelihoodSum",
    "Metric",
    "Part",
    "PredictedClickRate",
    "Predictions",
    "Predictor",
    "Ranker",
    "Recall",
    "Recommended",
    "Slates",
    "TargetRanks",
    "bootstrap",
    "difference",
    "part_bounds",
    "prefixes",
    "reliability",
    "scored_interactions",
    "target_ranks",
    "top_items",
]
