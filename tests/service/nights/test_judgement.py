"""Calibration across halves, paired scores, and when a new model takes over."""

import numpy as np
import pytest

from slatewise.data.ragged import offsets_of
from slatewise.evaluation import Calibration, Estimate, LogLikelihood, Predictions, bootstrap
from slatewise.evaluation.predictions import Slates
from slatewise.service.nights.judgement import (
    Rule,
    Score,
    cross_calibrated,
    decide,
    decide_drift,
    is_surely_worse,
)


def predictions(sharpness: float, users: int = 400) -> Predictions:
    """Predictions of clicks that really follow utilities of sharpness 1."""
    rng = np.random.default_rng(5)
    utilities = rng.normal(size=(users * 4, 3))
    options = np.concatenate([utilities, np.zeros((users * 4, 1))], axis=1)
    choice = (options + rng.gumbel(size=options.shape)).argmax(axis=1)
    slates = Slates(
        users=np.repeat(np.arange(users), 4),
        sources=np.zeros(users * 4, np.uint8),
        clicks=np.where(choice < 3, choice, -1).astype(np.int32),
        offsets=offsets_of(np.full(users * 4, 3)),
        items=np.tile(np.arange(3, dtype=np.int32), users * 4),
    )
    return Predictions.from_utilities(slates, sharpness * utilities.ravel(), np.zeros(users * 4))


def test_a_model_that_is_too_sure_is_judged_as_if_it_were_not() -> None:
    right, bold = (cross_calibrated(predictions(s), ["search"]) for s in (1.0, 3.0))
    raw = LogLikelihood()(predictions(1.0))
    assert LogLikelihood()(predictions(3.0)) < raw - 0.2
    assert LogLikelihood()(bold) == pytest.approx(raw, abs=0.01)
    assert LogLikelihood()(right) == pytest.approx(raw, abs=0.01)


def test_nobody_is_calibrated_by_what_she_did_herself() -> None:
    given = predictions(1.0, users=2)
    found = cross_calibrated(given, ["search"])
    assert found.users.tolist() == [1] * 4 + [0] * 4
    first = Predictions.from_utilities(
        given.take(np.arange(4))[0],
        given.log_probabilities[:12],
        given.no_click_log_probabilities[:4],
    )
    other = Calibration.fit(first, ["search"])
    second = Predictions.from_utilities(
        given.take(np.arange(4, 8))[0],
        given.log_probabilities[12:],
        given.no_click_log_probabilities[4:],
    )
    expected = other.apply(second, ["search"])
    assert found.log_probabilities[:12] == pytest.approx(expected.log_probabilities)


def test_the_interval_of_a_gain_is_that_of_paired_users() -> None:
    one, two = (
        bootstrap(LogLikelihood(), cross_calibrated(predictions(s), ["search"]), seed=3)
        for s in (1.0, 0.8)
    )
    gain = (Score(one, one) - Score(two, two)).log_likelihood
    assert gain.value == pytest.approx(one.value - two.value)
    assert gain.high - gain.low < 0.2 * (one.high - one.low)


def gain(value: float, low: float, high: float) -> Estimate:
    return Estimate(value, low, high, 100, np.zeros(1), "")


@pytest.mark.parametrize(
    ("rule", "found", "promoted"),
    [
        ("not-worse", gain(0.02, -0.1, 0.3), True),
        ("not-worse", gain(0.0, -0.1, 0.1), True),
        ("not-worse", gain(-0.004, -0.009, 0.003), True),
        ("not-worse", gain(-0.004, -0.011, 0.003), False),
        ("not-worse", gain(-0.0028, -0.0035, -0.0022), False),
        ("not-worse", gain(np.nan, np.nan, np.nan), False),
        ("better", gain(0.02, 0.001, 0.3), True),
        ("better", gain(0.02, -0.001, 0.3), False),
        ("always", gain(-1.0, -1.1, -0.9), True),
        ("not-worse", None, True),
        ("better", None, True),
        ("always", None, True),
    ],
)
def test_a_model_is_promoted_by_the_rule(
    rule: Rule, found: Estimate | None, promoted: bool
) -> None:
    decision = decide(found, rule, tolerance=0.01)
    assert decision.promote is promoted
    if found is not None and np.isfinite(found.value):
        assert f"{abs(found.low):.4f}" in decision.why


def test_a_night_that_learned_nothing_better_says_so_without_zeros() -> None:
    decision = decide(gain(0.0, 0.0, 0.0), "not-worse", tolerance=0.01)
    assert decision.promote
    assert "nothing better on held-out users" in decision.why
    assert "0.0000" not in decision.why


def test_a_version_is_surely_worse_by_more_than_the_tolerance_and_by_no_accident() -> None:
    assert is_surely_worse(gain(-0.05, -0.1, -0.001), 0.01)
    assert not is_surely_worse(gain(-0.05, -0.1, 0.001), 0.01)
    assert not is_surely_worse(gain(-0.005, -0.006, -0.004), 0.01)


def test_a_drift_of_losses_that_are_not_sure_is_refused() -> None:
    assert decide_drift(gain(-0.004, -0.009, 0.003), "3", 0.01).promote
    drifted = decide_drift(gain(-0.02, -0.05, 0.003), "3", 0.01)
    assert not drifted.promote
    assert "version 3 was best of the last weeks" in drifted.why
