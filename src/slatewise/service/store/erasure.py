"""Erasing a person: her slates go, and what comes late about them is refused."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from sqlalchemy import Connection, delete, insert, select

from slatewise.service.store.counters import Counter, take_turn
from slatewise.service.store.engine import Database, StoreError
from slatewise.service.store.schema import ERASED, META, OUTCOMES, SLATES, rows_with


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
    if connection.execute(select(ERASED.c.time).limit(1)).first() is None:
        return set()
    slates = {_digest(salt, "slate", slate_id): slate_id for slate_id in unknown}
    people = {user: _digest(salt, "user", user) for _, user, _ in fresh if user is not None}
    digests = slates.keys() | set(people.values())
    when = {
        row.digest: row.time
        for row in rows_with(connection, select(ERASED), ERASED.c.digest, digests)
    }
    gone = {slate_id for digest, slate_id in slates.items() if digest in when}
    until = {user: when[digest] for user, digest in people.items() if digest in when}
    return gone | {slate_id for slate_id, user, time in fresh if time <= until.get(user or "", -1)}


def erase(connection: Connection, salt: str, user_id: str, now: int) -> int:
    """Delete all that is kept of a person, and remember by digests that it was; count slates."""
    take_turn(connection, Counter.LOG)
    slates = connection.scalars(select(SLATES.c.slate_id).where(SLATES.c.user_id == user_id)).all()
    for table in (OUTCOMES, SLATES):
        connection.execute(delete(table).where(table.c.user_id == user_id))
    person = _digest(salt, "user", user_id)
    before = connection.scalar(select(ERASED.c.time).where(ERASED.c.digest == person))
    connection.execute(delete(ERASED).where(ERASED.c.digest == person))
    rows = [{"digest": _digest(salt, "slate", slate), "time": now} for slate in slates]
    rows.append({"digest": person, "time": max(now, before or 0)})
    connection.execute(insert(ERASED), rows)
    return len(slates)


def scrub(database: Database) -> None:
    """Leave no trace of deleted rows in SQLite's files: write the file anew, and empty its log.

    `secure_delete` overwrites deleted rows, but not copies that were left in the unused part of a
    page when rows moved to another page: 1 person in 40 left one. The log holds the rows as well,
    until it is emptied, which waits for readers of before the deletion.
    """
    database.read(lambda connection: connection.exec_driver_sql("VACUUM").close())
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
