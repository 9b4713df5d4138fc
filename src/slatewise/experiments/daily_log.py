"""What the platform recorded, day by day, and the dataset that a night's training reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import polars as pl

from slatewise.data.columns import Columns
from slatewise.data.dataset import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.simulation import Marketplace
from slatewise.simulation.arrays import Bools, Doubles, Ints
from slatewise.simulation.log import HOUR, item_columns

SOURCES: Final = ("recommendation", "search")
"""Where slates come from; a number is whether the user searched."""
FEATURE: Final = "feature_"
"""How the columns of features begin."""
_DAY: Final = 24 * HOUR
FIRST_DAY: Final = 19_000
"""The day 0 of an experiment, counted from 1970: the log has clock times, as popularity needs."""


@dataclass(frozen=True)
class DaySlates:
    """The N slates shown to users on one day, in order."""

    user: Ints  # [N]
    arm: Ints  # [N]
    time: Ints  # [N], microseconds since 1970
    slates: Ints  # [N, S], what was offered
    scroll: Ints  # [N], how much of it was seen
    clicks: Ints  # [N], the item, −1 for none
    searched: Bools  # [N]
    judged: Doubles
    """[N, A] exact probability of any click, whatever the scroll, on the slate that each arm would
    have shown to the same user at the same moment; nan for searches"""

    @classmethod
    def empty(cls, positions: int, arms: int) -> Self:
        """Return zero slates of `positions` positions."""
        numbers, flags, chances = np.zeros(0, np.int64), np.zeros(0, np.bool_), np.zeros((0, arms))
        slates = np.zeros((0, positions), np.int64)
        return cls(numbers, numbers, numbers, slates, numbers, numbers, flags, chances)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Put slates one after the other."""
        return cls(*(np.concatenate(column) for column in zip(*map(_columns, parts), strict=True)))

    def only(self, rows: Bools) -> Self:
        """Return some of the slates, marked by `rows` [N]."""
        return type(self)(*(column[rows] for column in _columns(self)))


def _columns(met: DaySlates) -> list[Any]:
    return list(vars(met).values())


class DailyLog:
    """One table per day; training reads the last days before the day it trains for."""

    def __init__(self, market: Marketplace, folder: Path, window: int, split: SplitConfig) -> None:
        self.days: dict[int, pl.DataFrame] = {}
        self._market, self._folder, self._window, self._split = market, folder, window, split
        groups = [f"group-{group:03d}" for group in market.listed_groups]
        columns = {Columns.ITEM: np.arange(len(groups)), Columns.GROUP: groups}
        self.items = pl.DataFrame(columns | item_columns(market, self.time(0.0)))
        """the items table, of all times"""

    @property
    def table(self) -> Path:
        """The items table of the last dataset."""
        return self._folder / "items.parquet"

    def hours(self, day: float) -> float:
        """Return the hour of the simulation at which a day begins; the log begins with hour 0."""
        return 24.0 * (day + self._window)

    def time(self, hours: float) -> int:
        """Return the time of an hour of the simulation, in microseconds since 1970."""
        return (FIRST_DAY - self._window) * _DAY + round(hours * HOUR)

    def record(self, day: int, met: DaySlates) -> None:
        """Record the slates of a day as a platform would see them."""
        slates = pl.DataFrame({"slate": met.slates.tolist(), "scroll": met.scroll})
        self.days[day] = pl.DataFrame(
            {
                "day": np.full(len(met.user), day),
                "arm": met.arm,
                Columns.USER: met.user,
                Columns.TIME: pl.Series(met.time).cast(pl.Datetime),
                Columns.SLATE: slates.select(pl.col("slate").list.head("scroll")).to_series(),
                Columns.CLICK: pl.Series(met.clicks).replace(-1, None),
                Columns.SOURCE: np.array(SOURCES)[met.searched.astype(int)],
            }
        )

    def before(self, day: int) -> pl.DataFrame:
        """Return the rolling window that ends the night before a day: past days only."""
        days = range(day - self._window, day)
        return pl.concat([self.days[past] for past in days if past in self.days])

    def dataset(self, day: int) -> SlateDataset:
        """Prepare the window before a day as a dataset, with the items that were on offer in it."""
        log = self._folder / "window.parquet"
        self.before(day).drop("day", "arm").write_parquet(log)
        self.items.filter(self._offered(day)).write_parquet(self.table)
        out = self._folder / "dataset"
        return prepare(log, self.table, out, division=self._split, overwrite=True)

    def _offered(self, day: int) -> Bools:
        """Mark the items that were on offer at some moment of the window before a day: [I]."""
        life = self._market.life
        if life is None:
            return np.ones(self.items.height, np.bool_)
        ends = life.published + life.config.hours
        return (life.published < self.hours(day)) & (ends > self.hours(day - self._window))
