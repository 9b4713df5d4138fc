"""How small a difference a comparison can see, and what a live test would need for the same."""

import math
from dataclasses import dataclass
from typing import Final

from slatewise.evaluation.arms import ArmTotals
from slatewise.evaluation.bootstrap import LEVEL
from slatewise.experiments.pooling import PooledEstimate

SURE: Final = 0.8
"""How often a study of this size tells the smallest effect from none."""


@dataclass(frozen=True)
class Power:
    """The smallest difference that a comparison could have detected."""

    smallest: float
    """the true difference that its interval leaves 0 out for in 4 of 5 such studies"""
    live_slates: float
    """slates of each arm after which a live test, of clicks and of different users in each arm,
    sees as little in 4 of 5 cases"""

    def __str__(self) -> str:
        """Return it in a few words."""
        if math.isnan(self.smallest):
            return "the smallest detectable difference is not known"
        return (
            f"smallest detectable difference ±{self.smallest:.4f}; a live test for it needs "
            f"{rounded(self.live_slates)} slates an arm"
        )


def power(found: PooledEstimate, spread: float, scale: float = 1.0) -> Power:
    """Return the power of a pooled number.

    `spread` is the sum of the variances of a slate's clicks in the two arms; a difference of click
    rates is `scale` times the number.
    """
    from scipy.special import ndtri, stdtrit  # noqa: PLC0415 – a third of a second to load

    shares, worlds = ((1 + LEVEL) / 2, SURE), len(found.by_seed)
    reach = sum(ndtri(p) if worlds < 2 else stdtrit(worlds - 1, p) for p in shares)
    smallest = float(reach * found.error)
    if not smallest > 0:
        return Power(smallest, math.nan)
    needed = (sum(ndtri(p) for p in shares) / (scale * smallest)) ** 2 * spread
    return Power(smallest, float(needed))


def slate_variance(served: ArmTotals, rate: float) -> float:
    """Return the variance that a slate adds to a sum of clicks: with what users have in common.

    Where an arm served too few users to tell, slates count as independent.
    """
    return rate * (1 - rate) * (served.design_effect if len(served.clicks) > 1 else 1.0)


def rounded(number: float) -> str:
    """Show a number to two digits."""
    if not math.isfinite(number):
        return "an unknown number of"
    digits = max(0, math.floor(math.log10(max(number, 1))) - 1)
    return f"{round(number, -digits):,.0f}"
