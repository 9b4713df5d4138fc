"""What the store heard of slates that others showed: how many, and how often they were clicked."""

from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from slatewise.service.store import Store
from slatewise.service.store.clock import DAY
from slatewise.service.store.schema import OUTCOMES, SLATES

NEWEST: Final = 200_000
"""Slates that are counted at most: half a second's work."""
MOST_DAYS: Final = 60


@dataclass(frozen=True)
class SourceDay:
    """A source on one day of UTC."""

    start: int
    """of the day, in microseconds since 1970"""
    source: str
    slates: int
    clicked: int
    """slates among these with a click"""


def loaded_log(store: Store) -> list[SourceDay]:
    """Count the newest slates that the service did not make, by day and source, oldest first."""
    return store.read(_count)


def _count(connection: sa.Connection) -> list[SourceDay]:
    newest = (
        sa.select(SLATES.c.seq, SLATES.c.time, SLATES.c.source)
        .where(SLATES.c.serving.is_(None))
        .order_by(SLATES.c.time.desc(), SLATES.c.seq.desc())
        .limit(NEWEST)
        .subquery()
    )
    clicked = (
        sa.select(OUTCOMES.c.seq)
        .where(OUTCOMES.c.slate == newest.c.seq, OUTCOMES.c.clicked != "[]")
        .exists()
    )
    day = (newest.c.time // DAY).label("day")
    clicks = sa.func.sum(sa.case((clicked, 1), else_=0))
    query = sa.select(day, newest.c.source, sa.func.count(), clicks).group_by(day, newest.c.source)
    rows = sorted(
        (int(day), str(source), *counts) for day, source, *counts in connection.execute(query)
    )
    days = sorted({day for day, *_ in rows})[-MOST_DAYS:]
    return [SourceDay(d * DAY, source, int(n), int(c)) for d, source, n, c in rows if d in days]
