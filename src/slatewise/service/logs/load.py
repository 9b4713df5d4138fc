"""From a log or a dataset into the store: items that are new, then slates, batch by batch.

A slate is known by what it says. So a load that was killed is simply done again, and what another
load brought in already is left as it is.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

import polars as pl

from slatewise.data import SlateDataset
from slatewise.data.columns import Columns
from slatewise.data.formats import ItemsFormat, LogFormat
from slatewise.data.log import Log
from slatewise.data.preparation import prepare
from slatewise.data.reductions import PrepareConfig
from slatewise.errors import InputError, SlatewiseError
from slatewise.features.item_columns import typed_columns
from slatewise.features.item_dates import MISSING, date_columns
from slatewise.features.item_kinds import usable_kinds
from slatewise.service.logs.checks import require_fit, require_fit_features
from slatewise.service.logs.columns import slates_of
from slatewise.service.store import Store
from slatewise.service.store.bulk import LoadCounts
from slatewise.service.store.features import Features
from slatewise.service.store.stamps import Stamps
from slatewise.service.store.workspace import workspace

Progress = Callable[[str, int, int | None], None]
"""Called with a stage, how much of it is done, and how much there is, if known."""


@dataclass(frozen=True)
class LoadReport:
    """The result of loading a log."""

    slates: LoadCounts
    items: int
    """items that the service had not heard of"""
    skipped: dict[str, str]
    """columns of items that were left out, and why"""
    interactions: int
    """in the log after repairs: a slate with several clicks is several"""
    problems: list[dict[str, Any]]
    """what was repaired or dropped, as in `dataset.json`"""
    seconds: float


def load_log(
    log: Path,
    directory: Path,
    store: Store,
    *,
    items: Path | None = None,
    log_format: LogFormat | None = None,
    items_format: ItemsFormat | None = None,
    strict: bool = False,
    progress: Progress = lambda stage, done, total: None,
) -> LoadReport:
    """Load a log, in any form that `prepare` reads, into the store of a service.

    Without `items`, groups are those that the store has, and no item is added to it.
    """
    begun = time.monotonic()
    source = Log(log, log_format or LogFormat())
    with workspace(directory, "loaded") as folder:
        table = items or _known_items(store, folder / "items.parquet")
        dataset = prepare(
            log,
            table,
            folder / "dataset",
            PrepareConfig(strict=strict),
            log_format=source.layout,
            items_format=items_format if items else None,
            progress=progress,
        )
        require_fit(dataset, source)
        added: tuple[int, dict[str, str]] = (0, {})
        if items is not None:
            added = _add_items(dataset, directory, store, items, items_format or ItemsFormat())
        return _load(dataset, directory, store, added, begun, progress)


def load_dataset(
    dataset: SlateDataset,
    directory: Path,
    store: Store,
    progress: Progress = lambda stage, done, total: None,
) -> LoadReport:
    """Load a dataset, whatever its split, and its items into the store of a service."""
    begun = time.monotonic()
    require_fit(dataset)
    file = dataset.path / "items.parquet"
    added = _add_items(dataset, directory, store, file, ItemsFormat())
    return _load(dataset, directory, store, added, begun, progress)


def _add_items(
    dataset: SlateDataset, directory: Path, store: Store, table: Path, layout: ItemsFormat
) -> tuple[int, dict[str, str]]:
    """Add the items that are new, with their columns; return how many, and which columns not.

    Columns that the store cannot keep are refused by their row of the `table` that they are from.
    """
    ids, groups = dataset.item_ids.cast(pl.String), dataset.items[Columns.GROUP]
    columns, skipped = _item_columns(dataset)
    features = _features(columns) if columns.width else repeat(None, len(ids))
    try:
        added = store.add_items(zip(ids, groups, features, strict=True))
    except InputError:
        # Looked for only now: to write the features of a million items twice takes seconds.
        require_fit_features(zip(ids, _features(columns), strict=True), table, layout)
        raise
    _stamps(directory).change_items()
    return added, skipped


def _item_columns(dataset: SlateDataset) -> tuple[pl.DataFrame, dict[str, str]]:
    """Return the columns that models can read, as JSON can hold them, and why not the others."""
    file, dates = dataset.path / "items.parquet", date_columns(dataset.items)
    others = dataset.items.drop(list(dates))
    kinds, skipped = usable_kinds(others, file)
    columns = typed_columns(others, kinds, file)
    for name, times in dates.items():
        known = pl.Series(name, times)
        written = known.set(known == MISSING, None).cast(pl.Datetime("us"))
        columns = columns.with_columns(written.dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"))
    return columns, skipped


def _features(columns: pl.DataFrame) -> Iterator[Features]:
    """Return what is known of each item."""
    for row in columns.iter_rows(named=True):
        yield {name: value for name, value in row.items() if value is not None}


def _load(
    dataset: SlateDataset,
    directory: Path,
    store: Store,
    added: tuple[int, dict[str, str]],
    begun: float,
    progress: Progress,
) -> LoadReport:
    counts, done, stamps = LoadCounts(), 0, _stamps(directory)
    for batch in slates_of(dataset):
        counts += store.load(batch.slates)
        stamps.change_users(set(batch.slates.user_ids))
        done += batch.interactions
        progress("loading", done, dataset.num_interactions)
    return LoadReport(
        counts,
        *added,
        dataset.num_interactions,
        dataset.meta["report"]["problems"],
        time.monotonic() - begun,
    )


def _stamps(directory: Path) -> Stamps:
    return Stamps.open(directory / "shared.bin")


def _known_items(store: Store, file: Path) -> Path:
    """Write the items of a store, also removed ones, as an items table."""
    known = [(item.item_id, item.group) for batch in store.all_items() for item in batch]
    if not known:
        raise SlatewiseError(
            "the service has no items yet, and a log does not say their groups.",
            "Name the table of items: --items ITEMS.",
        )
    schema = {Columns.ITEM: pl.String, Columns.GROUP: pl.String}
    pl.DataFrame(known, schema=schema, orient="row").write_parquet(file)
    return file
