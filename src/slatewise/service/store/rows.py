"""Records as rows, and back."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from pydantic_core import from_json

from slatewise.service.store.records import (
    Answer,
    Outcome,
    ServedAnswer,
    Serving,
    SlateRecord,
    Visit,
    json_texts,
    positions,
)
from slatewise.service.store.schema import OUTCOMES, SLATES, AnyRow


class StoredSlate(NamedTuple):
    """What has to be known of a slate to take an outcome of it."""

    seq: int
    user_id: str | None
    time: int
    items: tuple[str, ...]


_dump = json.JSONEncoder(separators=(",", ":")).encode  # json.dumps would make one for each value
SLATE_COLUMNS = tuple(SLATES.c)
OUTCOME_COLUMNS = (
    OUTCOMES.c.seq.label("outcome"),
    OUTCOMES.c.seen,
    OUTCOMES.c.clicked,
)


def slate_row(slate: SlateRecord, seq: int) -> tuple[Any, ...]:
    """Return the row of a slate, in the order of SLATES."""
    who_and_where = slate.slate_id, slate.user_id, slate.time, slate.source
    return seq, *who_and_where, json_texts(slate.items), serving_text(slate)


def serving_text(slate: SlateRecord) -> str | None:
    """Return how a slate came about, as JSON; None for one that others made."""
    return None if slate.serving is None else _dump(_plain(slate.serving))


def outcome_row(
    outcome: Outcome, key: str, time: int, slate: StoredSlate, seq: int
) -> tuple[Any, ...]:
    """Return the row of an outcome of a slate that the store has, in the order of OUTCOMES."""
    what = key, outcome.seen, json_texts(outcome.clicked), time
    return seq, slate.seq, *what, slate.user_id, slate.time


def slate_of(row: AnyRow) -> SlateRecord:
    """Return the slate of a row with SLATE_COLUMNS."""
    _, slate_id, user_id, time, source, item_ids, serving = row[: len(SLATE_COLUMNS)]
    how = None if serving is None else _serving(json.loads(serving))
    return SlateRecord(slate_id, user_id, time, source, tuple(_parse(item_ids)), how)


def visits_of(rows: Iterable[AnyRow]) -> Iterator[tuple[SlateRecord, Visit | None]]:
    """Return slates with their outcomes; rows have the columns of both.

    Rows of a slate stand together, its outcomes in the order of their times; a slate without any
    has one row, whose outcome is null.
    """
    # By the slate's seq, the first column.
    for _, together in groupby(rows, key=itemgetter(0)):
        outcomes = list(together)
        slate = slate_of(outcomes[0])
        yield slate, None if outcomes[0].outcome is None else _visit(slate, outcomes)


def answer_of(row: AnyRow) -> Answer:
    """Return an outcome and what it is about."""
    items = tuple(_parse(row.item_ids))
    seen = len(items) if row.seen is None else row.seen
    clicked = tuple(_parse(row.clicked))
    return Answer(row.outcome, row.slate_id, row.time, items, seen, clicked)


def served_answer_of(row: AnyRow, earlier: Sequence[AnyRow]) -> ServedAnswer | None:
    """Return an outcome of a slate to learn from, after earlier ones; None if none can."""
    serving = _parse(row.serving)
    if "shown" not in serving:
        return None
    items = _parse(row.item_ids)
    seen = max((len(items) if one.seen is None else one.seen for one in earlier), default=0)
    before = dict.fromkeys(
        positions(items, [item for one in earlier for item in _parse(one.clicked)])
    )
    return ServedAnswer(
        row.outcome,
        serving["catalogue"],
        serving["shown"],
        len(items) if row.seen is None else row.seen,
        tuple(positions(items, _parse(row.clicked))),
        bool(seen or before),
        tuple(before),
    )


def _visit(slate: SlateRecord, outcomes: list[AnyRow]) -> Visit:
    clicked = tuple(dict.fromkeys(item for row in outcomes for item in _parse(row.clicked)))
    seen = max(len(slate.items) if row.seen is None else row.seen for row in outcomes)
    # Whatever was clicked was seen, and so was all above it.
    reached = 1 + max(positions(slate.items, clicked), default=-1)
    return Visit(slate, max(seen, reached), clicked)


def _plain(serving: Serving) -> dict[str, Any]:
    plain = vars(serving) | {"request": dict(serving.request)}
    # Where nothing learns between nights, records are as long as ever.
    return {
        name: value
        for name, value in plain.items()
        if value is not None or name not in ("learned", "shown")
    }


def _serving(plain: dict[str, Any]) -> Serving:
    propensities = plain.pop("propensities")
    return Serving(**plain, propensities=None if propensities is None else tuple(propensities))


def _parse(text: str) -> Any:
    # 20 ids in 1.2 µs (json.loads: 3.2 µs). To look for texts met before would cost more. Not for
    # requests: they may hold half a surrogate pair, which it refuses.
    return from_json(text, cache_strings="keys")
