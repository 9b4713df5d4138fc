"""Rates of made-up rows, held against sums by hand and the standard error of a mean."""

import math

import numpy as np
import pytest

from slatewise.evaluation.ab import click_rate
from slatewise.evaluation.arms import ArmTotals
from slatewise.experiments.comparison import ArmQuestion, answer, differences, percent
from slatewise.experiments.pooling import PooledEstimate, over_worlds
from slatewise.experiments.power import power, slate_variance
from slatewise.experiments.rates import Rates, daily_rates
from slatewise.experiments.store import Row

RESAMPLES = 400


def row(seed: int, arm: str, day: int, users: list[int], clicks: list[int]) -> Row:
    """Two slates each, all of them served; half the clicks and a quarter were expected."""
    expected = [0.5 * count + 0.25 for count in clicks]
    slates = [2] * len(users)
    shown = {"seed": seed, "arm": arm, "day": day, "users": users, "slates": slates}
    return shown | {"served": slates, "clicks": clicks, "expected": expected}


ROWS = [
    row(0, "a", 0, [0, 1], [1, 0]),
    row(0, "b", 0, [2], [2]),
    row(0, "a", 1, [1], [2]),
    row(0, "b", 1, [2, 3], [0, 1]),
    row(5, "a", 0, [0, 4], [0, 2]),
    row(5, "b", 0, [1], [1]),
    row(5, "a", 1, [], []),
    row(5, "b", 1, [1], [1]),
]
PERIODS = {"both": range(2), "first": [0]}


def test_rates_are_clicks_per_slate_averaged_over_seeds() -> None:
    rates = Rates(ROWS, PERIODS, RESAMPLES)
    assert rates.arms == ["a", "b"]
    assert rates.rate("a", "both", "clicks").values.tolist() == [3 / 6, 2 / 4]
    assert rates.rate("b", "both", "clicks").values.tolist() == [3 / 6, 2 / 4]
    assert rates.rate("a", "first", "clicks").values.tolist() == [1 / 4, 2 / 4]
    assert rates.rate("a", "first", "expected").values.tolist() == [1 / 4, 1.5 / 4]
    assert rates.rate("a", "first", "clicks").pooled().value == pytest.approx(3 / 8)
    assert rates.count("a", "both", "slates") == 10


def test_the_table_has_every_arm_period_and_measure() -> None:
    table = Rates(ROWS, PERIODS, RESAMPLES).table()
    assert len(table) == 2 * 2 * 2
    first = table[0]
    assert (first["arm"], first["period"], first["measure"]) == ("a", "both", "expected")
    assert first["slates"] == 10
    assert first["by_seed"] == pytest.approx([2.25 / 6, 1.5 / 4])


def made(rates: dict[str, float], users: int, *, paired: bool, seed: int = 0) -> list[Row]:
    """Draw one slate for each user, arms of their own users or all of the same."""
    rng = np.random.default_rng(seed)
    luck = rng.random(users)
    rows = []
    for number, (arm, rate) in enumerate(rates.items()):
        ids = np.arange(users) + (0 if paired else number * users)
        clicks = ((luck if paired else rng.random(users)) < rate).astype(int)
        ones = np.ones(users, int)
        shown = {"seed": seed, "arm": arm, "day": 0, "users": ids, "slates": ones, "served": ones}
        rows.append(shown | {"clicks": clicks, "expected": np.full(users, rate)})
    return rows


RATES = {"a": 0.3, "b": 0.4}


def width(found: PooledEstimate) -> float:
    return found.high - found.low


def test_intervals_of_arms_that_share_no_user_are_those_of_independent_means() -> None:
    users = 2_000
    rates = Rates(made({"a": 0.3, "b": 0.4}, users, paired=False), {"all": [0]}, 2_000)
    found = (rates.rate("a", "all", "clicks") - rates.rate("b", "all", "clicks")).pooled()
    error = np.sqrt((0.3 * 0.7 + 0.4 * 0.6) / users)
    assert width(found) == pytest.approx(2 * 1.96 * error, rel=0.08)


def test_arms_of_the_same_users_are_paired() -> None:
    users = 2_000
    rates = Rates(made({"a": 0.3, "b": 0.4}, users, paired=True), {"all": [0]}, 2_000)
    found = (rates.rate("b", "all", "clicks") - rates.rate("a", "all", "clicks")).pooled()
    # One in ten clicks in b and not in a: the difference of a user is 1 or 0.
    assert width(found) == pytest.approx(2 * 1.96 * np.sqrt(0.1 * 0.9 / users), rel=0.08)


def test_expected_clicks_have_no_luck_in_them() -> None:
    rates = Rates(made({"a": 0.3}, 100, paired=False), {"all": [0]}, RESAMPLES)
    assert width(rates.rate("a", "all", "expected").pooled()) == pytest.approx(0, abs=1e-12)


def test_a_ratio_without_a_denominator_is_not_a_number() -> None:
    rows = [row(0, "a", 0, [0, 1], [1, 1]), row(0, "b", 0, [2], [0])]
    rates = Rates(rows, {"all": [0]}, RESAMPLES)
    ratio = rates.rate("a", "all", "clicks") / rates.rate("b", "all", "clicks")
    assert np.isnan(ratio.values).all()


def test_daily_rates_have_the_interval_of_users_over_all_seeds() -> None:
    found = {(one["arm"], one["day"]): one for one in daily_rates(ROWS)}
    assert set(found) == {(arm, day) for arm in "ab" for day in (0, 1)}
    first = found["a", 0]
    assert (first["served"], first["clicks"]) == (8, 3)
    totals = ArmTotals(np.array([1, 0, 0, 2]), np.array([2, 2, 2, 2]))
    known = click_rate(totals)
    assert (first["value"], first["low"], first["high"]) == (known.value, known.low, known.high)
    assert first["expected"] == pytest.approx((0.75 + 0.25 + 0.25 + 1.25) / 8)


def test_a_finding_goes_by_expected_clicks_and_notes_the_realised_ones() -> None:
    rows = [one for seed in range(3) for one in made(RATES, 500, paired=False, seed=seed)]
    rates = Rates(rows, {"all": [0]}, RESAMPLES)
    finding = answer(ArmQuestion("Is b better?", "b", "a", "above", "2 and 1"), rates, "all")
    assert finding.value == pytest.approx(0.1)
    assert finding.verdict == "above"
    assert finding.agreement == "agrees"
    assert "realised clicks +0." in finding.note
    assert "smallest detectable difference" in finding.note


def test_one_world_is_no_verdict() -> None:
    rates = Rates(made(RATES, 500, paired=False), {"all": [0]}, RESAMPLES)
    finding = answer(ArmQuestion("Is b better?", "b", "a", "above", "2 and 1"), rates, "all")
    assert finding.low > 0
    assert (finding.verdict, finding.agreement) == ("cannot tell", "cannot tell")
    assert "no verdict from 1 world, 3 are needed (" in finding.sentence()


def test_few_users_with_most_of_the_slates_widen_a_rate() -> None:
    rng = np.random.default_rng(0)
    rows = made(RATES, 200, paired=False)
    heavy = np.ceil(rng.lognormal(1, 2.5, 200)).astype(int)
    skewed = [
        one | {"slates": heavy, "served": heavy, "clicks": rng.binomial(heavy, 0.3)} for one in rows
    ]
    even = Rates(rows, {"all": [0]}, RESAMPLES).rate("a", "all", "clicks")
    few = Rates(skewed, {"all": [0]}, RESAMPLES).rate("a", "all", "clicks")
    for found, row, least, most in ((even, rows[0], 0.9, 1.1), (few, skewed[0], 1.2, 3)):
        clicks, served = row["clicks"], row["served"]
        plain = np.sqrt(((clicks - found.values[0] * served) ** 2).sum()) / served.sum()
        assert least < found.resamples[0].std() / plain < most


def test_the_smallest_effect_is_seen_in_four_of_five_studies() -> None:
    """Ten worlds of normal differences; a verdict in 75 to 85 % of 400 studies, seed by seed."""
    rng, worlds = np.random.default_rng(0), 10
    truth = power(PooledEstimate(0, 0, 0, (0.0,) * worlds, 0.01 / np.sqrt(worlds)), 0.5).smallest
    seen = 0
    for _ in range(400):
        values = rng.normal(truth, 0.01, worlds)
        found = over_worlds(values.tolist(), np.zeros((worlds, 5)) + values[:, None])
        seen += found.low > 0
    assert 300 <= seen <= 340


def test_a_live_test_needs_the_slates_of_the_textbook() -> None:
    # 2 · p (1 − p) · (1.96 + .84)² / δ² for p = .2 and δ = .01: 25,100 an arm.
    error = 0.01 / (1.959964 + 0.841621)
    one = PooledEstimate(0, 0, 0, (0.0,), error)
    assert power(one, 2 * 0.2 * 0.8).live_slates == pytest.approx(25_118, rel=1e-3)
    assert str(power(one, 0.32)).endswith("25,000 slates an arm")
    assert (
        str(power(PooledEstimate(0, 0, 0, ()), 0.32))
        == "the smallest detectable difference is not known"
    )
    assert slate_variance(ArmTotals(np.array([5, 0]), np.array([10, 10])), 0.25) > 0.25 * 0.75


def test_differences_are_from_the_reference() -> None:
    rates = Rates(ROWS, PERIODS, RESAMPLES)
    rows = differences(rates, "a", "first")
    assert [(one["arm"], one["measure"]) for one in rows] == [("b", "expected"), ("b", "clicks")]
    assert rows[1]["by_seed"] == pytest.approx([1 - 0.25, 0.5 - 0.5])
    assert differences(rates, "nobody", "first") == []


def test_rates_are_shown_in_percent() -> None:
    assert percent(PooledEstimate(0.1234, 0.1, 0.15, ())) == "12.3 % [10.0, 15.0]"
    # What few users widen an interval by cannot make a rate negative, or a ratio.
    wide = PooledEstimate(0.5, -0.4, 1.7, ())
    assert percent(wide) == "50.0 % [0.0, 100.0]"
    assert percent(wide, math.inf) == "50.0 % [0.0, 170.0]"
    nan = float("nan")
    assert "nan" in percent(PooledEstimate(nan, nan, nan, ()))
