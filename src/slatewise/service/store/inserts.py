"""Writing slates and outcomes: all or nothing, and never twice."""

from collections import Counter as Counts
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from pydantic_core import from_json
from sqlalchemy import Connection, select

from slatewise.service.store.batches import Lookup, insert_rows
from slatewise.service.store.clock import AHEAD
from slatewise.service.store.counters import Counter, advance, take_turn
from slatewise.service.store.erasure import erased_slates
from slatewise.service.store.records import Outcome, OutcomeStatus, SlateRecord
from slatewise.service.store.rows import StoredSlate, outcome_row, slate_row
from slatewise.service.store.schema import OUTCOMES, SLATES

SPARE: Final = 100
"""events of a slate beyond one for each item seen and one for each clicked"""
_SHOWN = Lookup(
    select(
        SLATES.c.slate_id,
        SLATES.c.seq,
        SLATES.c.user_id,
        SLATES.c.time,
        SLATES.c.item_ids,
        OUTCOMES.c.key,
    ).join(OUTCOMES, OUTCOMES.c.slate == SLATES.c.seq, isouter=True),
    SLATES.c.slate_id,
)


def write(
    connection: Connection,
    slates: Sequence[SlateRecord],
    outcomes: Sequence[Outcome],
    salt: str,
) -> list[OutcomeStatus]:
    """Write new slates, then new outcomes; return the status of each outcome."""
    last = take_turn(connection, Counter.LOG)
    named = {slate.slate_id for slate in slates} | {outcome.slate_id for outcome in outcomes}
    shown, recorded = _shown(connection, named)
    fresh = {slate.slate_id: slate for slate in reversed(slates) if slate.slate_id not in shown}
    shows = [(slate.slate_id, slate.user_id, slate.time) for slate in fresh.values()]
    gone = erased_slates(connection, salt, shows, named - shown.keys())
    rows = []
    for slate in reversed(fresh.values()):
        if slate.slate_id not in gone:
            last += 1
            rows.append(slate_row(slate, last))
            shown[slate.slate_id] = StoredSlate(last, slate.user_id, slate.time, slate.items)
    insert_rows(connection, SLATES, rows)
    last, written = _write_outcomes(connection, outcomes, shown, recorded, gone, last)
    advance(connection, Counter.LOG, last)
    return written


def _write_outcomes(
    connection: Connection,
    outcomes: Sequence[Outcome],
    shown: dict[str, StoredSlate],
    recorded: set[tuple[int, str]],
    gone: Collection[str],
    last: int,
) -> tuple[int, list[OutcomeStatus]]:
    """Write the outcomes of slates that were shown; return the last number given, too."""
    rows, written = [], []
    heard = Counts(seq for seq, _ in recorded)
    for outcome in outcomes:
        slate = shown.get(outcome.slate_id)
        if slate is None:
            lost = outcome.slate_id in gone
            written.append(OutcomeStatus.ERASED if lost else OutcomeStatus.UNKNOWN_SLATE)
        elif not _agrees(outcome, slate):
            written.append(OutcomeStatus.CONTRADICTION)
        elif not _possible(outcome, slate.items):
            written.append(OutcomeStatus.NOT_SHOWN)
        elif (slate.seq, key := outcome.key) in recorded:
            written.append(OutcomeStatus.DUPLICATE)
        elif heard[slate.seq] >= most_events(len(slate.items)):
            written.append(OutcomeStatus.TOO_MANY)
        else:
            last += 1
            heard[slate.seq] += 1
            recorded.add((slate.seq, key))
            early = outcome.time < slate.time - AHEAD
            time = slate.time if early else outcome.time
            rows.append(outcome_row(outcome, key, time, slate, last))
            written.append(OutcomeStatus.CORRECTED if early else OutcomeStatus.RECORDED)
    insert_rows(connection, OUTCOMES, rows)
    return last, written


def most_events(items: int) -> int:
    """Return how many events are kept of a slate: all are read for the next one, and in histories.

    With 20,000, an event took 45 ms, and a history of that one slate 430.
    """
    return 2 * items + SPARE


def _agrees(outcome: Outcome, slate: StoredSlate) -> bool:
    """Return whether an outcome agrees with its slate: ids may be used twice by mistake."""
    return outcome.user_id in (None, slate.user_id) and outcome.items in (None, slate.items)


def _possible(outcome: Outcome, items: tuple[str, ...]) -> bool:
    # A set of all items pays off where much was clicked.
    among = items if len(outcome.clicked) < 3 else set(items)
    return all(item in among for item in outcome.clicked) and (outcome.seen or 0) <= len(items)


def _shown(
    connection: Connection, slate_ids: Iterable[str]
) -> tuple[dict[str, StoredSlate], set[tuple[int, str]]]:
    """Return the slates that are there, and which outcomes of them: others wait for their turn."""
    shown: dict[str, StoredSlate] = {}
    recorded = set()
    for slate_id, seq, user_id, time, item_ids, key in _SHOWN.rows(connection, slate_ids):
        if slate_id not in shown:
            shown[slate_id] = StoredSlate(seq, user_id, time, tuple(from_json(item_ids)))
        if key is not None:
            recorded.add((seq, key))
    return shown, recorded
