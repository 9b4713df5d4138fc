"""Logs with one row per impression, grouped into interactions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import polars as pl

from slatewise.data.keys import id_keys
from slatewise.data.report import Problem, Report
from slatewise.data.spill import Buckets

_HAS_POSITION = pl.col("position").is_not_null()
_DOUBTS: Final = {
    Problem.SEVERAL_SOURCES: pl.col("source").drop_nulls().n_unique() > 1,
    # The same item at the same position again is a copy of the row, and counted as such.
    Problem.SAME_POSITION: pl.struct("position", "item").filter(_HAS_POSITION).n_unique()
    > pl.col("position").drop_nulls().n_unique(),
}
"""What may be wrong with the impressions of one slate, seen together."""


def group_impressions(
    impressions: Iterator[pl.DataFrame],
    workspace: Path,
    expected_rows: int,
    report: Report,
    files: list[Path],
) -> Iterator[pl.DataFrame]:
    """Turn a stream of impressions into a stream of interactions, in bounded memory.

    Rows of one slate may stand anywhere in the log. A slate is what shares user and `slate_id`,
    or user and time where there is no such column. Items are ordered by position, then by row;
    the slate's time is that of its first impression, its row the first row.
    """
    buckets = Buckets(workspace, expected_rows)
    for batch in impressions:
        report.found(Problem.NO_FLAG, batch.filter(pl.col("clicked").is_null()), files)
        known = batch.filter(pl.col("user").is_not_null())
        buckets.add(known, id_keys(known["user"]))
        # Grouping would lump the rows without a user together: each stays a row of its own.
        unknown = batch.filter(pl.col("user").is_null())
        yield _interactions(unknown, pl.struct("file", "row"), report, files)
    for bucket in buckets.drain():
        moment = pl.col("time").cast(pl.String)
        slate = pl.coalesce("slate_id", moment) if "slate_id" in bucket.columns else moment
        yield _interactions(bucket, slate, report, files)


def _interactions(
    impressions: pl.DataFrame, slate: pl.Expr, report: Report, files: list[Path]
) -> pl.DataFrame:
    brought = {"part": pl.col("part").min()} if "part" in impressions.columns else {}
    clicked = pl.col("item").filter(pl.col("clicked").fill_null(value=False))
    slates = (
        impressions.sort("position", "file", "row", nulls_last=True)
        .group_by("user", slate.alias("shown"), maintain_order=True)
        .agg(
            pl.col("file").sort_by("file", "row").first(),
            pl.col("row").sort_by("file", "row").first(),
            pl.col("time").min(),
            slate=pl.col("item"),
            click=clicked,
            source=pl.col("source").drop_nulls().first(),
            position=pl.lit(None, dtype=pl.Int64),
            **brought,
            **{problem.name: doubtful for problem, doubtful in _DOUBTS.items()},
        )
    )
    for problem in _DOUBTS:
        report.found(problem, slates.filter(problem.name), files)
    names = ("file", "row", "user", "time", "slate", "click", "source", "position", *brought)
    return slates.select(names)
