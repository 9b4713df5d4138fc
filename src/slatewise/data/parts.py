"""The two pieces of a preparation that can be done for parts of a log, here or on other machines.

First the files of a log are read and checked, then buckets of users are ordered and reduced. Each
part keeps an account of its own; added up in order, they are the account of the whole.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from slatewise.data.checks import Checker
from slatewise.data.columns import Columns
from slatewise.data.formats import LogFormat
from slatewise.data.log import Log
from slatewise.data.own_split import UserTimes, require_order
from slatewise.data.parsing import IdType
from slatewise.data.reductions import PrepareConfig, order_by_time, reduce_users
from slatewise.data.report import Report
from slatewise.data.spill import read_bucket
from slatewise.data.split import SplitConfig
from slatewise.errors import SlatewiseError

OrderedMap = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""Does some work on each of a list of tasks and gives the results in their order, as `map` does."""


class CleanBatch(NamedTuple):
    """Usable rows of a file, and what was wrong with the others."""

    frame: pl.DataFrame
    report: Report
    clicks: int


@dataclass(frozen=True)
class FileReading:
    """Reads and checks one file of a log at a time."""

    files: list[Path]
    """as they are called in accounts"""
    layout: LogFormat
    item_type: IdType
    rows: int
    """read at a time"""
    split: bool
    config: PrepareConfig
    listed: pl.Series | None
    strict: bool
    columns: dict[str, str]

    @classmethod
    def of(
        cls,
        source: Log,
        item_type: IdType,
        config: PrepareConfig,
        listed: pl.DataFrame,
        report: Report,
        *,
        split: bool,
    ) -> "FileReading":
        """Take what is known of the whole log."""
        parquet = all(file.suffix.lower() in {".parquet", ".pq"} for file in source.files)
        in_text = source.tables[0].schema.get(source.layout.slate) == pl.String
        if source.has_impressions or in_text or not parquet:
            raise SlatewiseError(
                "only logs in Parquet, with a row and a list for each slate, are read in parts.",
                "Prepare this one without --ray, or write it so.",
            )
        return cls(
            source.files,
            source.layout,
            item_type,
            source.batch_rows,
            split,
            config,
            listed[Columns.ITEM] if config.listed_items_only else None,
            report.strict,
            report.columns,
        )

    def cleaned(self, number: int) -> list[CleanBatch]:
        """Return the usable rows of a file, batch by batch."""
        source = Log(self.files[number].resolve(), self.layout, split=self.split)
        return list(self._cleaned(source, number))

    def _cleaned(self, source: Log, number: int) -> Iterator[CleanBatch]:
        for batch in source.batches_of(0, self.item_type, self.rows, first=number):
            report = Report(strict=self.strict, columns=self.columns, rows=batch.height)
            checker = Checker(
                report,
                self.files,
                self.config.several_clicks,
                clicks_by_position=source.clicks_by_position,
                listed=self.listed,
            )
            yield CleanBatch(checker.clean(batch), report, checker.clicks)


class ReducedUsers(NamedTuple):
    """What remains of a bucket of users."""

    frame: pl.DataFrame
    report: Report
    held_out: int
    """interactions that a file of times holds out"""


@dataclass(frozen=True)
class UserReduction:
    """Orders and reduces one bucket of users at a time."""

    files: list[Path]
    config: PrepareConfig
    division: SplitConfig
    own_times: UserTimes | None
    split_column: str
    strict: bool
    columns: dict[str, str]
    window: int | None
    """microseconds within which clicks in rows of their own are on one slate; None for any"""

    def reduced(self, file: Path) -> ReducedUsers:
        """Return what remains of the users of a bucket, by user and time."""
        report = Report(strict=self.strict, columns=self.columns)
        ordered = order_by_time(read_bucket(file), report, self.files, self.window)
        held_out = 0
        if self.own_times is not None:
            ordered = self.own_times.with_parts(ordered)
            held_out = int((ordered["part"] > 0).sum())
        if self.division.method == "column":
            require_order(ordered, self.files, self.split_column)
        return ReducedUsers(reduce_users(ordered, self.config, report), report, held_out)
