"""Judging recommenders one step ahead: metrics with intervals, calibration and baselines."""

from slatewise.evaluation.baselines import (
    BASELINES,
    Baseline,
    BaseRate,
    CoClick,
    Popularity,
    SmoothedCTR,
    fit_baselines,
)
from slatewise.evaluation.bootstrap import Estimate, bootstrap, difference
from slatewise.evaluation.calibration import Calibration
from slatewise.evaluation.evaluate import Evaluation, calibrate, evaluate, table
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
from slatewise.evaluation.model import ModelRecommender, require_same_items
from slatewise.evaluation.parts import Part, part_bounds, scored_interactions
from slatewise.evaluation.predictions import Predictions, Slates
from slatewise.evaluation.recommender import Predictor, Ranker, target_ranks, top_items
from slatewise.evaluation.reliability import ExpectedCalibrationError, reliability

__all__ = [
    "BASELINES",
    "MRR",
    "BaseRate",
    "Baseline",
    "Calibration",
    "ClickRate",
    "CoClick",
    "Estimate",
    "Evaluation",
    "ExpectedCalibrationError",
    "HitRate",
    "InSlateAUC",
    "InSlateHit",
    "InSlateMRR",
    "LogLikelihood",
    "LogLikelihoodSum",
    "Metric",
    "ModelRecommender",
    "Part",
    "Popularity",
    "PredictedClickRate",
    "Predictions",
    "Predictor",
    "Ranker",
    "Recall",
    "Recommended",
    "Slates",
    "SmoothedCTR",
    "TargetRanks",
    "bootstrap",
    "calibrate",
    "difference",
    "evaluate",
    "fit_baselines",
    "part_bounds",
    "reliability",
    "require_same_items",
    "scored_interactions",
    "table",
    "target_ranks",
    "top_items",
]
