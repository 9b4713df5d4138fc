"""The reductions of Section 5 of the paper, on the interactions of whole users."""

from pathlib import Path
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import Field

from slatewise.config import Config
from slatewise.data.keys import uniform
from slatewise.data.ragged import offsets_of
from slatewise.data.report import Problem, Reduction, Report
from slatewise.data.several_clicks import further_clicks

BoolArray = npt.NDArray[np.bool_]


class PrepareConfig(Config):
    """How a log is reduced to a dataset."""

    no_click_share: float = Field(default=1.0, ge=0, le=1)
    """Share of the slates without a click that is kept, drawn row by row."""
    max_slate: int | None = Field(default=None, ge=1)
    """Longest slate kept; items below are cut off, and interactions clicked there removed."""
    first: int | None = Field(default=None, ge=1)
    """How many of a user's first interactions are kept; all without it."""
    min_interactions: int = Field(default=1, ge=1)
    """Users with fewer interactions are left out."""
    listed_items_only: bool = False
    """Take items that the items table does not list out of slates, and clicks on them away."""
    several_clicks: Literal["each", "first"] = "each"
    """A slate with several clicks becomes one interaction per click, or one with the first."""
    same_slate: float = Field(default=30.0, ge=0, le=1e6)
    """Minutes after the first click within which rows with a click each on one slate, one after the
    other, are further clicks on it; where times are only an order, whenever. 0: at one time only.
    Not in logs whose rows list clicks, nor in those of impressions: these tell slates apart."""
    seed: int = 0
    """Seed of the draw of slates without a click."""
    strict: bool = False
    """Refuse input that would need a repair."""


PRESETS: Final = {
    "all": PrepareConfig(),
    "paper": PrepareConfig(no_click_share=0.1, max_slate=25, first=20, min_interactions=10),
}
"""`all` keeps everything; `paper` has the values of Section 5."""


def order_by_time(
    frame: pl.DataFrame, report: Report, files: list[Path], window: int | None = 0
) -> pl.DataFrame:
    """Sort interactions by user and time, ties in file order, and drop exact copies.

    `frame` holds all interactions of its users: `file`, `row`, `user`, `time`, `key`, … Clicks on
    one slate within a `window` of the first get its time.
    """
    frame = frame.sort("user", "file", "row", maintain_order=True)
    same_user = pl.col("user") == pl.col("user").shift(1)
    backwards = frame.filter(same_user & (pl.col("time") < pl.col("time").shift(1)))
    report.found(Problem.UNSORTED, backwards, files)
    if backwards.height:
        frame = frame.sort("user", "time", maintain_order=True)
    copies = ~pl.struct("user", "time", "key").is_first_distinct()
    report.found(Problem.DUPLICATE_ROW, frame.filter(copies), files)
    frame = join_clicks(frame.filter(~copies), report, window)
    same_time = same_user & (pl.col("time") == pl.col("time").shift(1))
    tied = frame.select(same_time).to_series().fill_null(value=False).to_numpy()
    if tied.any():  # several clicks on one slate are no tie
        report.found(Problem.TIED, frame.filter(tied & (_further(frame, 0) == 0)), files)
    return frame


def join_clicks(frame: pl.DataFrame, report: Report, window: int | None) -> pl.DataFrame:
    """Give further clicks on a slate, within a window of its first, the time of that.

    So all that reads a dataset knows them by their time. A window of None is one without end; rows
    are sorted by user and time.
    """
    if window == 0:
        return frame
    further = _further(frame, window)
    times = frame["time"].to_numpy()
    shown = times[np.arange(len(times)) - further]
    report.clicks_joined += int((shown != times).sum())
    return frame.with_columns(time=shown)


def _further(frame: pl.DataFrame, window: int | None) -> npt.NDArray[np.int32]:
    """Count the clicks before each row on the same slate: [N], sorted by user and time."""
    users = frame.group_by("user", maintain_order=True).len()["len"].to_numpy()
    times = frame["time"].to_numpy()
    found = further_clicks(
        offsets_of(users),
        np.zeros_like(times) if window is None else times,
        frame["source"].to_numpy(),
        frame["click"].to_numpy(),
        offsets_of(frame["items"].list.len().to_numpy()),
        frame["items"].explode(empty_as_null=False).to_numpy(),
        window=window or 0,
    )
    return np.zeros(frame.height, np.int32) if found is None else found


def reduce_users(frame: pl.DataFrame, config: PrepareConfig, report: Report) -> pl.DataFrame:
    """Apply the reductions in turn: sample no-clicks, cap slates, first interactions, few.

    The paper names the cap last; here it comes before the counts, so that what remains has at
    least `min_interactions` and at most `first` interactions a user.
    """
    if config.no_click_share < 1:
        unlucky = uniform(frame["key"].to_numpy(), config.seed) >= config.no_click_share
        frame = _cut(frame, Reduction.NO_CLICK_SAMPLED, _no_click(frame) & unlucky, report)
    if config.max_slate is not None:
        beyond = frame["click"].to_numpy() >= config.max_slate
        frame = _cut(frame, Reduction.CLICK_BEYOND_CAP, beyond, report)
        frame = frame.with_columns(pl.col("items").list.head(config.max_slate))
    if config.first is not None:
        rank = frame.select(pl.int_range(pl.len()).over("user")).to_series().to_numpy()
        frame = _cut(frame, Reduction.LATE, rank >= config.first, report)
    if config.min_interactions > 1:
        count = frame.select(pl.len().over("user")).to_series().to_numpy()
        frame = _cut(frame, Reduction.FEW, count < config.min_interactions, report)
    return frame


def _no_click(frame: pl.DataFrame) -> BoolArray:
    return frame["click"].to_numpy() < 0


def _cut(
    frame: pl.DataFrame, reduction: Reduction, where: BoolArray, report: Report
) -> pl.DataFrame:
    report.reduced(reduction, int(where.sum()))
    return frame.filter(~where) if where.any() else frame
