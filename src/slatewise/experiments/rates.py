"""Click rates of arms over periods of days, from sums per user, pooled over seeds.

Two measures: realised clicks per slate, and expected clicks per slate, which are the simulator's
exact probabilities of a click on the very slates that were shown. They have the same mean; the
second lacks the luck of the clicks.

Users are resampled, with one weight for all that a user did. Two arms of different users are then
independent, two arms that the same users lived through are paired, and so are two periods.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from slatewise.evaluation.ab import click_rate
from slatewise.evaluation.arms import daily_totals
from slatewise.evaluation.bootstrap import Resampler
from slatewise.experiments.pooling import Floats, PooledEstimate, pool
from slatewise.experiments.store import Row

Measure = Literal["expected", "clicks"]
MEASURES: Final[tuple[Measure, ...]] = ("expected", "clicks")
_COLUMNS: Final = ("slates", "clicks", "expected")


@dataclass(frozen=True)
class RateSample:
    """A number of each seed with its resamples; arithmetic keeps pairs together."""

    values: Floats
    """[N] by seed"""
    resamples: Floats
    """[N, R]"""

    def __sub__(self, other: "RateSample") -> "RateSample":
        """Return the difference."""
        return RateSample(self.values - other.values, self.resamples - other.resamples)

    def __truediv__(self, other: "RateSample") -> "RateSample":
        """Return the ratio; nan where there is nothing to divide by."""
        return RateSample(
            self.values / np.where(other.values == 0, np.nan, other.values),
            self.resamples / np.where(other.resamples == 0, np.nan, other.resamples),
        )

    def pooled(self) -> PooledEstimate:
        """Return the mean over seeds with its interval."""
        return pool(self.values.tolist(), list(self.resamples), same_users=False)


class Rates:
    """The click rate of every arm in every period, of rows `shown` (see `outcomes`)."""

    def __init__(
        self, shown: Sequence[Row], periods: Mapping[str, Iterable[int]], resamples: int
    ) -> None:
        self.arms = list(dict.fromkeys(row["arm"] for row in shown))
        self.periods = {name: frozenset(days) for name, days in periods.items()}
        self._columns = {
            key: number for number, key in enumerate((a, p) for a in self.arms for p in periods)
        }
        seeds = list(dict.fromkeys(row["seed"] for row in shown))
        self._totals = np.empty((len(seeds), 3 * len(self._columns)))
        self._resampled = np.empty((len(seeds), resamples, 3 * len(self._columns)))
        for number, seed in enumerate(seeds):
            sums = self._sums([row for row in shown if row["seed"] == seed])
            resampler = Resampler(seed, resamples)
            resampler.add(np.arange(len(sums)), sums)
            self._totals[number] = resampler.totals
            self._resampled[number] = resampler.resampled

    def _sums(self, rows: Sequence[Row]) -> Floats:
        """Add up slates, clicks and expected clicks per user, arm and period: [U, 3 A P]."""
        users = 1 + max((max(row["users"], default=0) for row in rows), default=0)
        sums = np.zeros((users, 3 * len(self._columns)))
        for row in rows:
            for period, days in self.periods.items():
                if row["day"] in days:
                    first = 3 * self._columns[row["arm"], period]
                    columns = np.array([row[name] for name in _COLUMNS]).T  # [users, 3]
                    sums[row["users"], first : first + 3] += columns
        return sums

    def rate(self, arm: str, period: str, measure: Measure = "expected") -> RateSample:
        """Return clicks per slate."""
        return self._column(arm, period, measure) / self._column(arm, period, "slates")

    def count(self, arm: str, period: str, what: str) -> float:
        """Add up slates, clicks or expected clicks over the seeds."""
        return float(self._column(arm, period, what).values.sum())

    def _column(self, arm: str, period: str, what: str) -> RateSample:
        column = 3 * self._columns[arm, period] + _COLUMNS.index(what)
        return RateSample(self._totals[:, column], self._resampled[:, :, column])

    def table(self) -> list[Row]:
        """Return a row per arm, period and measure."""
        rows = []
        for arm, period in self._columns:
            counts = {what: self.count(arm, period, what) for what in _COLUMNS}
            for measure in MEASURES:
                found = self.rate(arm, period, measure).pooled()
                head = {"arm": arm, "period": period, "measure": measure, **counts}
                rows.append(head | pooled_row(found))
        return rows


def pooled_row(found: PooledEstimate) -> Row:
    """Return the columns of a pooled number."""
    return {
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "by_seed": list(found.by_seed),
    }


def daily_rates(shown: Sequence[Row]) -> list[Row]:
    """Return the realised click rate of every day and arm, all seeds together.

    With its credible interval, which knows of users (Figures 2 and 3 of the paper), and beside it
    the expected one.
    """
    sizes = [len(row["users"]) for row in shown]
    flat = {name: np.concatenate([row[name] for row in shown]) for name in ("users", *_COLUMNS)}
    days, seeds = (np.repeat([row[name] for row in shown], sizes) for name in ("day", "seed"))
    arms = np.repeat([row["arm"] for row in shown], sizes)
    # The same number is another user in every seed, and in every arm that lives by itself.
    names = np.char.add(np.char.add(seeds.astype(str), arms), flat["users"].astype(str))
    counts = (flat[name].astype(np.int64) for name in ("clicks", "slates"))
    rows = []
    for day, totals in daily_totals(days, names, arms, *counts).items():
        for arm, total in totals.items():
            here = (days == day) & (arms == arm)
            slates = int(flat["slates"][here].sum())
            row = {"arm": arm, "day": day, "slates": slates, "clicks": int(total.clicks.sum())}
            expected = float(flat["expected"][here].sum() / slates)
            rows.append(row | click_rate(total).to_json() | {"expected": expected})
    return rows
