"""Totals per user: small examples by hand, the variance against other ways to it."""

import numpy as np
import pytest

from slatewise.errors import SlatewiseError
from slatewise.evaluation import ArmTotals, arm_totals, daily_totals


def arm(clicks: list[int], impressions: list[int]) -> ArmTotals:
    return ArmTotals(np.array(clicks), np.array(impressions))


def test_rows_are_added_up_by_user_and_arm() -> None:
    found = arm_totals(
        np.array([7, 3, 7, 5, 9]),
        np.array(["b", "a", "b", "b", "a"]),
        np.array([1, 0, 2, 0, 0]),
        np.array([4, 5, 3, 1, 0]),
    )
    assert list(found) == ["a", "b"]
    assert (found["a"].clicks.tolist(), found["a"].impressions.tolist()) == ([0], [5])
    assert (found["b"].clicks.tolist(), found["b"].impressions.tolist()) == ([0, 3], [1, 7])
    assert found["b"].click_rate == 3 / 8


def test_days_stand_alone() -> None:
    days, users = np.array([2, 1, 2, 2]), np.array([0, 0, 0, 1])
    clicks, shown = np.array([1, 0, 1, 0]), np.ones(4, dtype=np.int64)
    found = daily_totals(days, users, np.array(["a"] * 4), clicks, shown)
    assert list(found) == [1, 2]
    assert found[1]["a"].impressions.tolist() == [1]
    assert found[2]["a"].clicks.tolist() == [2, 0]
    assert found[2]["a"].impressions.tolist() == [2, 1]


def test_one_impression_each_is_the_binomial() -> None:
    single = arm([1] * 30 + [0] * 70, [1] * 100)
    assert single.variance == pytest.approx(0.3 * 0.7 / 99)
    assert single.design_effect == pytest.approx(1)
    assert single.effective_impressions == pytest.approx(100)


def test_the_variance_is_the_jackknife_of_the_ratio() -> None:
    rng = np.random.default_rng(0)
    shown = rng.integers(1, 30, 40)
    clicks = rng.binomial(shown, rng.beta(1, 4, 40))
    left_out = [np.delete(clicks, user).sum() / np.delete(shown, user).sum() for user in range(40)]
    rate = clicks.sum() / shown.sum()
    expected = 39 / 40 * ((np.array(left_out) - rate) ** 2).sum()
    assert ArmTotals(clicks, shown).variance == pytest.approx(expected)


def test_the_variance_is_that_of_fresh_users() -> None:
    """The mean of 2,000 estimated variances against the variance of the 2,000 rates."""
    rng = np.random.default_rng(1)
    shown = rng.integers(1, 30, (2_000, 200))
    clicks = rng.binomial(shown, rng.beta(1, 4, shown.shape))
    arms = [ArmTotals(*rows) for rows in zip(clicks, shown, strict=True)]
    rates = np.array([one.click_rate for one in arms])
    # The variance of 2,000 rates is itself known to √(2/2,000) = 3 %.
    assert np.mean([one.variance for one in arms]) == pytest.approx(rates.var(), rel=0.1)


def test_copies_of_an_impression_tell_nothing_new() -> None:
    single = arm([1] * 30 + [0] * 70, [1] * 100)
    tenfold = arm([10] * 30 + [0] * 70, [10] * 100)
    assert tenfold.variance == pytest.approx(single.variance)
    # (U − 1) / (M − 1) of the slates, and Student's quantiles for 999 and for 99 degrees.
    assert tenfold.effective_impressions == pytest.approx(
        1_000 * 99 / 999 * (1.96234 / 1.98422) ** 2, rel=1e-4
    )
    assert tenfold.design_effect == pytest.approx(10, rel=0.02)


def test_one_user_tells_nothing_of_users() -> None:
    lone = arm([3], [10])
    assert lone.click_rate == 0.3
    assert lone.variance == np.inf
    assert lone.effective_impressions == 0


def test_nobody_and_nothing_are_no_error() -> None:
    nobody = arm_totals(np.array([1]), np.array(["a"]), np.array([0]), np.array([0]))["a"]
    assert np.isnan(nobody.click_rate)
    assert nobody.effective_impressions == 0
    never = arm([0, 0, 0], [5, 5, 5])
    assert (never.click_rate, never.variance, never.design_effect) == (0, 0, 1)
    # 15 impressions, less what Student's quantile for three users costs.
    assert 0 < never.effective_impressions < 15
    assert arm_totals(*(np.zeros(0, dtype=np.int64) for _ in range(4))) == {}


@pytest.mark.parametrize(
    ("arms", "clicks", "problem"),
    [
        ([0, 1, 1], [0, 0, 0], "2 users in more than one arm|1 user in more"),
        ([0, 0, 1], [2, 1, 0], "more clicks than impressions"),
        ([0, 0, 1], [-1, 1, 0], "negative"),
    ],
)
def test_impossible_experiments_are_refused(
    arms: list[int], clicks: list[int], problem: str
) -> None:
    with pytest.raises(SlatewiseError, match=problem):
        arm_totals(np.array([4, 4, 5]), np.array(arms), np.array(clicks), np.ones(3, dtype=int))
