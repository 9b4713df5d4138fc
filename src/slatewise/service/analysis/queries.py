"""What an analysis reads from the store: columns, page by page."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic_core import from_json
from sqlalchemy import (
    Column,
    ColumnElement,
    CompoundSelect,
    Connection,
    Text,
    and_,
    cast,
    func,
    select,
    union_all,
)

from slatewise.service.store.batches import Lookup
from slatewise.service.store.records import ItemState
from slatewise.service.store.schema import (
    ITEMS,
    OUTCOMES,
    PAST_SLATES,
    SLATES,
    AnySelect,
)

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class SlateColumns(NamedTuple):
    """N slates of our own, in no order."""

    seq: Ints
    """[N]"""
    users: list[str]
    """[N]; for an anonymous user, the slate's id"""
    arms: list[str]
    """[N]"""
    time: Ints
    """[N]"""


class OutcomeColumns(NamedTuple):
    """N outcomes, in no order."""

    seq: Ints
    """[N]"""
    slate: Ints
    """[N] the numbers of the slates"""
    clicked: Bools
    """[N] whether they tell of a click"""


def served(connection: Connection, after: int, until: int, start: int, limit: int) -> SlateColumns:
    """Return the next slates of our own after number `after`, of those made since `start`.

    Also of those that have left the store.
    """
    user = func.coalesce(SLATES.c.user_id, SLATES.c.slate_id).label("user")
    wanted = and_(_between(SLATES.c.seq, after, until), SLATES.c.serving.is_not(None))
    query = select(SLATES.c.seq, user, _arm(connection).label("arm"), SLATES.c.time)
    gone = PAST_SLATES.c
    past = select(gone.seq, gone.user_id, gone.arm, gone.time).where(
        _between(PAST_SLATES.c.seq, after, until), PAST_SLATES.c.time >= start
    )
    both = union_all(query.where(wanted, SLATES.c.time >= start), past)
    seq, users, arms, time = _columns(connection, both.order_by("seq").limit(limit))
    return SlateColumns(np.array(seq, np.int64), users, arms, np.array(time, np.int64))


def answers(connection: Connection, after: int, until: int, limit: int) -> OutcomeColumns:
    """Return the next outcomes after number `after`."""
    clicked = (OUTCOMES.c.clicked != "[]").label("clicked")
    query = select(OUTCOMES.c.seq, OUTCOMES.c.slate, clicked)
    query = query.where(_between(OUTCOMES.c.seq, after, until))
    return _outcomes(connection, query.order_by(OUTCOMES.c.seq).limit(limit))


def past_answers(connection: Connection, after: int, until: int, limit: int) -> OutcomeColumns:
    """Return the next slates that have left the store and were answered, as outcomes."""
    clicked = (PAST_SLATES.c.clicked == 1).label("clicked")
    query = select(PAST_SLATES.c.seq, PAST_SLATES.c.seq.label("slate"), clicked)
    query = query.where(_between(PAST_SLATES.c.seq, after, until), PAST_SLATES.c.answered == 1)
    return _outcomes(connection, query.order_by(PAST_SLATES.c.seq).limit(limit))


def _between(column: Column[Any], after: int, until: int) -> ColumnElement[bool]:
    return and_(column > after, column <= until)


def _outcomes(connection: Connection, query: AnySelect) -> OutcomeColumns:
    seq, slate, clicks = _columns(connection, query)
    return OutcomeColumns(
        np.array(seq, np.int64), np.array(slate, np.int64), np.array(clicks, np.bool_)
    )


def _columns(connection: Connection, query: AnySelect | CompoundSelect[Any]) -> list[list[Any]]:
    """Return the columns of a query, each as one text of JSON from the database.

    A row that becomes an object of Python costs 5 µs, and a million of them were most of an
    overview.
    """
    rows = query.subquery()
    gather = func.json_agg if connection.dialect.name == "postgresql" else func.json_group_array
    texts = connection.execute(select(*(cast(gather(column), Text) for column in rows.c))).one()
    return [from_json(text or "[]") for text in texts]


def newest(
    connection: Connection, start: int, end: int, limit: int
) -> list[tuple[str, tuple[str, ...]]]:
    """Return arm and items of the newest slates of a time, newest first."""
    query = select(_arm(connection).label("arm"), SLATES.c.item_ids)
    query = query.where(SLATES.c.serving.is_not(None), SLATES.c.time >= start, SLATES.c.time < end)
    rows = connection.execute(query.order_by(SLATES.c.time.desc()).limit(limit))
    return [(row.arm, tuple(from_json(row.item_ids))) for row in rows]


def look_up(connection: Connection, items: Sequence[str]) -> dict[str, tuple[str, bool]]:
    """Return the groups of items, and whether they may be shown; unknown ones are left out."""
    query = select(ITEMS.c.item_id, ITEMS.c.item_group, ITEMS.c.state)
    rows = Lookup(query, ITEMS.c.item_id).rows(connection, items)
    return {row.item_id: (row.item_group, row.state == ItemState.SHOWN) for row in rows}


def offered(connection: Connection) -> int:
    """Count the items that may be shown."""
    query = select(func.count()).select_from(ITEMS).where(ITEMS.c.state == ItemState.SHOWN)
    return int(connection.scalars(query).one())


def _arm(connection: Connection) -> ColumnElement[str]:
    """Return the arm, the first thing in the JSON of how a slate was made.

    As text: PostgreSQL would refuse all of the JSON for a NUL in a request.
    """
    if connection.dialect.name == "postgresql":
        return func.split_part(SLATES.c.serving, '"', 4)
    after = func.substr(SLATES.c.serving, len('{"arm":"') + 1, 80)
    return func.substr(after, 1, func.instr(after, '"') - 1)
