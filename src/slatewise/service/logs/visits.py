"""Visits of a store as rows of a log that `prepare` and `load` read, and the items of that log."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Final, Protocol

import pyarrow as pa

from slatewise.data.columns import Columns
from slatewise.service.store.records import Item, ItemState, SlateRecord, Visit

LOG_SCHEMA: Final = pa.schema(
    {
        Columns.USER: pa.string(),
        Columns.TIME: pa.timestamp("us", "UTC"),
        Columns.SLATE: pa.list_(pa.string()),
        Columns.CLICK: pa.list_(pa.string()),
        Columns.SOURCE: pa.string(),
    }
)


def log_table(visits: Sequence[Visit], user_of: Callable[[SlateRecord], str]) -> pa.Table:
    """Return a row for each visit: its slate as far as it was seen, and all clicks on it."""
    columns = {
        Columns.USER: [user_of(visit.slate) for visit in visits],
        Columns.TIME: [visit.slate.time for visit in visits],
        Columns.SLATE: [list(visit.slate.items[: visit.seen]) for visit in visits],
        Columns.CLICK: [list(visit.clicked) for visit in visits],
        Columns.SOURCE: [visit.slate.source for visit in visits],
    }
    arrays = [pa.array(columns[field.name], field.type) for field in LOG_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=LOG_SCHEMA)


class ItemPages(Protocol):
    """What items are taken from."""

    def all_items(self) -> Iterable[list[Item]]:
        """Stream all items, also removed ones."""


def items_of_log(store: ItemPages, shown: Container[str]) -> Iterator[Item]:
    """Yield the items that can be shown, and those that were `shown` in a log.

    Removed items that no slate of the log has are left out: a shop has ever more of them.
    """
    for page in store.all_items():
        for item in page:
            if item.state is not ItemState.REMOVED or item.item_id in shown:
                yield item
