"""Writing slates of a log in bulk: as columns, all or nothing, and never twice."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from slatewise.service.store.batches import Lookup, insert_rows
from slatewise.service.store.counters import Counter, advance, take_turn
from slatewise.service.store.erasure import erased_slates
from slatewise.service.store.schema import OUTCOMES, SLATES

_KNOWN = Lookup(select(SLATES.c.slate_id, SLATES.c.seq), SLATES.c.slate_id)
_RECORDED = Lookup(select(OUTCOMES.c.slate, OUTCOMES.c.key), OUTCOMES.c.slate)

_SETTINGS = ("cache_size = -65536", "wal_autocheckpoint = 16384")
"""64 MB of SQLite's pages in memory, and as many in its log: the index by user is written all over,
and by the defaults of 2 and 4 MB every page would be written again and again."""


@dataclass(frozen=True)
class LoggedSlates:
    """N slates that others showed, each with its one outcome; ids and texts fit the store."""

    slate_ids: list[str]
    """[N]"""
    user_ids: list[str]
    """[N]"""
    times: list[int]
    """[N] microseconds since 1970"""
    sources: list[str]
    """[N]"""
    items: list[str]
    """[N] ids in shown order, as JSON; all were seen"""
    clicked: list[str]
    """[N] ids in the order of the clicks, as JSON"""
    keys: list[str]
    """[N] of the outcomes (`Outcome.key`)"""

    def __len__(self) -> int:
        """N."""
        return len(self.slate_ids)


@dataclass(frozen=True)
class LoadCounts:
    """How many slates of a log were new, were there already, and belong to erased people."""

    new: int = 0
    known: int = 0
    erased: int = 0

    def __add__(self, other: "LoadCounts") -> "LoadCounts":
        """Add the counts of another batch."""
        return LoadCounts(
            self.new + other.new, self.known + other.known, self.erased + other.erased
        )


def load(connection: Connection, slates: LoggedSlates, salt: str) -> LoadCounts:
    """Write the slates and outcomes that are new."""
    if connection.dialect.name == "sqlite":
        for setting in _SETTINGS:
            connection.exec_driver_sql(f"PRAGMA {setting}")
    last = take_turn(connection, Counter.LOG)
    known = _known(connection, slates.slate_ids)
    shows = list(zip(slates.slate_ids, slates.user_ids, slates.times, strict=True))
    gone = erased_slates(connection, salt, shows, set(slates.slate_ids) - known.keys())
    seqs, fresh = dict(known), list[int]()
    for n, slate_id in enumerate(slates.slate_ids):
        if slate_id not in seqs and slate_id not in gone:
            last += 1
            seqs[slate_id] = last
            fresh.append(n)
    insert_rows(connection, SLATES, [_slate(slates, n, seqs) for n in fresh])
    news = _unrecorded(connection, slates, seqs, known.values())
    rows = [_outcome(slates, n, seqs, last + m) for m, n in enumerate(news, start=1)]
    insert_rows(connection, OUTCOMES, rows)
    advance(connection, Counter.LOG, last + len(rows))
    erased = sum(slate_id in gone for slate_id in slates.slate_ids) if gone else 0
    return LoadCounts(len(fresh), len(slates) - len(fresh) - erased, erased)


def _known(connection: Connection, slate_ids: Sequence[str]) -> dict[str, int]:
    """Return the numbers of the slates that are there."""
    return {row.slate_id: row.seq for row in _KNOWN.rows(connection, slate_ids)}


def _unrecorded(
    connection: Connection, slates: LoggedSlates, seqs: dict[str, int], known: Iterable[int]
) -> list[int]:
    """Return which outcomes are not there: a slate may have been loaded with fewer clicks."""
    recorded = {(row.slate, row.key) for row in _RECORDED.rows(connection, known)}
    news = []
    for n, (slate_id, key) in enumerate(zip(slates.slate_ids, slates.keys, strict=True)):
        seq = seqs.get(slate_id)  # None for an erased one
        if seq is not None and (seq, key) not in recorded:
            recorded.add((seq, key))
            news.append(n)
    return news


def _slate(slates: LoggedSlates, n: int, seqs: dict[str, int]) -> tuple[Any, ...]:
    slate_id = slates.slate_ids[n]
    about = slates.user_ids[n], slates.times[n], slates.sources[n], slates.items[n]
    return seqs[slate_id], slate_id, *about, None


def _outcome(slates: LoggedSlates, n: int, seqs: dict[str, int], seq: int) -> tuple[Any, ...]:
    time = slates.times[n]
    what = slates.keys[n], None, slates.clicked[n], time
    return seq, seqs[slates.slate_ids[n]], *what, slates.user_ids[n], time
