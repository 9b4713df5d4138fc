"""Repair of times in the future, which a wrong clock wrote."""

from sqlalchemy import Case, Column, Connection, case, func, select, update

from slatewise.service.store.clock import AHEAD
from slatewise.service.store.schema import ERASED, OUTCOMES, SLATES


def repair_times(connection: Connection, now: int) -> int:
    """Move slates from the future, with their outcomes, to between the newest other slate and now.

    They keep their distances where there is room. Return how many slates were moved.
    """
    wrong = SLATES.c.time > now + AHEAD
    first = connection.scalar(select(func.min(SLATES.c.time)).where(wrong))
    newest = connection.scalar(select(func.max(SLATES.c.time)).where(~wrong))
    by = 0 if first is None else first - min(now, now if newest is None else newest + 1)
    moved = connection.execute(
        update(SLATES).where(wrong).values(time=_back(SLATES.c.time, by, now))
    )
    for column in (OUTCOMES.c.shown, OUTCOMES.c.time):
        late = column > now + AHEAD
        connection.execute(update(OUTCOMES).where(late).values({column: _back(column, by, now)}))
    # Otherwise what these people do would be refused until that time.
    connection.execute(update(ERASED).where(ERASED.c.time > now + AHEAD).values(time=now))
    return moved.rowcount


def _back(time: Column[int], by: int, now: int) -> Case[int]:
    """Return a time earlier, and at the latest now."""
    return case((time - by < now, time - by), else_=now)
