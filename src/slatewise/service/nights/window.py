"""The window of the log that a night learns from, read from the store as a log and its items."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Final, Protocol

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from slatewise.data.columns import UNKNOWN, Columns
from slatewise.data.dataset import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.service.logs.visits import LOG_SCHEMA, items_of_log, log_table
from slatewise.service.store.clock import DAY
from slatewise.service.store.features import Features, features_of
from slatewise.service.store.records import Item, SlateRecord, Visit
from slatewise.service.store.versions import VersionShelf

Progress = Callable[[str, int, int | None], None]
"""Called with a stage, how much of it is done, and how much there is, if known."""

FEATURES: Final = "features"
"""The column of what the shop said of an item, as JSON."""
_PAGE: Final = 5_000


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
    features: Path
    """the features of the items that the shop described, as JSON"""
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
    log, items, features = (folder / f"{name}.parquet" for name in ("log", "items", "features"))
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
    unknown = _write_items(store, items, features, shown)
    return Window(log, items, features, start, end, slates, clicks, unseen, unknown)


def _user_of(slate: SlateRecord) -> str:
    # An anonymous user is a user of one slate; the first letter keeps the two kinds apart.
    if slate.user_id is None:
        return f"s{slate.slate_id}"
    return f"u{slate.user_id}"


def _write_items(store: VisitStore, file: Path, features: Path, shown: set[str]) -> int:
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
    _write_features(store, features, described_by)
    return len(unknown)


def _write_features(store: VisitStore, file: Path, described_by: Mapping[str, int]) -> None:
    """Write the features that changes gave to items: the store is asked once, page by page."""
    schema = pa.schema({Columns.ITEM: pa.string(), FEATURES: pa.string()})
    with pq.ParquetWriter(file, schema) as writer:
        items = iter(described_by.items())
        while page := list(islice(items, _PAGE)):
            found = store.item_features([number for _, number in page])
            texts = [json.dumps(found.get(number, {})) for _, number in page]
            columns = {Columns.ITEM: [item for item, _ in page], FEATURES: texts}
            writer.write_table(pa.table(columns, schema))


def read_features(window: Window) -> Iterator[tuple[list[str], list[Features]]]:
    """Yield the items that the shop described, page by page, and their features."""
    for page in pq.ParquetFile(window.features).iter_batches(_PAGE):
        texts = page[FEATURES].to_pylist()
        yield page[Columns.ITEM].to_pylist(), [features_of(text) for text in texts]
