import math
from collections.abc import Iterator

import numpy as np
import pytest

from slatewise.errors import SlatewiseError
from slatewise.evaluation.arms import ArmTotals
from slatewise.evaluation.sequential import (
    LEAST_USERS,
    Verdict,
    advise,
    anytime_difference,
    half_width,
)

DAYS, A_DAY = 60, 10
RATE, WORTH = 0.2, 0.04


def an_arm(rate: float, rng: np.random.Generator) -> Iterator[ArmTotals]:
    """What an arm has seen at the end of each day: users come, differ, and come back."""
    users = DAYS * A_DAY
    own = rng.beta(6 * rate, 6 * (1 - rate), users)  # [U] users have habits
    arrival = np.arange(users) // A_DAY
    visits = rng.random((DAYS, users)) < 0.25
    visits[arrival, np.arange(users)] = True
    visits &= arrival <= np.arange(DAYS)[:, None]
    clicks = visits & (rng.random((DAYS, users)) < own)
    shown, clicked = visits.cumsum(axis=0), clicks.cumsum(axis=0)  # [days, U]
    for day in range(DAYS):
        here = slice((day + 1) * A_DAY)
        yield ArmTotals(clicked[day, here], shown[day, here])


def looks(rate: float, seed: int) -> Iterator[tuple[ArmTotals, ArmTotals]]:
    """Both arms at the end of each day from which anything may be decided."""
    first, second = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1])
    for arm, reference in zip(an_arm(rate, first), an_arm(RATE, second), strict=True):
        if len(arm.clicks) >= LEAST_USERS:
            yield arm, reference


def test_peeking_every_day_is_safe_where_the_usual_interval_is_wrong_far_too_often() -> None:
    experiments, wrong, naively_wrong = 500, 0, 0
    for seed in range(experiments):
        anytime, naive = False, False
        for arm, reference in looks(RATE, seed):
            found = anytime_difference(arm, reference, WORTH)
            anytime |= found.excludes(0)
            error = math.sqrt(arm.variance + reference.variance)
            naive |= abs(found.value) > 1.96 * error
        wrong, naively_wrong = wrong + anytime, naively_wrong + naive
    # Three standard errors of a share of 5 % in 500 experiments are 3 points.
    assert wrong / experiments <= 0.05 + 0.03
    assert naively_wrong / experiments > 0.15


def test_a_difference_that_exists_is_found_before_the_end() -> None:
    found = 0
    for seed in range(60):
        verdicts = [advise(*pair, WORTH, days=1).verdict for pair in looks(RATE + 0.08, seed)]
        found += Verdict.BETTER in verdicts
        assert Verdict.WORSE not in verdicts
    assert found >= 51


def test_the_boundary_is_crossed_by_a_brownian_motion_with_the_probability_it_promises() -> None:
    rng = np.random.default_rng(3)
    steps = rng.standard_normal((4_000, 2_000)) * 0.1
    motion = np.cumsum(steps, axis=1)  # variance of the mean at step t: 1 / (t / 100)
    time = 0.01 * np.arange(1, 2_001)
    widths = np.array([half_width(1 / t, worth=1.0, level=0.9) for t in time])
    crossed = (np.abs(motion / time) > widths).any(axis=1).mean()
    assert 0.05 < crossed < 0.1 + 3 * math.sqrt(0.09 / 4_000)  # loose only as time is bounded


def test_the_boundary_is_where_the_mixture_of_likelihoods_reaches_one_in_twenty() -> None:
    variance, worth = 0.3, 0.7
    value = half_width(variance, worth)
    drifts = np.linspace(-12, 12, 200_001) * worth
    prior = np.exp(-0.5 * (drifts / worth) ** 2) / (worth * math.sqrt(2 * math.pi))
    ratio = np.exp((value * drifts - drifts**2 / 2) / variance)
    assert np.trapezoid(prior * ratio, drifts) == pytest.approx(20, rel=1e-6)


def flat(users: int, clicked: int, shown: int = 1) -> ArmTotals:
    clicks = np.zeros(users, dtype=np.int64)
    clicks[:clicked] = 1
    return ArmTotals(clicks, np.full(users, shown))


def test_advice_says_who_is_better_who_is_worse_and_when_there_is_nothing_to_find() -> None:
    few, many = flat(10_000, 1_000), flat(10_000, 1_400)
    better = advise(many, few, 0.02, days=7)
    assert (better.verdict, better.stop, better.more_days) == (Verdict.BETTER, True, None)
    assert better.words("new", "old").startswith("stop: new is better than old, by 0.0")
    assert advise(few, many, 0.02, days=7).words("new", "old").startswith("stop: new is worse")
    alike = advise(few, flat(10_000, 1_005), 0.02, days=7)
    assert alike.verdict is Verdict.ALIKE
    assert "do not differ by more than 0.0200" in alike.words("new", "old")


def test_advice_to_go_on_says_for_how_long_and_that_comes_true() -> None:
    first = advise(flat(1_000, 100), flat(1_000, 125), 0.02, days=4)
    assert first.verdict is Verdict.OPEN
    assert first.more_days is not None
    assert f"about {first.more_days} more days" in first.words("new", "old")
    times = (4 + first.more_days) / 4
    a, b = (flat(round(1_000 * times), round(clicks * times)) for clicks in (100, 125))
    assert advise(a, b, 0.02, days=4 + first.more_days).stop
    times = (2 + first.more_days) / 4
    a, b = (flat(round(1_000 * times), round(clicks * times)) for clicks in (100, 125))
    assert not advise(a, b, 0.02, days=2 + first.more_days).stop


def test_nothing_is_decided_by_a_handful_of_users_or_clicks() -> None:
    for tiny in (flat(99, 50), flat(5_000, 19), flat(100, 95)):
        advice = advise(tiny, flat(5_000, 2_500), 0.01, days=1)
        assert advice.verdict is Verdict.OPEN
        assert advice.difference.low == -math.inf
        assert "fewer than" in advice.words("new", "old")


def test_an_end_that_is_years_away_is_not_promised() -> None:
    advice = advise(flat(200, 100), flat(200, 100), 0.0001, days=30)
    assert advice.more_days is None
    assert "more than 365 days" in advice.words("new", "old")


def test_a_difference_worth_nothing_cannot_be_looked_for() -> None:
    with pytest.raises(SlatewiseError, match="cannot be looked for"):
        anytime_difference(flat(200, 100), flat(200, 100), 0.0)
