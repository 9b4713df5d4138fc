"""Erasing a person: her slates go, and what comes late about them is refused."""

import secrets
import time
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Delete, delete, insert, select, update

from slatewise.service.store.batches import Lookup
from slatewise.service.store.counters import Counter, take_turn
from slatewise.service.store.engine import PATIENCE, Database, StoreError
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
CHECKPOINT_SECONDS: Final = 0.2
"""in which readers must end where the log of SQLite is emptied: writers wait meanwhile"""
_TRACES: Final = "traces"
_IN_LOG, _IN_FILE = "log", "1"
"""where bytes of deleted rows may be: in the log and in the file, or in the file alone"""
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
    """Delete some slates of a person with their outcomes; return how many."""
    take_turn(connection, Counter.LOG)
    found = connection.execute(some).all()
    if not found:
        return 0
    numbers = [row.seq for row in found]
    connection.execute(delete(OUTCOMES).where(OUTCOMES.c.slate.in_(numbers)))
    connection.execute(delete(SLATES).where(SLATES.c.seq.in_(numbers)))
    rows = [{"digest": _digest(salt, "slate", row.slate_id), "time": now} for row in found]
    connection.execute(insert(ERASED), rows)
    _note_traces(connection)
    return len(found)


def _erase_past(connection: Connection, past: Delete) -> None:
    """Delete what experiments count of slates of a person that have left."""
    if connection.execute(past).rowcount:
        _note_traces(connection)


def has_traces(database: Database) -> bool:
    """Return whether SQLite's files may hold bytes of people who were erased."""
    return database.is_sqlite and _traces(database) is not None


def has_traces_in_log(database: Database) -> bool:
    """Return whether SQLite's write-ahead log may still hold rows of people who were erased."""
    return database.is_sqlite and (_traces(database) or "").startswith(_IN_LOG)


def _traces(database: Database) -> str | None:
    wanted = select(META.c.value).where(META.c.name == _TRACES)
    return database.read(lambda connection: connection.scalar(wanted))


def _note_traces(connection: Connection) -> None:
    """Note that rows were deleted, of which the log and the file may have copies."""
    if connection.dialect.name == "sqlite":
        connection.execute(delete(META).where(META.c.name == _TRACES))
        # Another one each time: what is deleted while the log is emptied is noted as it was.
        value = f"{_IN_LOG} {secrets.token_hex(8)}"
        connection.execute(insert(META), [{"name": _TRACES, "value": value}])


def tidy(database: Database) -> bool:
    """Remove deleted rows from the log, and from a small file; return whether none is in the log.

    Whoever reads the store for long keeps the log from being emptied: try again later.
    """
    if not has_traces_in_log(database):
        return True
    noted = _traces(database)
    if not _empty_log(database):
        return False
    if Path(str(database.url.database)).stat().st_size <= SMALL:
        return _rewrite(database, noted, 0.0)
    change = update(META).where(META.c.name == _TRACES, META.c.value == noted)
    database.write(lambda connection: connection.execute(change.values(value=_IN_FILE)))
    _empty_log(database)
    return True


def scrub(database: Database, patience: float = PATIENCE) -> None:
    """Rewrite the SQLite file without traces of deleted rows, while writers wait."""
    if not _rewrite(database, _traces(database), patience):
        raise StoreError(
            "Deleted rows still stand in SQLite's write-ahead log: a process has been reading the "
            "store for too long.",
            "Try again when it has ended.",
        )


def _rewrite(database: Database, noted: str | None, patience: float) -> bool:
    """Rewrite the SQLite file; return whether the log was emptied too, within some seconds.

    `secure_delete` overwrites deleted rows, but not copies that were left in the unused part of a
    page when rows moved to another page: 1 person in 40 left one.
    """
    database.read(lambda connection: connection.exec_driver_sql("VACUUM").close())
    end = time.monotonic() + patience
    while not _empty_log(database):
        if time.monotonic() > end:
            return False
        time.sleep(CHECKPOINT_SECONDS)
    change = delete(META).where(META.c.name == _TRACES, META.c.value == noted)
    database.write(lambda connection: connection.execute(change))
    _empty_log(database)
    return True


def _empty_log(database: Database) -> bool:
    """Empty SQLite's write-ahead log; return whether no reader kept it from that."""
    return not database.read(_checkpoint)


def _checkpoint(connection: Connection) -> bool:
    """Return whether a reader kept the log from being emptied."""
    # First what keeps nobody waiting; then writers wait for as long as this waits for readers.
    connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)").close()
    before = connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one()
    connection.exec_driver_sql(f"PRAGMA busy_timeout = {round(1_000 * CHECKPOINT_SECONDS)}").close()
    try:
        return bool(connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()[0])
    finally:
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {before}").close()


def _digest(salt: str, kind: str, name: str) -> str:
    content = f"{kind} {name}".encode()
    return blake2b(content, key=bytes.fromhex(salt), digest_size=16).hexdigest()
