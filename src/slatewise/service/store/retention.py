"""Slates that leave the store: in slices, and with what experiments count of them kept.

A slice is a short transaction, so that feedback never waits for long. What experiments count of a
slate (who, which arm, when, answered, clicked) moves to a thin table in the same transaction.
"""

import json
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, select, tuple_

from slatewise.service.store.batches import Lookup
from slatewise.service.store.counters import Counter, take_turn
from slatewise.service.store.schema import OUTCOMES, PAST_SLATES, SLATES

SLICE: Final = 500
"""Slates of a transaction: some 20 ms."""

_CLICKED = Lookup(select(OUTCOMES.c.slate, OUTCOMES.c.clicked), OUTCOMES.c.slate)

Position = tuple[int, int]
"""time and number of the last slate that was looked at"""


class Expiry(NamedTuple):
    """Which slates leave."""

    end: int
    """the time before which they were shown"""
    until: int
    """Nothing of which the store learned after this number leaves: neither a slate, nor one with
    an outcome that came later."""
    counted_since: int
    """the time from which on experiments count"""

    @property
    def aged(self) -> ColumnElement[bool]:
        """The slates that leave."""
        later = select(OUTCOMES.c.seq).where(
            OUTCOMES.c.slate == SLATES.c.seq, OUTCOMES.c.seq > self.until
        )
        return and_(SLATES.c.time < self.end, SLATES.c.seq <= self.until, ~later.exists())


def first_aged(connection: Connection, expiry: Expiry, start: int) -> int | None:
    """Return the time of the oldest slate since `start` that leaves, or None if none does."""
    found = select(SLATES.c.time).where(SLATES.c.time >= start, expiry.aged)
    return connection.scalar(found.order_by(SLATES.c.time, SLATES.c.seq).limit(1))


def expire_slice(
    connection: Connection, expiry: Expiry, after: Position
) -> tuple[int, Position | None]:
    """Delete the next slates that leave; return how many, and the last one (None at the end)."""
    take_turn(connection, Counter.LOG)  # else a writer could add an outcome to what is deleted
    behind = tuple_(SLATES.c.time, SLATES.c.seq) > tuple_(*after)
    found = select(SLATES.c.time, SLATES.c.seq).where(behind, expiry.aged)
    rows = connection.execute(found.order_by(SLATES.c.time, SLATES.c.seq).limit(SLICE)).all()
    if not rows:
        return 0, None
    seqs = [row.seq for row in rows]
    if thin := _thin_rows(connection, seqs, expiry.counted_since):
        connection.execute(insert(PAST_SLATES), thin)
    connection.execute(delete(OUTCOMES).where(OUTCOMES.c.slate.in_(seqs)))
    connection.execute(delete(SLATES).where(SLATES.c.seq.in_(seqs)))
    return len(rows), (rows[-1].time, rows[-1].seq)


def forget_slice(connection: Connection, before: int) -> int:
    """Delete the next thin rows that experiments do not count any more; return how many."""
    # Numbers go with times, as these are slates of our own: the first rows are the oldest.
    first = select(PAST_SLATES.c.seq, PAST_SLATES.c.time).order_by(PAST_SLATES.c.seq).limit(SLICE)
    old = [row.seq for row in connection.execute(first) if row.time < before]
    connection.execute(delete(PAST_SLATES).where(PAST_SLATES.c.seq.in_(old)))
    return len(old)


def _thin_rows(connection: Connection, seqs: list[int], since: int) -> list[dict[str, Any]]:
    """Return what experiments count of the slates among these that are ours."""
    clicked: dict[int, bool] = {}
    for row in _CLICKED.rows(connection, seqs):
        clicked[row.slate] = clicked.get(row.slate, False) or row.clicked != "[]"
    ours = select(SLATES).where(SLATES.c.serving.is_not(None), SLATES.c.time >= since)
    return [
        {
            "seq": row.seq,
            "user_id": row.slate_id if row.user_id is None else row.user_id,
            "arm": json.loads(row.serving)["arm"],
            "time": row.time,
            "answered": int(row.seq in clicked),
            "clicked": int(clicked.get(row.seq, False)),
        }
        for row in Lookup(ours, SLATES.c.seq).rows(connection, seqs)
    ]
