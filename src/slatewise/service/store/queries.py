"""Queries of slates and outcomes. Nothing here waits for a writer."""

import json
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, bindparam, func, select

from slatewise.service.store.batches import Lookup
from slatewise.service.store.counters import Counter, last_number
from slatewise.service.store.records import Answer, ServedAnswer, SlateRecord, StoredVisits
from slatewise.service.store.rows import (
    OUTCOME_COLUMNS,
    SLATE_COLUMNS,
    answer_of,
    served_answer_of,
    slate_of,
    visits_of,
)
from slatewise.service.store.schema import OUTCOMES, SLATES, AnyRow, AnySelect

FOREVER = 2**63 - 1
"""A number that no record has reached."""

OLDEST_FIRST = (SLATES.c.time, SLATES.c.seq, OUTCOMES.c.time, OUTCOMES.c.seq)


def slate(connection: Connection, slate_id: str) -> SlateRecord | None:
    """Return a slate by its id."""
    row = connection.execute(select(*SLATE_COLUMNS).where(SLATES.c.slate_id == slate_id)).first()
    return None if row is None else slate_of(row)


def _history() -> AnySelect:
    """Return the query of `history`, built once: that takes as long as running it."""
    known = OUTCOMES.c.seq <= bindparam("until")
    newest = (
        select(OUTCOMES.c.shown, OUTCOMES.c.slate)
        .where(OUTCOMES.c.user_id == bindparam("user"), known)
        .group_by(OUTCOMES.c.shown, OUTCOMES.c.slate)
        .order_by(OUTCOMES.c.shown.desc(), OUTCOMES.c.slate.desc())
        .limit(bindparam("last"))
        .subquery()
    )
    return (
        select(*SLATE_COLUMNS, *OUTCOME_COLUMNS)
        .select_from(newest)
        .join(SLATES, SLATES.c.seq == newest.c.slate)
        .join(OUTCOMES, OUTCOMES.c.slate == newest.c.slate)
        .where(known)
        .order_by(*OLDEST_FIRST)
    )


HISTORY = _history()


def history(connection: Connection, user_id: str, last: int, until: int | None) -> StoredVisits:
    """Return a user's newest visits, as far as the store knew of them at number `until`."""
    known = FOREVER if until is None else until
    rows = connection.execute(HISTORY, {"user": user_id, "last": last, "until": known}).all()
    visits = tuple(visit for _, visit in visits_of(rows) if visit is not None)
    return StoredVisits(visits, max((row.outcome for row in rows), default=0))


def unanswered(connection: Connection, user_id: str, last: int) -> list[SlateRecord]:
    """Return a user's newest slates without an outcome, oldest first."""
    heard = select(OUTCOMES.c.seq).where(OUTCOMES.c.slate == SLATES.c.seq).exists()
    query = select(*SLATE_COLUMNS).where(SLATES.c.user_id == user_id, ~heard)
    query = query.order_by(SLATES.c.time.desc(), SLATES.c.seq.desc()).limit(last)
    return [slate_of(row) for row in reversed(connection.execute(query).all())]


def answers_since(connection: Connection, seq: int, limit: int, until: int | None) -> list[Answer]:
    """Return the next outcomes after a number, each by itself, in the order of their numbers."""
    last = FOREVER if until is None else until
    columns = SLATES.c.slate_id, SLATES.c.time, SLATES.c.item_ids
    rows = connection.execute(
        select(*columns, *OUTCOME_COLUMNS)
        .join(SLATES, SLATES.c.seq == OUTCOMES.c.slate)
        .where(OUTCOMES.c.seq.between(seq + 1, last))
        .order_by(OUTCOMES.c.seq)
        .limit(limit)
    )
    return [answer_of(row) for row in rows]


def answers_to(
    connection: Connection, model: str, version: str, seq: int, limit: int, until: int
) -> list[ServedAnswer]:
    """Return the next outcomes after a number of slates that a version made, to learn from.

    In the order of their numbers, fewer than `limit` only if there are no more.
    """
    found: list[ServedAnswer] = []
    named = f'"model":{json.dumps(model)},"version":{json.dumps(version)}'
    ours = SLATES.c.serving.contains(named, autoescape=True)
    columns = SLATES.c.item_ids, SLATES.c.serving, OUTCOMES.c.slate
    while len(found) < limit:
        rows = connection.execute(
            select(*columns, *OUTCOME_COLUMNS)
            .join(SLATES, SLATES.c.seq == OUTCOMES.c.slate)
            .where(OUTCOMES.c.seq.between(seq + 1, until), SLATES.c.serving.is_not(None), ours)
            .order_by(OUTCOMES.c.seq)
            .limit(limit - len(found))
        ).all()
        if not rows:
            break
        seq = rows[-1].outcome
        outcomes = _outcomes_of(connection, [row.slate for row in rows], seq)
        for row in rows:
            earlier = [one for one in outcomes[row.slate] if one.outcome < row.outcome]
            answer = served_answer_of(row, earlier)
            if answer is not None:
                found.append(answer)
    return found


def number_before(connection: Connection, time: int) -> int:
    """Return a number below those of all answers to slates that this service made since a time."""
    last = last_number(connection, Counter.LOG)
    # Workers write what they made within seconds: not quite in the order of time.
    first = (
        select(SLATES.c.seq)
        .where(SLATES.c.serving.is_not(None), SLATES.c.time >= time)
        .order_by(SLATES.c.time, SLATES.c.seq)
        .limit(1_000)
        .subquery()
    )
    found = connection.scalar(select(func.min(first.c.seq)))
    return last if found is None else int(found)


def _outcomes_of(
    connection: Connection, slates: Sequence[int], until: int
) -> Mapping[int, list[AnyRow]]:
    """Return the outcomes of slates up to a number, by slate."""
    found: dict[int, list[AnyRow]] = {slate: [] for slate in slates}
    query = select(OUTCOMES.c.slate, *OUTCOME_COLUMNS).where(OUTCOMES.c.seq <= until)
    lookup = Lookup(query.order_by(OUTCOMES.c.seq), OUTCOMES.c.slate)
    for row in lookup.rows(connection, found):
        found[row.slate].append(row)
    return found


def last_shown(connection: Connection) -> int:
    """Return the time of the newest slate, whoever made it; 0 for none."""
    return int(connection.scalar(select(func.max(SLATES.c.time))) or 0)


def last_served(connection: Connection) -> int:
    """Return the time of the newest slate that this service made; 0 for none."""
    newest = select(func.max(SLATES.c.time)).where(SLATES.c.serving.is_not(None))
    return int(connection.scalar(newest) or 0)
