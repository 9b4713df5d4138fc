"""Click rates of the arms of an experiment and their differences, with 95 % intervals.

The interval of a click rate is that of a Beta posterior over as many independent impressions as
the users' impressions are worth (`ArmTotals.effective_impressions`). Those of differences and
ratios are built from the intervals of the two rates, so that both always give the same verdict.
"""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from slatewise.errors import SlatewiseError
from slatewise.evaluation.arms import ArmTotals
from slatewise.evaluation.bootstrap import LEVEL

Name = TypeVar("Name", bound=Hashable)

PRIOR: Final = 0.5
"""Both parameters of the Beta prior of a click rate: Jeffreys', worth one impression."""
DRAWS: Final = 100_000
"""Draws of all click rates, by which the best arm is found."""


@dataclass(frozen=True)
class Interval:
    """A value and where it lies with a probability of 95 %; nan where nothing is known."""

    value: float
    low: float
    high: float

    def excludes(self, value: float) -> bool:
        """Return whether `value` lies outside."""
        return value < self.low or value > self.high

    def to_json(self) -> dict[str, float | None]:
        """Return the three numbers; None stands for nan and for infinities."""
        numbers = {"value": self.value, "low": self.low, "high": self.high}
        return {name: n if math.isfinite(n) else None for name, n in numbers.items()}


@dataclass(frozen=True)
class Comparison:
    """An arm against a reference."""

    difference: Interval
    """Of the click rates: arm − reference."""
    lift: Interval
    """Relative difference: arm / reference − 1."""


def click_rate(arm: ArmTotals) -> Interval:
    """Return the click rate with the interval to show: the one that knows of users."""
    return _credible(arm, arm.effective_impressions)


def independent_click_rate(arm: ArmTotals) -> Interval:
    """Return the click rate with the Beta posterior's interval for independent impressions.

    Too narrow where users differ or come back; for comparison with figures made that way.
    """
    return _credible(arm, float(arm.impressions.sum()))


def _credible(arm: ArmTotals, impressions: float) -> Interval:
    from scipy.special import betaincinv  # noqa: PLC0415 – a third of a second to load

    rate, tail = arm.click_rate, (1 - LEVEL) / 2
    if math.isnan(rate):
        return Interval(rate, rate, rate)
    a, b = PRIOR + rate * impressions, PRIOR + (1 - rate) * impressions
    low = float(betaincinv(a, b, tail)) if rate > 0 else 0.0
    high = float(betaincinv(a, b, 1 - tail)) if rate < 1 else 1.0
    return Interval(rate, min(low, rate), max(high, rate))


def rate_difference(arm: ArmTotals, reference: ArmTotals) -> Interval:
    """Return the difference of the click rates of two arms, which share no users.

    Its ends lie at the distances of the rates' own ends, squared and added. Unlike ±1.96 standard
    errors that stays sensible with few clicks or none.
    """
    p, q = click_rate(arm), click_rate(reference)
    value = p.value - q.value
    down = math.hypot(p.value - p.low, q.high - q.value)
    up = math.hypot(p.high - p.value, q.value - q.low)
    return Interval(value, value - down, value + up)


def relative_click_rate(arm: ArmTotals, reference: ArmTotals) -> Interval:
    """Return the ratio of the click rates of two arms: all-item / slate in the paper's Table 2.

    An end is the ratio R at which the interval of p − R q just reaches zero, p and q combined as in
    `rate_difference`; so 1 is outside exactly if 0 is outside of the difference. Without clicks in
    the reference the ratio is infinite or nan, and its upper end infinite.
    """
    p, q = click_rate(arm), click_rate(reference)
    if math.isnan(p.value) or math.isnan(q.value):
        return Interval(math.nan, math.nan, math.nan)
    both = p.value * q.value
    # p² − (p − low)², and the same of the other three ends.
    p_low, p_high = (end * (2 * p.value - end) for end in (p.low, p.high))
    q_low, q_high = (end * (2 * q.value - end) for end in (q.low, q.high))
    down = both + math.sqrt(max(both**2 - p_low * q_high, 0))
    up = both + math.sqrt(max(both**2 - p_high * q_low, 0))
    low = p_low / down if down > 0 else 0.0
    high = up / q_low if q_low > 0 else math.inf
    if q.value > 0:
        return Interval(p.value / q.value, low, high)
    return Interval(math.inf if p.value > 0 else math.nan, low, high)


def compare(arm: ArmTotals, reference: ArmTotals) -> Comparison:
    """Return how an arm differs from a reference, absolutely and relatively."""
    ratio = relative_click_rate(arm, reference)
    lift = Interval(ratio.value - 1, ratio.low - 1, ratio.high - 1)
    return Comparison(rate_difference(arm, reference), lift)


def against(arms: Mapping[Name, ArmTotals], reference: Name) -> dict[Name, Comparison]:
    """Compare every other arm with the reference.

    Each interval holds by itself: of twenty arms that are all alike, one will stand out.
    """
    if reference not in arms:
        raise SlatewiseError(
            f"There is no arm '{reference}'.", f"Choose one of {', '.join(map(str, arms))}."
        )
    return {name: compare(arm, arms[reference]) for name, arm in arms.items() if name != reference}


def probability_best(arms: Mapping[Name, ArmTotals], *, seed: int = 0) -> dict[Name, float]:
    """Return the probability that each arm has the greatest click rate of all.

    Rates are drawn from the posteriors of `click_rate`, so the numbers have a standard error of
    up to ½/√`DRAWS`. An arm without impressions takes no part: nan.
    """
    rng = np.random.default_rng(seed)
    best = np.full(DRAWS, -1.0)
    winner = np.full(DRAWS, -1)  # [DRAWS]
    for number, arm in enumerate(arms.values()):
        if math.isnan(arm.click_rate):
            continue
        hits = arm.click_rate * arm.effective_impressions
        misses = arm.effective_impressions - hits
        drawn = rng.beta(PRIOR + hits, PRIOR + misses, size=DRAWS)
        winner[drawn > best] = number
        best = np.maximum(best, drawn)
    return {
        name: float((winner == number).mean()) if len(arm.clicks) else math.nan
        for number, (name, arm) in enumerate(arms.items())
    }
