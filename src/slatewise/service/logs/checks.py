"""Checks of a log before anything is written to the store."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl

from slatewise.data import SlateDataset
from slatewise.data.columns import Columns
from slatewise.data.formats import ItemsFormat
from slatewise.data.log import Log
from slatewise.data.tables import ROW, open_tables
from slatewise.errors import InputError, SlatewiseError
from slatewise.service.store.clock import AHEAD, EARLIEST, iso, wall_clock
from slatewise.service.store.features import Features, features_text
from slatewise.service.store.records import LONGEST, require_texts


def require_fit(dataset: SlateDataset, log: Log | None = None) -> None:
    """Refuse a dataset that the store cannot keep; name the row of the log that it came from."""
    if not dataset.meta["clock_times"]:
        raise SlatewiseError(
            f"{log.tables[0].path if log else dataset.path}: the times of this log are only an "
            "order, and a service goes by the clock.",
            "Log clock times; of numbers since 1970, give the unit with --time-unit.",
        )
    for field, where, problem, remedy in _misfits(dataset):
        if log is None:
            raise InputError(f"{problem}.", remedy, file=dataset.path, column=field)
        if field not in log.columns:
            raise InputError(f"{problem}.", remedy, column=field)
        file, row = _first(log, field, where)
        raise InputError(f"{problem}.", remedy, file=file, row=row, column=log.columns[field])


def require_fit_features(
    items: Iterable[tuple[str, Features]], table: Path, layout: ItemsFormat
) -> None:
    """Refuse features of items that the store cannot keep; name the row of the items table."""
    for item, features in items:
        try:
            features_text(features)
        except InputError as error:
            longest = max(features, key=lambda name: len(json.dumps(features[name])))
            file, row = _listed(table, layout, item)
            raise InputError(
                f"item {item!r}: {error.problem}; '{longest}' is the longest.",
                f"{error.remedy} Or leave the column out of the table.",
                file=file,
                row=row,
            ) from None


def _listed(table: Path, layout: ItemsFormat, item: str) -> tuple[Path, int | None]:
    """Return the file and row of an item in an items table."""
    for part in open_tables(table, "items"):
        ids = part.read([layout.item_id])
        same = pl.col(layout.item_id).cast(pl.String).str.strip_chars() == item
        if rows := ids.filter(same)[ROW].head(1).to_list():
            return part.path, int(rows[0])
    return table, None


def _misfits(dataset: SlateDataset) -> Iterator[tuple[str, pl.Expr, str, str]]:
    """Yield a field of the log, which values of it do not fit, why, and the remedy."""
    latest, value = wall_clock() + AHEAD, pl.col("value")
    if dataset.times.min() < EARLIEST:
        problem = f"{iso(int(dataset.times.min()))} is before the year 2000"
        yield "time", value < EARLIEST, problem, "Check the unit of the times (--time-unit)."
    if dataset.times.max() > latest:
        problem = f"{iso(int(dataset.times.max()))} is in the future"
        yield "time", value > latest, problem, "Check the unit and the zone of the times."
    for field, what, texts in (
        ("user_id", "the user's id", dataset.user_ids),
        ("source", "the source", pl.Series(dataset.source_names)),
        ("slate", "the id of an item", dataset.item_ids),
        ("group", "the group of an item", dataset.items[Columns.GROUP]),
    ):
        for text in _unfit(texts.cast(pl.String)):
            try:
                require_texts(what, [text])
            except InputError as error:
                yield field, value.cast(pl.String) == text, error.problem, error.remedy


def _unfit(texts: pl.Series) -> pl.Series:
    """Return texts that are too long, empty or have a NUL; valid Unicode they are anyway."""
    length = texts.str.len_chars()
    return texts.filter(~length.is_between(1, LONGEST) | texts.str.contains("\0", literal=True))


def _first(log: Log, field: str, where: pl.Expr) -> tuple[Path, int | None]:
    """Return the file and row of the first value of a field that is wanted."""
    names = {"user_id": "user", "slate": "item" if log.has_impressions else "slate"}
    for batch in log.batches(log.item_type):
        values = batch.select("file", "row", pl.col(names.get(field, field)).alias("value"))
        if isinstance(values.schema["value"], pl.List):
            values = values.explode("value", empty_as_null=True)
        if found := values.filter(where).head(1).rows():
            return log.files[found[0][0]], int(found[0][1])
    return log.files[0], None
