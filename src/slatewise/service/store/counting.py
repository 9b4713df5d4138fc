"""Numbers that are given and seen in order."""

from enum import StrEnum

from sqlalchemy import Connection, select, update

from slatewise.service.store.schema import COUNTERS


class Counter(StrEnum):
    """What is counted."""

    LOG = "log"
    ITEMS = "items"


def take_turn(connection: Connection, counter: Counter) -> int:
    """Return the last number given, and let nobody else give one until this transaction ends.

    In PostgreSQL the row is locked: without that, a transaction with larger numbers could be seen
    before one with smaller numbers, and a reader who goes on from the largest would miss those.
    SQLite has one writer at a time.
    """
    last = select(COUNTERS.c.value).where(COUNTERS.c.name == counter).with_for_update()
    return int(connection.scalars(last).one())


def advance(connection: Connection, counter: Counter, last: int) -> None:
    """Write down the last number given."""
    connection.execute(update(COUNTERS).where(COUNTERS.c.name == counter).values(value=last))


def last_number(connection: Connection, counter: Counter) -> int:
    """Return the last number given, without waiting for anybody."""
    return int(connection.scalars(select(COUNTERS.c.value).where(COUNTERS.c.name == counter)).one())
