"""Writers of `log.parquet` and `items.parquet`."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from slatewise.data.columns import UNKNOWN, Columns
from slatewise.data.public.tally import Tally
from slatewise.errors import InputError

LOG_COLUMNS: Final = [
    Columns.USER,
    Columns.TIME,
    Columns.SLATE,
    Columns.CLICK,
    Columns.SOURCE,
]


class ShownItems:
    """The distinct items of a stream of slates, in memory proportional to their number."""

    def __init__(self) -> None:
        """Start without any item."""
        self._distinct = pl.DataFrame()
        self._recent: list[pl.DataFrame] = []

    def add(self, slates: pl.Series) -> None:
        """Add the items of a batch of slates."""
        self._recent.append(slates.explode().drop_nulls().unique().to_frame(Columns.ITEM))
        # Merging whenever as much is new as was known keeps the total work linear.
        if sum(batch.height for batch in self._recent) > self._distinct.height:
            self._merge()

    def frame(self) -> pl.DataFrame:
        """Return the items, one per row."""
        self._merge()
        return self._distinct

    def _merge(self) -> None:
        self._distinct = pl.concat([self._distinct, *self._recent], how="diagonal").unique()
        self._recent = []


def write_log(
    file: Path, batches: Iterable[pl.DataFrame], advance: Callable[[], None]
) -> tuple[int, pl.DataFrame]:
    """Write the log, calling `advance` after each piece; return its row count and shown items."""
    shown = ShownItems()

    def announced() -> Iterator[pl.DataFrame]:
        for batch in batches:
            yield batch.select(LOG_COLUMNS)
            shown.add(batch[Columns.SLATE])
            advance()

    return _write(file, announced()), shown.frame()


def write_items(
    file: Path, frames: Iterable[pl.DataFrame], shown: pl.DataFrame, tally: Tally
) -> int:
    """Write the items, adding those that were shown but are not described, and return how many."""

    def completed() -> Iterator[pl.DataFrame]:
        missing, last = shown, None
        for last in frames:
            missing = missing.join(last, on=Columns.ITEM, how="anti")
            yield last
        if last is None or missing.is_empty():
            return
        tally.note("items shown but not in the item table, given the group 'unknown'", len(missing))
        group = missing.with_columns(pl.lit(UNKNOWN).alias(Columns.GROUP))
        yield pl.concat([last.clear(), group.sort(Columns.ITEM)], how="diagonal")

    written = _write(file, completed())
    if not written:
        raise InputError("The item table is empty.", "Check that this is the whole dataset.")
    _require_distinct(file)
    return written


def _write(file: Path, frames: Iterable[pl.DataFrame]) -> int:
    writer: pq.ParquetWriter | None = None
    rows = 0
    try:
        for frame in frames:
            if frame.is_empty():
                continue
            table: pa.Table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
            writer = writer or pq.ParquetWriter(file, table.schema, compression="zstd")
            writer.write_table(table)
            rows += frame.height
    finally:
        if writer is not None:
            writer.close()
    return rows


def _require_distinct(file: Path) -> None:
    ids = pl.scan_parquet(file, glob=False).select(Columns.ITEM).with_row_index("row", offset=1)
    twice = ids.filter(~pl.col(Columns.ITEM).is_first_distinct()).head(1).collect()
    for row, item in twice.rows():
        raise InputError(
            f"Item {item!r} is described twice; the second time in row {row:,} of the item table.",
            "Keep one description of each item.",
        )
