"""When an experiment may be stopped: intervals that hold however often one looks.

An interval made for one look covers the truth in 95 of 100 experiments *on a day fixed before*.
Whoever looks every day and stops at the first difference is wrong far more often. The intervals
here hold on all days at once (a confidence sequence, with the normal mixture boundary of Robbins;
Waudby-Smith et al. 2021 for the asymptotics, Johari et al. 2017 for this use).

Why it holds for users. With variance v of the difference D of two click rates, D / v behaves like a
Brownian motion with drift at the time 1 / v, if what users do later is independent of what they did
before. Mixing its likelihood ratio over drifts N(0, worth²) gives a martingale that exceeds
1 / (1 − level) at any time with probability 1 − level, whence `half_width`. Users who come back
make later looks more like earlier ones than that (their D's are more correlated at the same
variances), and by Slepian's inequality the greatest of them is then smaller: the interval errs to
the safe side. It would err to the other one if users who clicked avoided clicking later.

All of this is asymptotic: variances are estimates and sums are taken for normal. `LEAST_USERS` and
`LEAST_CLICKS` keep the first looks, where that is not so, from deciding anything.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from slatewise.errors import SlatewiseError
from slatewise.evaluation.ab import Interval
from slatewise.evaluation.arms import ArmTotals
from slatewise.evaluation.bootstrap import LEVEL

LEAST_USERS: Final = 100
"""Users that each arm needs before the interval is finite."""
LEAST_CLICKS: Final = 20
"""Clicks, and slates without one, that each arm needs before the interval is finite."""
FARTHEST: Final = 365
"""Days ahead that are looked for an end."""


class Verdict(StrEnum):
    """The state of an experiment so far."""

    BETTER = "better"
    WORSE = "worse"
    ALIKE = "alike"
    """No difference as large as is worth knowing."""
    OPEN = "open"
    """Go on."""


@dataclass(frozen=True)
class Advice:
    """Whether to stop comparing an arm with a reference."""

    verdict: Verdict
    difference: Interval
    """Of the click rates, arm − reference, valid at every look."""
    worth: float
    """The least difference that matters."""
    more_days: int | None
    """Estimated days until a verdict at the present rate; None if there is one, or unknown."""

    @property
    def stop(self) -> bool:
        """Whether the question is answered."""
        return self.verdict is not Verdict.OPEN

    def words(self, arm: str, reference: str) -> str:
        """Return the advice in words."""
        low, high = f"{abs(self.difference.low):.4f}", f"{abs(self.difference.high):.4f}"
        match self.verdict:
            case Verdict.BETTER:
                return f"stop: {arm} is better than {reference}, by {low} or more"
            case Verdict.WORSE:
                return f"stop: {arm} is worse than {reference}, by {high} or more"
            case Verdict.ALIKE:
                return (
                    f"stop: {arm} and {reference} do not differ by more than {self.worth:.4f}, "
                    "the least difference worth knowing"
                )
        if not math.isfinite(self.difference.low):
            return (
                f"go on: an arm has fewer than {LEAST_USERS} users, or fewer than {LEAST_CLICKS} "
                "slates with a click or without"
            )
        if self.more_days is None:
            return f"go on: it would take more than {FARTHEST} days at this rate"
        return f"go on: about {self.more_days:,} more days at this rate"


def half_width(variance: float, worth: float, level: float = LEVEL) -> float:
    """Return how far the truth may be from a difference of so much variance, at any look.

    `worth`, the standard deviation of the mixture, is to be fixed before the experiment: the
    interval is narrowest, against others that hold at every look, when it is about ± `worth` wide.
    """
    if not math.isfinite(variance):
        return math.inf
    if variance == 0:
        return 0.0
    ratio = 1 + worth**2 / variance
    return math.sqrt(2 * variance * ratio / (ratio - 1) * math.log(math.sqrt(ratio) / (1 - level)))


def anytime_difference(
    arm: ArmTotals, reference: ArmTotals, worth: float, level: float = LEVEL
) -> Interval:
    """Return the difference of the click rates, with an interval that holds at every look.

    Users are what is counted, as in `rate_difference`; infinite while there are too few.
    """
    if not worth > 0:
        raise SlatewiseError(
            f"a difference of {worth} cannot be looked for.",
            "Give the least difference of click rates that matters, above 0.",
        )
    value = arm.click_rate - reference.click_rate
    if not (_enough(arm) and _enough(reference)):
        return Interval(value, -math.inf, math.inf)
    width = half_width(arm.variance + reference.variance, worth, level)
    return Interval(value, value - width, value + width)


def advise(
    arm: ArmTotals, reference: ArmTotals, worth: float, *, days: float, level: float = LEVEL
) -> Advice:
    """Advise after `days` whether to stop, and if not, estimate when to.

    The days to come assume that the difference stays as it is and that the variance falls as
    1 / days, as it does while new users come at the same rate; if the same ones return, it takes
    longer. With several arms against one reference, share 1 − level among them.
    """
    found = anytime_difference(arm, reference, worth, level)
    verdict = _verdict(found, worth)
    more = None
    if verdict is Verdict.OPEN and math.isfinite(found.low):
        variance = arm.variance + reference.variance
        more = _more_days(abs(found.value), variance, worth, days, level)
    return Advice(verdict, found, worth, more)


def _enough(arm: ArmTotals) -> bool:
    clicks = int(arm.clicks.sum())
    others = int(arm.impressions.sum()) - clicks
    return len(arm.clicks) >= LEAST_USERS and min(clicks, others) >= LEAST_CLICKS


def _verdict(difference: Interval, worth: float) -> Verdict:
    if difference.low > 0:
        return Verdict.BETTER
    if difference.high < 0:
        return Verdict.WORSE
    if difference.low > -worth and difference.high < worth:
        return Verdict.ALIKE
    return Verdict.OPEN


def _more_days(
    difference: float, variance: float, worth: float, days: float, level: float
) -> int | None:
    """Count the days until the interval leaves out 0, or everything beyond ± worth."""
    goal = max(difference, worth - difference)
    for more in range(1, FARTHEST + 1):
        if half_width(variance * days / (days + more), worth, level) < goal:
            return more
    return None
