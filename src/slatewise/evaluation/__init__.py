"""Judging recommenders one step ahead: metrics with intervals, calibration and baselines."""

from typing import TYPE_CHECKING

from slatewise.evaluation.ab import (
    Comparison,
    Interval,
    against,
    click_rate,
    compare,
    independent_click_rate,
    probability_best,
    rate_difference,
    relative_click_rate,
)
from slatewise.evaluation.arms import ArmTotals, arm_totals, daily_totals
from slatewise.evaluation.baselines import (
    BASELINES,
    COMPARATORS,
    COUNTING,
    LOGITS,
    Baseline,
    BaseRate,
    CoClick,
    Logit,
    Popularity,
    SmoothedCTR,
    fit_baselines,
    fit_logits,
)
from slatewise.evaluation.bootstrap import Estimate, bootstrap, difference
from slatewise.evaluation.calibration import Calibration
from slatewise.evaluation.diversity import (
    Diversity,
    coverage,
    distinct_groups,
    exposure,
    exposure_share,
    gini,
    intra_list_distance,
    little_seen,
)
from slatewise.evaluation.evaluate import (
    Evaluation,
    calibrate,
    evaluate,
    predict_part,
    sample_predictions,
    table,
)
from slatewise.evaluation.metrics import (
    MRR,
    ClickRate,
    HitRate,
    InSlateAUC,
    InSlateHit,
    InSlateMRR,
    LogLikelihood,
    LogLikelihoodPerSlate,
    LogLikelihoodSum,
    Metric,
    PredictedClickRate,
    Recall,
    RecommendedLists,
    TargetRanks,
)
from slatewise.evaluation.off_policy import (
    OffPolicyEstimate,
    doubly_robust,
    ips,
    per_position,
    self_normalised,
)
from slatewise.evaluation.parts import Part, part_bounds, scored_interactions
from slatewise.evaluation.predictions import Predictions, Slates
from slatewise.evaluation.recommender import (
    OnlyPredicts,
    Predictor,
    Ranker,
    target_ranks,
    top_items,
)
from slatewise.evaluation.reliability import ExpectedCalibrationError, reliability
from slatewise.evaluation.sequential import Advice, Verdict, advise, anytime_difference
from slatewise.evaluation.slate_probability import epsilon_mix_probability
from slatewise.evaluation.verdict import BaselineVerdict, judge
from slatewise.lazy import exports

if TYPE_CHECKING:
    from slatewise.evaluation.candidates import settle_candidates
    from slatewise.evaluation.model import ModelRecommender, require_same_items

__all__ = [
    "BASELINES",
    "COMPARATORS",
    "COUNTING",
    "LOGITS",
    "MRR",
    "Advice",
    "ArmTotals",
    "BaseRate",
    "Baseline",
    "BaselineVerdict",
    "Calibration",
    "ClickRate",
    "CoClick",
    "Comparison",
    "Diversity",
    "Estimate",
    "Evaluation",
    "ExpectedCalibrationError",
    "HitRate",
    "InSlateAUC",
    "InSlateHit",
    "InSlateMRR",
    "Interval",
    "LogLikelihood",
    "LogLikelihoodPerSlate",
    "LogLikelihoodSum",
    "Logit",
    "Metric",
    "ModelRecommender",
    "OffPolicyEstimate",
    "OnlyPredicts",
    "Part",
    "Popularity",
    "PredictedClickRate",
    "Predictions",
    "Predictor",
    "Ranker",
    "Recall",
    "RecommendedLists",
    "Slates",
    "SmoothedCTR",
    "TargetRanks",
    "Verdict",
    "advise",
    "against",
    "anytime_difference",
    "arm_totals",
    "bootstrap",
    "calibrate",
    "click_rate",
    "compare",
    "coverage",
    "daily_totals",
    "difference",
    "distinct_groups",
    "doubly_robust",
    "epsilon_mix_probability",
    "evaluate",
    "exposure",
    "exposure_share",
    "fit_baselines",
    "fit_logits",
    "gini",
    "independent_click_rate",
    "intra_list_distance",
    "ips",
    "judge",
    "little_seen",
    "part_bounds",
    "per_position",
    "predict_part",
    "probability_best",
    "rate_difference",
    "relative_click_rate",
    "reliability",
    "require_same_items",
    "sample_predictions",
    "scored_interactions",
    "self_normalised",
    "settle_candidates",
    "table",
    "target_ranks",
    "top_items",
]

# A model needs pydantic, which judging any other recommender does without.
_, __dir__, __getattr__ = exports(
    __name__,
    {"model": "ModelRecommender require_same_items", "candidates": "settle_candidates"},
)
