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
from slatewise.simulation import Interactions, Marketplace
from slatewise.simulation.arrays import Bools, Doubles, Ints

_DAY: Final = 86_400_000_000
"""Microseconds in a day."""
FIRST_DAY: Final = 19_000
"""The day 0 of an experiment, counted from 1970: the log has clock times, as popularity needs."""


@dataclass(frozen=True)
class DaySlates:
    """The N slates that users met on one day, in the order of their meeting them."""

    user: Ints  # [N]
    arm: Ints  # [N]
    round: Ints  # [N], 0 for a user's first slate of the day
    slates: Ints  # [N, S], what was offered
    scroll: Ints  # [N], how much of it was seen
    clicks: Ints  # [N], the item, −1 for none
    searched: Bools  # [N]
    probability: Doubles  # [N], exact probability of any click, whatever the scroll

    @classmethod
    def empty(cls, positions: int) -> Self:
        """Return zero slates of `positions` positions."""
        numbers, flags, chances = np.zeros(0, np.int64), np.zeros(0, np.bool_), np.zeros(0)
        slates = np.zeros((0, positions), np.int64)
        return cls(numbers, numbers, numbers, slates, numbers, numbers, flags, chances)

    @classmethod
    def of(cls, seen: Interactions, arm: int, round_: int) -> Self:
        """Take the interactions of users of an arm with one slate each."""
        return cls(
            user=seen.who,
            arm=np.full(len(seen.who), arm),
            round=np.full(len(seen.who), round_),
            slates=seen.slates,
            scroll=seen.scroll,
            clicks=seen.clicks,
            searched=seen.searched,
            probability=seen.click_probability,
        )

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
        self._folder, self._window, self._split = folder, window, split
        groups = [f"group-{group:03d}" for group in market.listed_groups]
        items = pl.DataFrame({Columns.ITEM: np.arange(len(groups)), Columns.GROUP: groups})
        items.write_parquet(folder / "items.parquet")

    def record(self, day: int, met: DaySlates) -> None:
        """Keep what was met on a day, as a platform would see it."""
        slates = pl.DataFrame({"slate": met.slates.tolist(), "scroll": met.scroll})
        self.days[day] = pl.DataFrame(
            {
                "day": np.full(len(met.user), day),
                "arm": met.arm,
                Columns.USER: met.user,
                Columns.TIME: pl.Series((FIRST_DAY + day) * _DAY + met.round).cast(pl.Datetime),
                Columns.SLATE: slates.select(pl.col("slate").list.head("scroll")).to_series(),
                Columns.CLICK: pl.Series(met.clicks).replace(-1, None),
                Columns.SOURCE: np.where(met.searched, "search", "recommendation"),
            }
        )

    def before(self, day: int) -> pl.DataFrame:
        """Return the rolling window that ends the night before a day: past days only."""
        days = range(day - self._window, day)
        return pl.concat([self.days[past] for past in days if past in self.days])

    def dataset(self, day: int) -> SlateDataset:
        """Prepare the window before a day as a dataset."""
        log = self._folder / "window.parquet"
        self.before(day).drop("day", "arm").write_parquet(log)
        return prepare(
            log,
            self._folder / "items.parquet",
            self._folder / "dataset",
            division=self._split,
            overwrite=True,
        )
