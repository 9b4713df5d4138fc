"""Erasing a person: her slates go, and what comes late about them is refused."""

import time
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Delete, delete, insert, select

from slatewise.service.store.batches import Lookup
from slatewise.service.store.counters import Counter, take_turn
from slatewise.service.store.engine import Database, StoreError
from slatewise.service.store.schema import (
    ERASED,
    META,
    OUTCOMES,
    PAST_SLATES,
    SLATES,
    AnySelect,
)

SMALL: Final = 32_000_000
"""bytes of a file of SQLite that is written anew at once, in some tenths of a second"""
_SLICE: Final = 500
"""slates that are deleted in one transaction"""
_BREATH: Final = 0.01
"""seconds between two, in which others write"""
_TRACES: Final = "traces"
_ANY_ERASED = select(ERASED.c.time).limit(1)
_ERASED = Lookup(select(ERASED), ERASED.c.digest)


def read_salt(connection: Connection) -> str:
    """Return the salt of this store's digests."""
    return str(connection.scalars(select(META.c.value).where(META.c.name == "salt")).one())


def erased_slates(
    connection: Connection,
    salt: str,
    fresh: Sequence[tuple[str, str | None, int]],
    unknown: Iterable[str],
) -> set[str]:
    """Return the ids of slates that must not be kept, of new ones (id, user, time) and unknown ids.

    That is a slate that was erased, and one of an erased person that was shown before; a retry
    without a time of its own would otherwise bring it back.
    """
    unknown = list(unknown)
    if (not fresh and not unknown) or connection.execute(_ANY_ERASED).first() is None:
        return set()
    slates = {_digest(salt, "slate", slate_id): slate_id for slate_id in unknown}
    people = {user: _digest(salt, "user", user) for _, user, _ in fresh if user is not None}
    digests = slates.keys() | set(people.values())
    when = {row.digest: row.time for row in _ERASED.rows(connection, digests)}
    gone = {slate_id for digest, slate_id in slates.items() if digest in when}
    until = {user: when[digest] for user, digest in people.items() if digest in when}
    return gone | {slate_id for slate_id, user, time in fresh if time <= until.get(user or "", -1)}


def erase(database: Database, salt: str, user_id: str, now: int) -> int:
    """Delete all that is kept of a person, and remember by digests that it was; count slates.

    From the first moment on, what comes late is refused. The rest is done in slices, between which
    others write.
    """
    person = _digest(salt, "user", user_id)
    last, total = database.write(lambda connection: _remember(connection, person, now)), 0
    hers = select(SLATES.c.seq, SLATES.c.slate_id).where(SLATES.c.user_id == user_id)
    some = hers.where(SLATES.c.seq <= last).limit(_SLICE)
    while gone := database.write(lambda connection: _erase_some(connection, some, salt, now)):
        total += gone
        time.sleep(_BREATH)
    # Last, for a slate of hers may have left meanwhile.
    past = delete(PAST_SLATES).where(PAST_SLATES.c.user_id == user_id, PAST_SLATES.c.seq <= last)
    database.write(lambda connection: _erase_past(connection, past))
    return total


def _remember(connection: Connection, person: str, now: int) -> int:
    """Remember that a person was erased; return the number of the last record from before."""
    last = take_turn(connection, Counter.LOG)
    before = connection.scalar(select(ERASED.c.time).where(ERASED.c.digest == person))
    connection.execute(delete(ERASED).where(ERASED.c.digest == person))
    connection.execute(insert(ERASED), [{"digest": person, "time": max(now, before or 0)}])
    return last


def _erase_some(connection: Connection, some: AnySelect, salt: str, now: int) -> int:
    """Delete some slates of a person with what became of them; return how many."""
    take_turn(connection, Counter.LOG)
    found = connection.execute(some).all()
    if not found:
        return 0
    numbers = [row.seq for row in found]
    connection.execute(delete(OUTCOMES).where(OUTCOMES.c.slate.in_(numbers)))
    connection.execute(delete(SLATES).where(SLATES.c.seq.in_(numbers)))
    rows = [{"digest": _digest(salt, "slate", row.slate_id), "time": now} for row in found]
    connection.execute(insert(ERASED), rows)
    _note_traces(connection, True)
    return len(found)


def _erase_past(connection: Connection, past: Delete) -> None:
    """Delete what experiments count of slates of a person that have left."""
    if connection.execute(past).rowcount:
        _note_traces(connection, True)


def has_traces(database: Database) -> bool:
    """Return whether SQLite's file may hold bytes of people who were erased."""
    wanted = select(META.c.value).where(META.c.name == _TRACES)
    return database.is_sqlite and bool(database.read(lambda connection: connection.scalar(wanted)))


def _note_traces(connection: Connection, there: bool) -> None:
    connection.execute(delete(META).where(META.c.name == _TRACES))
    if there and connection.dialect.name == "sqlite":
        connection.execute(insert(META), [{"name": _TRACES, "value": "1"}])


def is_small(database: Database) -> bool:
    """Return whether SQLite's file is written anew in a moment."""
    file = Path(str(database.url.database))
    return file.stat().st_size <= SMALL


def scrub(database: Database) -> None:
    """Leave no trace of deleted rows in SQLite's file: write it anew, while writers wait.

    `secure_delete` overwrites deleted rows, but not copies that were left in the unused part of a
    page when rows moved to another page: 1 person in 40 left one.
    """
    database.read(lambda connection: connection.exec_driver_sql("VACUUM").close())
    database.write(lambda connection: _note_traces(connection, False))
    empty_log(database)


def empty_log(database: Database) -> None:
    """Empty SQLite's write-ahead log, which holds deleted rows until then."""
    if database.read(_checkpoint):
        raise StoreError(
            "The person's data are deleted, but still stand in SQLite's write-ahead log: a process "
            "has been reading the store for too long.",
            "Erase the person again.",
        )


def _checkpoint(connection: Connection) -> bool:
    """Return whether a reader kept the log from being emptied, however long it waited."""
    return bool(connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()[0])


def _digest(salt: str, kind: str, name: str) -> str:
    content = f"{kind} {name}".encode()
    return blake2b(content, key=bytes.fromhex(salt), digest_size=16).hexdigest()
