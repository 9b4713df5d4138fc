"""Click rates of arms over periods of days, from sums per user, pooled over worlds.

Two measures. Expected clicks per slate are the simulator's exact probabilities of a click on the
slates that an arm would have shown to *all* users, each in the state and at the moment in which she
was recommended something: arms are compared on the same users, and no luck of clicks is in it.
Realised clicks are those of the users that the arm served.

Users are resampled, with one weight for all that a user did. Two arms that the same users were
judged on are then paired, two arms of different users independent, and so are two periods paired.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from slatewise.evaluation.ab import click_rate
from slatewise.evaluation.arms import ArmTotals, daily_totals
from slatewise.evaluation.bootstrap import EffectiveUsers, Resampler
from slatewise.experiments.pooling import Floats, PooledEstimate, over_worlds
from slatewise.experiments.store import Row

Measure = Literal["expected", "clicks"]
MEASURES: Final[tuple[Measure, ...]] = ("expected", "clicks")
_COLUMNS: Final = ("slates", "expected", "served", "clicks")
_COUNTED: Final = {"expected": "slates", "clicks": "served"}
"""What each measure is divided by."""


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
        return over_worlds(self.values.tolist(), list(self.resamples))


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
        width = len(_COLUMNS) * len(self._columns)
        self._totals, self._widening = np.empty((2, len(seeds), width))
        self._resampled = np.empty((len(seeds), resamples, width))
        self._sums = [self._added([row for row in shown if row["seed"] == seed]) for seed in seeds]
        for number, (seed, sums) in enumerate(zip(seeds, self._sums, strict=True)):
            resampler, effective = Resampler(seed, resamples), EffectiveUsers()
            resampler.add(np.arange(len(sums)), sums)
            effective.add(sums)
            self._totals[number] = resampler.totals
            self._resampled[number] = resampler.resampled
            self._widening[number] = effective.widening

    def _added(self, rows: Sequence[Row]) -> Floats:
        """Add up the columns per user, arm and period: [U, 4 A P]."""
        users = 1 + max((max(row["users"], default=0) for row in rows), default=0)
        sums = np.zeros((users, len(_COLUMNS) * len(self._columns)))
        for row in rows:
            for period, days in self.periods.items():
                if row["day"] in days:
                    first = self._column(row["arm"], period, _COLUMNS[0])
                    columns = np.array([row[name] for name in _COLUMNS]).T  # [users, 4]
                    sums[row["users"], first : first + len(_COLUMNS)] += columns
        return sums

    def rate(self, arm: str, period: str, measure: Measure = "expected") -> RateSample:
        """Return clicks per slate, resamples spread as far as few users ask for."""
        counted = _COUNTED[measure]
        rate = self._sample(arm, period, measure) / self._sample(arm, period, counted)
        wide = self._widening[:, self._column(arm, period, counted), None]
        values = rate.values[:, None]
        return RateSample(rate.values, values + wide * (rate.resamples - values))

    def count(self, arm: str, period: str, what: str) -> float:
        """Add up a column over the worlds."""
        return float(self._totals[:, self._column(arm, period, what)].sum())

    def realised(self, arm: str, period: str) -> ArmTotals:
        """Return the clicks and slates of the users that an arm served, of all worlds."""
        clicks, served = (
            np.concatenate([sums[:, self._column(arm, period, what)] for sums in self._sums])
            for what in ("clicks", "served")
        )
        there = served > 0
        return ArmTotals(clicks[there].astype(np.int64), served[there].astype(np.int64))

    def _sample(self, arm: str, period: str, what: str) -> RateSample:
        column = self._column(arm, period, what)
        return RateSample(self._totals[:, column], self._resampled[:, :, column])

    def _column(self, arm: str, period: str, what: str) -> int:
        return len(_COLUMNS) * self._columns[arm, period] + _COLUMNS.index(what)

    def table(self) -> list[Row]:
        """Return a row per arm, period and measure."""
        rows = []
        for arm, period in self._columns:
            counts = {what: self.count(arm, period, what) for what in _COLUMNS}
            for measure in MEASURES:
                found = bounded(self.rate(arm, period, measure).pooled())
                head = {"arm": arm, "period": period, "measure": measure, **counts}
                rows.append(head | pooled_row(found))
        return rows


def bounded(found: PooledEstimate, most: float = 1.0) -> PooledEstimate:
    """Return a rate or ratio with what of its interval can be: few users widen it beyond that."""
    low, high = np.clip([found.low, found.high], 0.0, most).tolist()
    return replace(found, low=low, high=high)


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
    counts = (flat[name].astype(np.int64) for name in ("clicks", "served"))
    rows = []
    for day, totals in daily_totals(days, names, arms, *counts).items():
        for arm, total in totals.items():
            here = (days == day) & (arms == arm)
            row = {"arm": arm, "day": day, "served": int(total.impressions.sum())}
            row["clicks"] = int(total.clicks.sum())
            expected = float(flat["expected"][here].sum() / flat["slates"][here].sum())
            rows.append(row | click_rate(total).to_json() | {"expected": expected})
    return rows
