"""The window of the log that a night learns from, read from the store as a log and its items."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Protocol

import polars as pl
import pyarrow.parquet as pq

from slatewise.data.columns import UNKNOWN, Columns
from slatewise.data.dataset import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.service.logs.visits import LOG_SCHEMA, items_of_log, log_table
from slatewise.service.store.clock import DAY
from slatewise.service.store.features import Features
from slatewise.service.store.records import Item, SlateRecord, Visit
from slatewise.service.store.versions import VersionShelf

Progress = Callable[[str, int, int | None], None]
"""Called with a stage, how much of it is done, and how much there is, if known."""

DESCRIBED: Final = "described"
"""The column of the change that gave an item's features."""


class VisitStore(Protocol):
    """What a window is taken from."""

    def export(self, start: int, end: int) -> Iterable[list[Visit]]:
        """Stream the visits whose slates are of these times, the end left out."""

    def training(self) -> AbstractContextManager[None]:
        """Keep other hosts that share the store from training until this ends."""

    def take_version(self, model: str, least: int) -> int:
        """Return the next number of a version, which no host gets again."""

    def shelf(self, model: str) -> VersionShelf | None:
        """Return the versions of a model that hosts share; None if the store is of one host."""

    def last_shown(self) -> int:
        """Return the time of the newest slate."""

    def all_items(self) -> Iterable[list[Item]]:
        """Stream all items, also removed ones."""

    def item_features(self, numbers: Sequence[int]) -> Mapping[int, Features]:
        """Return the features that changes of items gave, by the numbers of the changes."""


@dataclass(frozen=True)
class Window:
    """A log and an items table, and what they hold."""

    log: Path
    items: Path
    described: Path
    """which change gave the features of an item, of those that have any"""
    start: int
    end: int
    """microseconds since 1970, left out"""
    slates: int
    """of which something was seen"""
    clicks: int
    unseen: int
    """slates of which nothing was seen; they are left out"""
    unknown_items: int
    """items that were shown but that the shop never named; they are in the group `unknown`"""


@dataclass(frozen=True)
class NightData:
    """What all models of a night learn from, read from the store when the first one asks."""

    folder: Path
    """gone when the night is over"""
    store: VisitStore
    now: int
    """microseconds since 1970"""
    days: float
    progress: Progress

    @cached_property
    def window(self) -> Window:
        """The log and the items."""
        start = self.now - round(self.days * DAY)
        return export_window(self.store, self.folder, start, self.now, self.progress)

    @cached_property
    def dataset(self) -> SlateDataset:
        """The same, prepared."""
        out, window = self.folder / "dataset", self.window
        return prepare(window.log, window.items, out, overwrite=True, progress=self.progress)


def export_window(
    store: VisitStore, folder: Path, start: int, end: int, progress: Progress
) -> Window:
    """Write the visits of [start, end) and the items they and the shop have, in a stream."""
    log, items = folder / "log.parquet", folder / "items.parquet"
    described = folder / "described.parquet"
    shown: set[str] = set()
    slates = clicks = unseen = 0
    with pq.ParquetWriter(log, LOG_SCHEMA) as writer:
        for batch in store.export(start, end):
            seen = [visit for visit in batch if visit.seen]
            writer.write_table(log_table(seen, _user_of))
            for visit in seen:
                shown.update(visit.slate.items[: visit.seen])
            slates, unseen = slates + len(seen), unseen + len(batch) - len(seen)
            clicks += sum(len(visit.clicked) for visit in seen)
            progress("reading the log", slates, None)
    unknown = _write_items(store, items, described, shown)
    return Window(log, items, described, start, end, slates, clicks, unseen, unknown)


def _user_of(slate: SlateRecord) -> str:
    # An anonymous user is a user of one slate; the first letter keeps the two kinds apart.
    if slate.user_id is None:
        return f"s{slate.slate_id}"
    return f"u{slate.user_id}"


def _write_items(store: VisitStore, file: Path, described: Path, shown: set[str]) -> int:
    """Write the items that can be shown or were; return how many of those shown are unknown."""
    groups, described_by = dict[str, str](), dict[str, int]()
    for item in items_of_log(store, shown):
        groups[item.item_id] = item.group
        if item.described:
            described_by[item.item_id] = item.described
    unknown = shown - groups.keys()
    groups |= dict.fromkeys(unknown, UNKNOWN)
    # By id, so that the same log gives the same model.
    rows = sorted(groups.items())
    table = {Columns.ITEM: [item for item, _ in rows], Columns.GROUP: [group for _, group in rows]}
    schema = {Columns.ITEM: pl.String, Columns.GROUP: pl.String}
    pl.DataFrame(table, schema=schema).write_parquet(file)
    changes = {Columns.ITEM: list(described_by), DESCRIBED: list(described_by.values())}
    types = {Columns.ITEM: pl.String, DESCRIBED: pl.Int64}
    pl.DataFrame(changes, schema=types).write_parquet(described)
    return len(unknown)
