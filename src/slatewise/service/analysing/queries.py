"""What an analysis reads from the store: narrow rows, page by page."""

import json
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, and_, func, select

from slatewise.service.records import ItemState
from slatewise.service.store.schema import ITEMS, OUTCOMES, SLATES, AnyRow, rows_with


def served(
    connection: Connection, after: int, until: int, start: int, limit: int
) -> Sequence[AnyRow]:
    """Return seq, user, arm and time of our own slates in the order of their numbers.

    Somebody without a name is nobody else: her slate's id stands for her.
    """
    user = func.coalesce(SLATES.c.user_id, SLATES.c.slate_id).label("user")
    wanted = and_(SLATES.c.seq > after, SLATES.c.seq <= until, SLATES.c.serving.is_not(None))
    query = select(SLATES.c.seq, user, _arm(connection).label("arm"), SLATES.c.time)
    query = query.where(wanted, SLATES.c.time >= start).order_by(SLATES.c.seq).limit(limit)
    return connection.execute(query).all()


def answers(connection: Connection, after: int, until: int, limit: int) -> Sequence[AnyRow]:
    """Return seq and slate of outcomes, and whether they tell of a click, in their order."""
    clicked = (OUTCOMES.c.clicked != "[]").label("clicked")
    query = select(OUTCOMES.c.seq, OUTCOMES.c.slate, clicked)
    query = query.where(OUTCOMES.c.seq > after, OUTCOMES.c.seq <= until)
    return connection.execute(query.order_by(OUTCOMES.c.seq).limit(limit)).all()


def newest(
    connection: Connection, start: int, end: int, limit: int
) -> list[tuple[str, tuple[str, ...]]]:
    """Return arm and items of the newest slates of a time, newest first."""
    query = select(_arm(connection).label("arm"), SLATES.c.item_ids)
    query = query.where(SLATES.c.serving.is_not(None), SLATES.c.time >= start, SLATES.c.time < end)
    rows = connection.execute(query.order_by(SLATES.c.time.desc()).limit(limit))
    return [(row.arm, tuple(json.loads(row.item_ids))) for row in rows]


def look_up(connection: Connection, items: Sequence[str]) -> dict[str, tuple[str, bool]]:
    """Return the groups of items, and whether they may be shown; unknown ones are left out."""
    query = select(ITEMS.c.item_id, ITEMS.c.item_group, ITEMS.c.state)
    rows = rows_with(connection, query, ITEMS.c.item_id, items)
    return {row.item_id: (row.item_group, row.state == ItemState.SHOWN) for row in rows}


def offered(connection: Connection) -> int:
    """Count the items that may be shown."""
    query = select(func.count()).select_from(ITEMS).where(ITEMS.c.state == ItemState.SHOWN)
    return int(connection.scalars(query).one())


def _arm(connection: Connection) -> ColumnElement[str]:
    """Return the arm, the first thing in the JSON of how a slate was made.

    As text: PostgreSQL would refuse all of the JSON for a NUL in somebody's request.
    """
    if connection.dialect.name == "postgresql":
        return func.split_part(SLATES.c.serving, '"', 4)
    after = func.substr(SLATES.c.serving, len('{"arm":"') + 1, 80)
    return func.substr(after, 1, func.instr(after, '"') - 1)
