"""Splits that people bring: a column of the log, or a file of users and times.

Both become a column `part` of the interactions: 0 for training, 1 for validation, 2 for test. Of a
user, training comes before validation and validation before test.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from slatewise.data import parsing
from slatewise.data.columns import Columns
from slatewise.data.formats import LogFormat
from slatewise.data.split import Split
from slatewise.data.tables import ROW, Table, open_tables
from slatewise.errors import InputError

_NAMES: Final = ("training", "validation", "test")
_PARTS: Final = {
    **dict.fromkeys(("train", "training"), 0),
    **dict.fromkeys(("valid", "validation", "val", "dev"), 1),
    "test": 2,
}


def parse_parts(batch: pl.DataFrame, column: str, file: Path) -> pl.Series:
    """Convert a column that names the part of each interaction; none may be missing."""

    def convert(values: pl.Series) -> pl.Series:
        names = parsing.names(values).str.strip_chars().str.to_lowercase()
        return names.replace_strict(_PARTS, default=None, return_dtype=pl.UInt8)

    if batch[column].null_count():
        batch = batch.with_columns(parsing.names(batch[column]).fill_null("").alias(column))
    return parsing.parse(
        batch,
        column,
        convert,
        file=file,
        wanted="a part of the split",
        remedy="Write train, valid or test in every row.",
    )


@dataclass(frozen=True)
class UserTimes:
    """From when on each user is held out."""

    table: pl.DataFrame
    """`user`, `valid_from` and `test_from`, each user once"""
    file: Path

    @classmethod
    def read(cls, path: str | Path, user_type: parsing.IdType, layout: LogFormat) -> "UserTimes":
        """Read `user_id`, `valid_from` and `test_from`, of which one may be left out.

        Times are written as in the log. Where one is missing there is no such part of the user;
        users who are not listed are for training.
        """
        found = []
        for table in open_tables(path, "split"):
            user = "user" if Columns.USER not in table.schema else Columns.USER
            columns = [table.require(user, "a column", Columns.USER)]
            moments = [name for name in ("valid_from", "test_from") if name in table.schema]
            if not moments:
                table.require("test_from", "a column", "test_from")
            for batch in table.batches([*columns, *moments], 250_000):
                found.append(_moments(table, batch, user, moments, user_type, layout))
        merged = pl.concat(found)
        twice = merged.filter(~pl.col("user").is_first_distinct())
        wrong = merged.filter(pl.col("valid_from") > pl.col("test_from"))
        for rows, what in ((twice, "is listed twice"), (wrong, "is validated after the test")):
            if rows.height:
                raise InputError(
                    f"user {rows['user'][0]!r} {what}.",
                    "Give each user one row, with valid_from at or before test_from.",
                    file=Path(rows["file"][0]),
                    row=int(rows["row"][0]),
                )
        return cls(merged.select("user", "valid_from", "test_from"), Path(path))

    def with_parts(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Add the column `part` to interactions."""
        joined = frame.join(self.table, on="user", how="left", maintain_order="left")
        tested = (pl.col("time") >= pl.col("test_from")).fill_null(value=False)
        validated = (pl.col("time") >= pl.col("valid_from")).fill_null(value=False)
        part = pl.when(tested).then(2).when(validated).then(1).otherwise(0).cast(pl.UInt8)
        return joined.with_columns(part=part).drop("valid_from", "test_from")

    def require_held_out(self, interactions: int) -> None:
        """Refuse a file that holds nothing out."""
        if not interactions:
            raise InputError(
                "none of its users has an interaction at or after her times.",
                "Users and times are written as in the log: check them.",
                file=self.file,
                column=Columns.USER,
            )


def _moments(
    table: Table,
    batch: pl.DataFrame,
    user: str,
    moments: list[str],
    user_type: parsing.IdType,
    layout: LogFormat,
) -> pl.DataFrame:
    """Convert a batch of the file."""
    never = pl.Series([None], dtype=pl.Int64).new_from_index(0, batch.height)
    times = {
        name: parsing.parse(
            batch,
            name,
            partial(parsing.times, unit=layout.time_unit, text_format=layout.time_format),
            file=table.path,
            wanted="a time",
            remedy="Write times as the log does.",
        )
        if name in moments
        else never
        for name in ("valid_from", "test_from")
    }
    return pl.DataFrame(
        {
            "file": [str(table.path)] * batch.height,
            "row": batch[ROW].cast(pl.Int64),
            "user": parsing.parse_ids(batch, user, user_type, table.path),
            **times,
        }
    )


def require_order(frame: pl.DataFrame, files: list[Path], column: str | None) -> None:
    """Refuse interactions, sorted by user and time, whose part comes before that of the last."""
    same_user = pl.col("user") == pl.col("user").shift(1)
    back = frame.with_columns(before=pl.col("part").shift(1)).filter(
        same_user & (pl.col("part") < pl.col("part").shift(1)).fill_null(value=False)
    )
    if back.height:
        user, part, before, file, row = back.select("user", "part", "before", "file", "row").row(0)
        raise InputError(
            f"user {user!r} has an interaction for {_NAMES[part]} after one for {_NAMES[before]}.",
            "Of a user, training comes before validation and validation before test: hold out "
            "whole users, or what is latest.",
            file=files[file],
            row=row,
            column=column,
        )


def ends_of(frame: pl.DataFrame) -> Split:
    """Return where each user's interactions are cut, given their parts in order."""
    counts = frame.group_by("user", maintain_order=True).agg(
        train=(pl.col("part") == 0).sum(), valid=(pl.col("part") <= 1).sum()
    )
    return Split(
        counts["train"].to_numpy().astype(np.int32), counts["valid"].to_numpy().astype(np.int32)
    )
