"""The items on offer, and every change of them."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import Connection, Delete, bindparam, delete, insert, or_, select, update

from slatewise.service.store.batches import AT_ONCE, Lookup
from slatewise.service.store.counters import Counter, advance, take_turn
from slatewise.service.store.engine import LONG, Database
from slatewise.service.store.queries import FOREVER
from slatewise.service.store.records import Item, ItemState
from slatewise.service.store.schema import (
    ITEM_CHANGES,
    ITEM_FEATURES,
    ITEMS,
    AnyRow,
    AnySelect,
)


class WantedItem(NamedTuple):
    """An item as it should be."""

    item_id: str
    group: str
    state: ItemState = ItemState.SHOWN
    features: str | None = None
    """as JSON; None leaves them as they are"""


PAGE = 10_000
_ITEMS = Lookup(select(ITEMS), ITEMS.c.item_id)
_FEATURES = Lookup(select(ITEM_FEATURES), ITEM_FEATURES.c.seq)


def put(connection: Connection, given: Sequence[WantedItem]) -> int:
    """Make the items so; return the number of the last change. What is so already is no change."""
    last = take_turn(connection, Counter.ITEMS)
    before = _current(connection, [one.item_id for one in given])
    named = {one.item_id for one in given if one.features is not None}
    stored = features(
        connection, [one.described for one in before.values() if one.item_id in named]
    )
    now, changes, fresh = dict(before), list[Item](), dict[int, str]()
    for item_id, group, state, described in given:
        old = now.get(item_id)
        number = 0 if old is None else old.described
        other = described is not None and described != stored.get(number)
        if old is None or other or (old.group, old.state) != (group, state):
            last += 1
            if described is not None and other:
                number, stored[last], fresh[last] = last, described, described
            now[item_id] = Item(item_id, group, state, last, number)
            changes.append(now[item_id])
    _write(connection, changes, {item.item_id: item for item in changes}, before)
    if fresh:
        rows = [{"seq": seq, "features": text} for seq, text in fresh.items()]
        connection.execute(insert(ITEM_FEATURES), rows)
    advance(connection, Counter.ITEMS, last)
    return last


def remove(connection: Connection, item_ids: Sequence[str]) -> int:
    """Remove the items that there are; return the number of the last change."""
    take_turn(connection, Counter.ITEMS)
    found = _current(connection, item_ids).values()
    return put(
        connection, [WantedItem(item.item_id, item.group, ItemState.REMOVED) for item in found]
    )


def features(connection: Connection, numbers: Iterable[int]) -> dict[int, str]:
    """Return the features that changes set, by their numbers, as JSON."""
    wanted = [number for number in dict.fromkeys(numbers) if number]
    return {row.seq: row.features for row in _FEATURES.rows(connection, wanted)}


def item(connection: Connection, item_id: str) -> Item | None:
    """Return an item; a removed one has that state."""
    return _current(connection, [item_id]).get(item_id)


def page(
    connection: Connection, after: str, limit: int, *, removed: bool, search: str = ""
) -> list[Item]:
    """Return the next items by id, with or without those that were removed.

    With `search`, those that have it in their id or group, whatever the case of its letters.
    """
    wanted = select(ITEMS).where(ITEMS.c.item_id > after).order_by(ITEMS.c.item_id).limit(limit)
    if search:
        columns = (ITEMS.c.item_id, ITEMS.c.item_group)
        wanted = wanted.where(or_(*(one.icontains(search, autoescape=True) for one in columns)))
    if not removed:
        wanted = wanted.where(ITEMS.c.state != ItemState.REMOVED)
    return [_item(row) for row in connection.execute(wanted)]


def pages(database: Database) -> Iterator[list[Item]]:
    """Return all items by id, also those that were removed."""
    after = ""

    def read(connection: Connection) -> list[Item]:
        return page(connection, after, PAGE, removed=True)

    while found := database.read(read):
        yield found
        after = found[-1].item_id


def changes_between(connection: Connection, since: int, until: int | None) -> list[Item]:
    """Return the changes after number `since`, up to and with `until`, in order."""
    last = FOREVER if until is None else until
    between = ITEM_CHANGES.c.seq.between(since + 1, last)
    changes = select(ITEM_CHANGES).where(between).order_by(ITEM_CHANGES.c.seq)
    return [_item(row) for row in connection.execute(changes)]


def compact(database: Database, until: int) -> int:
    """Delete changes up to a number that a later one up to it made void; return how many.

    In slices, between which others write.
    """
    last, since, deleted = dict[str, int](), 0, 0
    while since < until:
        end = min(since + PAGE, until)
        between = ITEM_CHANGES.c.seq.between(since + 1, end)
        page_ = select(ITEM_CHANGES.c.seq, ITEM_CHANGES.c.item_id).where(between)
        rows = database.read(partial(_all, page_.order_by(ITEM_CHANGES.c.seq)))
        void = []
        for row in rows:
            if row.item_id in last:
                void.append(last[row.item_id])
            last[row.item_id] = row.seq
        deleted += _delete_changes(database, void)
        since = end
    if deleted:
        used = select(ITEM_CHANGES.c.described).where(ITEM_CHANGES.c.described.is_not(None))
        unused = ITEM_FEATURES.c.seq <= until, ITEM_FEATURES.c.seq.not_in(used)
        database.write(partial(_run, delete(ITEM_FEATURES).where(*unused)), LONG)
    return deleted


def _all(statement: AnySelect, connection: Connection) -> Sequence[AnyRow]:
    return connection.execute(statement).all()


def _delete_changes(database: Database, numbers: Sequence[int]) -> int:
    for start in range(0, len(numbers), AT_ONCE):
        some = numbers[start : start + AT_ONCE]
        gone = delete(ITEM_CHANGES).where(ITEM_CHANGES.c.seq.in_(some))
        database.write(partial(_run, gone))
    return len(numbers)


def _run(statement: Delete, connection: Connection) -> None:
    connection.execute(statement)


def _current(connection: Connection, item_ids: Sequence[str]) -> dict[str, Item]:
    wanted = dict.fromkeys(item_ids)
    return {row.item_id: _item(row) for row in _ITEMS.rows(connection, wanted)}


def _write(
    connection: Connection,
    changes: Sequence[Item],
    final: dict[str, Item],
    before: dict[str, Item],
) -> None:
    """Append the changes, and bring the current items to their final state."""
    if changes:
        connection.execute(insert(ITEM_CHANGES), [_row(item) for item in changes])
    if new := [_row(item) for item in final.values() if item.item_id not in before]:
        connection.execute(insert(ITEMS), new)
    if old := [
        _row(item) | {"id": item.item_id} for item in final.values() if item.item_id in before
    ]:
        connection.execute(update(ITEMS).where(ITEMS.c.item_id == bindparam("id")), old)


def _row(item: Item) -> dict[str, Any]:
    return {
        "seq": item.seq,
        "item_id": item.item_id,
        "item_group": item.group,
        "state": item.state.value,
        "described": item.described or None,
    }


def _item(row: AnyRow) -> Item:
    return Item(row.item_id, row.item_group, ItemState(row.state), row.seq, row.described or 0)
