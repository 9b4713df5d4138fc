"""Logs with one row per impression, grouped into interactions."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from slatewise.data.keys import id_keys
from slatewise.data.spill import Buckets


def group_impressions(
    impressions: Iterator[pl.DataFrame], workspace: Path, expected_rows: int
) -> Iterator[pl.DataFrame]:
    """Turn a stream of impressions into a stream of interactions, in bounded memory.

    Rows of one slate may stand anywhere in the log. A slate is what shares user and `slate_id`,
    or user and time where there is no such column. Items are ordered by position, then by row;
    the slate's time is that of its first impression, its row the first row.
    """
    buckets = Buckets(workspace, expected_rows)
    for batch in impressions:
        known = batch.filter(pl.col("user").is_not_null())
        buckets.add(known, id_keys(known["user"]))
        # Grouping would lump the rows without a user together: each stays a row of its own.
        unknown = batch.filter(pl.col("user").is_null())
        yield _interactions(unknown, pl.struct("file", "row"))
    for bucket in buckets.drain():
        moment = pl.col("time").cast(pl.String)
        slate = "slate_id" in bucket.columns
        yield _interactions(bucket, pl.coalesce("slate_id", moment) if slate else moment)


def _interactions(impressions: pl.DataFrame, slate: pl.Expr) -> pl.DataFrame:
    clicked = pl.col("item").filter(pl.col("clicked").fill_null(value=False))
    return (
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
        )
        .select("file", "row", "user", "time", "slate", "click", "source", "position")
    )
