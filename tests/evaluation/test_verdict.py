"""The verdict over a model: three sentences, each for a case where it must be said."""

import json
from dataclasses import replace

import numpy as np
import pytest

from slatewise.data import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.evaluation import (
    BaseRate,
    Estimate,
    Evaluation,
    SmoothedCTR,
    evaluate,
    judge,
)
from slatewise.evaluation.panel import ALL

LUCK = np.random.default_rng(0).normal(size=1_000)
"""What resampling does to every recommender alike: users who are easy or hard to predict."""


def judged(*, noise: float = 0.0, sample: str = "same users", **values: float) -> Evaluation:
    """An evaluation with a metric for each value, all with the same luck and noise of their own."""
    own = noise * np.random.default_rng(1).normal(size=len(LUCK))
    estimates = {
        name: {ALL: Estimate.of(value, value + LUCK + own, 100, sample)}
        for name, value in values.items()
    }
    return Evaluation({}, estimates, {}, dict.fromkeys(values, True))


def test_each_sentence_follows_from_the_interval_of_the_paired_difference() -> None:
    baselines = {"weak": judged(log_likelihood=-2.0), "strong": judged(log_likelihood=-1.0)}
    better = judge("mine", judged(log_likelihood=-0.9, noise=0.01), baselines)
    assert better.sentence == "mine is better than strong."
    assert better.difference.value == pytest.approx(0.1)
    assert 0.07 < better.difference.low < 0.1 < better.difference.high < 0.13
    worse = judge("mine", judged(log_likelihood=-1.1, noise=0.01), baselines)
    assert worse.sentence == "mine is worse than strong: do not use it."
    unclear = judge("mine", judged(log_likelihood=-0.9, noise=1.0), baselines)
    assert unclear.sentence == "mine and strong show no clear difference."


def test_a_model_is_judged_after_calibration_and_baselines_as_they_are() -> None:
    model = replace(judged(log_likelihood=-3.0), calibrated=judged(log_likelihood=-0.5))
    baseline = replace(judged(log_likelihood=-1.0), calibrated=judged(log_likelihood=-0.1))
    found = judge("mine", model, {"base": baseline})
    assert found.difference.value == pytest.approx(0.5)


def test_ranking_decides_where_the_metric_is_a_recall() -> None:
    model = judged(**{"log_likelihood": -9.0, "recall@20": 0.3})
    model = replace(model, calibrated=judged(log_likelihood=-9.0))
    baselines = {
        "logit": judged(log_likelihood=-0.1),  # ranks nothing
        "popular": judged(**{"log_likelihood": -1.0, "recall@20": 0.2}),
    }
    found = judge("mine", model, baselines, "recall@20")
    assert (found.baseline, found.metric) == ("popular", "recall@20")
    assert found.sentence == "mine is better than popular."
    with pytest.raises(SlatewiseError, match="no baseline has the metric 'recall@20'"):
        judge("mine", model, {"logit": baselines["logit"]}, "recall@20")


def test_what_has_no_value_cannot_be_told_apart() -> None:
    nothing = judged(**{"recall@20": float("nan")})
    found = judge("mine", nothing, {"a": nothing, "b": nothing}, "recall@20")
    assert found.sentence == "mine and a show no clear difference."
    text = json.dumps(found.to_json(), allow_nan=False)
    assert json.loads(text)["difference"]["low"] is None


def test_evaluations_of_other_users_are_refused() -> None:
    other = judged(log_likelihood=-1.0, sample="other users")
    with pytest.raises(SlatewiseError, match="different users"):
        judge("mine", judged(log_likelihood=-1.0), {"base": other})


def test_the_obvious_world_gets_the_obvious_verdicts(toy: SlateDataset) -> None:
    kinds = (BaseRate, SmoothedCTR)
    found = {kind.name: evaluate(kind.fit(toy), toy, resamples=200) for kind in kinds}
    rates, base = found["smoothed CTR"], found["base rate"]
    assert judge("rates", rates, {"base rate": base}).sentence == "rates is better than base rate."
    worse = judge("base", base, {"base rate": base, "smoothed CTR": rates})
    assert worse.sentence == "base is worse than smoothed CTR: do not use it."
    twin = judge("twin", rates, {"smoothed CTR": rates})
    assert twin.sentence == "twin and smoothed CTR show no clear difference."
    assert (twin.difference.low, twin.difference.high) == (0, 0)
