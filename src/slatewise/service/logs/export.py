"""From the store to a log: what people saw and clicked, as `prepare` and `load` read it.

Visits are streamed, a batch at a time, and the file appears when it is complete. It holds what was
known when the export began, while the service goes on.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from slatewise.data.columns import Columns
from slatewise.errors import SlatewiseError
from slatewise.files import atomic_file
from slatewise.service.logs.visits import LOG_SCHEMA, items_of_log, log_table
from slatewise.service.store import Store
from slatewise.service.store.feature_columns import feature_columns
from slatewise.service.store.features import Features
from slatewise.service.store.records import Item, SlateRecord

SUFFIXES: Final = (".parquet", ".csv")
_PAGE: Final = 5_000
_TIME: Final = "%Y-%m-%dT%H:%M:%S%.6f+00:00"


@dataclass
class ExportReport:
    """What was written, and what was left out."""

    slates: int = 0
    """of which something was seen: one row each"""
    clicks: int = 0
    anonymous: int = 0
    """slates of anonymous users, each of whom is a user of one slate in the log"""
    unseen: int = 0
    """slates with an outcome of which nothing was seen; they are left out"""
    items: int = 0
    """rows of the items table"""


def export_log(
    store: Store,
    out: Path,
    *,
    items: Path | None = None,
    start: int = 0,
    end: int = 2**62,
    progress: Callable[[str, int, int | None], None] = lambda stage, done, total: None,
) -> ExportReport:
    """Write the visits of slates shown from `start` to before `end`, oldest first.

    Slates of which nothing was heard are no visits. The suffix of a file says what it is: Parquet
    or CSV. `items` is where the items table goes, if it is wanted.
    """
    for file in (out,) if items is None else (out, items):
        _require_suffix(file)
    report, shown = ExportReport(), set[str]()
    with _writer(out) as write:
        for batch in store.export(start, end):
            seen = [visit for visit in batch if visit.seen]
            write(log_table(seen, user_of))
            for visit in seen:
                shown.update(visit.slate.items[: visit.seen])
            report.slates += len(seen)
            report.clicks += sum(len(visit.clicked) for visit in seen)
            report.anonymous += sum(visit.slate.user_id is None for visit in seen)
            report.unseen += len(batch) - len(seen)
            progress("exporting", report.slates, None)
    if items is not None:
        report.items = _write_items(store, items, shown)
    return report


def user_of(slate: SlateRecord) -> str:
    """Return the user of a slate; an anonymous one is a user of this slate alone."""
    if slate.user_id is not None:
        return slate.user_id
    return f"anonymous-{blake2b(slate.slate_id.encode(), digest_size=12).hexdigest()}"


def _require_suffix(file: Path) -> None:
    if file.suffix not in SUFFIXES:
        raise SlatewiseError(
            f"{file}: a log is written as Parquet or CSV.",
            f"Give it a name that ends in {' or '.join(SUFFIXES)}.",
        )
    if not file.absolute().parent.is_dir():
        raise SlatewiseError(f"{file.parent} is no directory.", "Make it first.")


@contextmanager
def _writer(out: Path) -> Iterator[Callable[[pa.Table], None]]:
    """Yield a function that adds rows to a file, which appears when all is written."""
    with atomic_file(out) as partial:
        try:
            if out.suffix == ".parquet":
                with pq.ParquetWriter(partial, LOG_SCHEMA) as file:
                    yield file.write_table
            else:
                with partial.open("wb") as text:
                    empty = _text(log_table([], user_of))
                    empty.write_csv(text)
                    yield lambda rows: _text(rows).write_csv(text, include_header=False)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def _text(rows: pa.Table) -> pl.DataFrame:
    """Return rows with their lists as JSON: an id may hold any delimiter."""
    frame = pl.DataFrame(pl.from_arrow(rows))
    lists = [
        pl.Series(name, [json.dumps(ids) for ids in rows[name].to_pylist()], pl.String)
        for name in (Columns.SLATE, Columns.CLICK)
    ]
    return frame.with_columns(*lists, pl.col(Columns.TIME).dt.strftime(_TIME))


def _write_items(store: Store, file: Path, shown: set[str]) -> int:
    """Write the items that go with the log, with groups and features; return how many."""
    items = list(items_of_log(store, shown))
    table = pl.DataFrame(
        {Columns.ITEM: [item.item_id for item in items], Columns.GROUP: [i.group for i in items]},
        schema={Columns.ITEM: pl.String, Columns.GROUP: pl.String},
    )
    table = table.with_columns(feature_columns(_features(store, items)))
    if file.suffix == ".csv":
        lists = [name for name, dtype in table.schema.items() if dtype.is_nested()]
        table = table.with_columns(_as_json(table[name]) for name in lists)
    with atomic_file(file) as partial:
        table.write_parquet(partial) if file.suffix == ".parquet" else table.write_csv(partial)
    return len(items)


def _features(store: Store, items: Sequence[Item]) -> Iterator[list[Features]]:
    """Read the features of items page by page, empty where none were given."""
    for start in range(0, len(items), _PAGE):
        numbers = [item.described for item in items[start : start + _PAGE]]
        found = store.item_features([number for number in numbers if number])
        yield [found.get(number, {}) for number in numbers]


def _as_json(lists: pl.Series) -> pl.Series:
    texts = [None if one is None else json.dumps(one) for one in lists.to_list()]
    return pl.Series(lists.name, texts, pl.String)
