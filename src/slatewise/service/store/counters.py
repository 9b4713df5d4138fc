"""Numbers that are given and seen in order."""

from enum import StrEnum

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from slatewise.service.store.schema import COUNTERS, META


class Counter(StrEnum):
    """What is counted."""

    LOG = "log"
    ITEMS = "items"


# Built once: to build a statement takes longer than to run it.
_LAST = select(COUNTERS.c.value).where(COUNTERS.c.name == bindparam("counter"))
_LOCKED = _LAST.with_for_update()
_ADVANCE = update(COUNTERS).where(COUNTERS.c.name == bindparam("counter"))
_ADVANCE = _ADVANCE.values(value=bindparam("last"))


def take_turn(connection: Connection, counter: Counter) -> int:
    """Return the last number given, and let no other process give one until this transaction ends.

    In PostgreSQL the row is locked: without that, a transaction with larger numbers could be seen
    before one with smaller numbers, and a reader who goes on from the largest would miss those.
    SQLite has one writer at a time.
    """
    return int(connection.scalars(_LOCKED, {"counter": counter.value}).one())


def advance(connection: Connection, counter: Counter, last: int) -> None:
    """Write down the last number given."""
    connection.execute(_ADVANCE, {"counter": counter.value, "last": last})


def last_number(connection: Connection, counter: Counter) -> int:
    """Return the last number given, without waiting for a writer."""
    return int(connection.scalars(_LAST, {"counter": counter.value}).one())


def take_version(connection: Connection, model: str, least: int) -> int:
    """Give the next number to a version of a model, `least` or more, and to no other."""
    take_turn(connection, Counter.ITEMS)  # one at a time
    name = f"version {model}"
    number = max(least, int(noted(connection, name) or 0) + 1)
    note(connection, name, str(number))
    return number


def noted(connection: Connection, name: str) -> str:
    """Return what was noted under a name, nothing if nothing was."""
    return connection.scalar(select(META.c.value).where(META.c.name == name)) or ""


def all_noted(connection: Connection, prefix: str) -> dict[str, str]:
    """Return what was noted under names with a prefix, by the rest of the name."""
    found = connection.execute(
        select(META.c.name, META.c.value).where(META.c.name.startswith(prefix))
    )
    return {name.removeprefix(prefix): value for name, value in found}


def note(connection: Connection, name: str, value: str) -> None:
    """Note a text under a name, in place of what was there; to be called in turn."""
    connection.execute(delete(META).where(META.c.name == name))
    if value:
        connection.execute(insert(META), [{"name": name, "value": value}])
