"""What the users of each arm of an experiment did: clicks and impressions per user.

Users are what was assigned by chance, so users are what is counted: all intervals follow from the
sums per user, and nothing else of the log is needed.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from slatewise.data.ragged import Int64Array
from slatewise.errors import SlatewiseError
from slatewise.evaluation.bootstrap import LEVEL
from slatewise.words import counted

Column = npt.NDArray[Any]
"""[N] user or arm ids, as integers or text."""


@dataclass(frozen=True, eq=False)
class ArmTotals:
    """Sums over the U users of one arm who saw anything."""

    clicks: Int64Array
    """[U]"""
    impressions: Int64Array
    """[U] slates shown, at least one"""

    @cached_property
    def click_rate(self) -> float:
        """Clicks per impression, of all users together; nan without impressions."""
        shown = self.impressions.sum()
        return float(self.clicks.sum() / shown) if shown else float("nan")

    @cached_property
    def variance(self) -> float:
        """Variance of the click rate when users are drawn: the delete-one jackknife of the ratio.

        To first order the delta method for a ratio of sums, and less optimistic where few users
        have many impressions. With one impression each it is p(1 − p) / (U − 1). Infinite with
        fewer than two users.
        """
        users, shown = len(self.clicks), self.impressions.sum()
        if users < 2:
            return float("inf")
        # What the rate loses when a user is left out: (c − p m) / (M − m).
        loss = (self.clicks - self.click_rate * self.impressions) / (shown - self.impressions)
        return float((users - 1) / users * (loss**2).sum())

    @cached_property
    def design_effect(self) -> float:
        """How many times the variance exceeds that of as many independent impressions, at least 1.

        Without clicks, or with nothing but clicks, there is nothing to tell it from: 1.
        """
        independent = (
            self.click_rate * (1 - self.click_rate) / max(int(self.impressions.sum()) - 1, 1)
        )
        return max(1.0, self.variance / independent) if independent > 0 else 1.0

    @cached_property
    def effective_impressions(self) -> float:
        """The equivalent number of independent impressions; 0 with fewer than two users.

        The variance is itself an estimate, a sum over users. A user's part is expected to be
        v = m + ρ m (m − 1), where ρ is the correlation within users that the design effect tells;
        so it is known as well as from (Σv)²/Σv² equal users (Satterthwaite). Student's quantile for
        that many against the one for as many impressions lowers the number further.
        """
        from scipy.special import stdtrit  # noqa: PLC0415 – a third of a second to load

        shown = float(self.impressions.sum())
        if len(self.clicks) < 2:
            return 0.0
        m = self.impressions.astype(np.float64)
        pairs = float((m * (m - 1)).sum())
        correlation = min((self.design_effect - 1) * shown / pairs, 1.0) if pairs else 0.0
        parts = m + correlation * m * (m - 1)
        users = float(parts.sum() ** 2 / np.square(parts).sum())
        share = (1 + LEVEL) / 2
        # A user with nearly all impressions leaves less than one degree of freedom.
        wide, narrow = (float(stdtrit(max(n - 1, 1), share)) for n in (users, shown))
        return shown / self.design_effect * (narrow / wide) ** 2


def arm_totals(
    users: Column, arms: Column, clicks: Int64Array, impressions: Int64Array
) -> dict[Any, ArmTotals]:
    """Add up the rows [N] of a log by user, and gather the users of each arm, arms in order.

    A user may have many rows, but all in one arm.
    """
    _check(clicks, impressions)
    names, arm = np.unique(arms, return_inverse=True)
    ids, user = np.unique(users, return_inverse=True)
    home = np.zeros(len(ids), dtype=np.int64)  # [U]
    home[user] = arm
    _check_home(ids[user[home[user] != arm]])
    clicked = np.bincount(user, clicks, len(ids)).astype(np.int64)  # [U]
    shown = np.bincount(user, impressions, len(ids)).astype(np.int64)  # [U]
    if (clicked > shown).any():
        raise SlatewiseError(
            f"User {ids[clicked > shown][0]} has more clicks than impressions.",
            "Count a slate as clicked at most once, and every slate that was shown.",
        )
    of = [(home == number) & (shown > 0) for number in range(len(names))]
    rows = zip(names.tolist(), of, strict=True)
    return {name: ArmTotals(clicked[mine], shown[mine]) for name, mine in rows}


def daily_totals(
    days: Column, users: Column, arms: Column, clicks: Int64Array, impressions: Int64Array
) -> dict[Any, dict[Any, ArmTotals]]:
    """Return the totals of each day alone, days in order.

    Days do not add up to the whole: a user comes back, and days of one user are not independent.
    For the whole, and for any longer period, use `arm_totals` of its rows.
    """
    return {
        day: arm_totals(*(column[days == day] for column in (users, arms, clicks, impressions)))
        for day in np.unique(days).tolist()
    }


def _check(clicks: Int64Array, impressions: Int64Array) -> None:
    if (np.asarray(clicks) < 0).any() or (np.asarray(impressions) < 0).any():
        raise SlatewiseError(
            "Clicks and impressions cannot be negative.", "Count them: 0 stands for none."
        )


def _check_home(strays: Column) -> None:
    if len(strays):
        users = counted(len(np.unique(strays)), "user")
        raise SlatewiseError(
            f"{users} in more than one arm, such as {strays[0]}.",
            "Assign users, not slates; or leave out those who changed.",
        )
