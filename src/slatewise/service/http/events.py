"""Events as clients send them, turned into records or refused."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from slatewise.errors import SlatewiseError
from slatewise.service.http.problems import Problem
from slatewise.service.http.schemas import Event
from slatewise.service.store.clock import AHEAD, EARLIEST
from slatewise.service.store.records import Outcome, OutcomeStatus, SlateRecord

MOST_SHOWN: Final = 1_000
"""items of a slate, and clicks of an event: whatever reads a history reads all of them"""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_REFUSALS: Final = {
    OutcomeStatus.UNKNOWN_SLATE: (
        "The slate is not known.",
        "Send the slate_id that /v1/recommend gave; with a slate of yours, send its items.",
    ),
    OutcomeStatus.NOT_SHOWN: (
        "The slate has no such item, or fewer items than that.",
        "Send items of the slate as clicked, and at most its length as seen.",
    ),
    OutcomeStatus.CONTRADICTION: (
        "There is a slate with this id, of another user or with other items.",
        "Give every slate an id of its own, and send the user_id that it was made for, or none.",
    ),
    OutcomeStatus.TOO_MANY: (
        "The slate has had more events than it has items to see and to click.",
        "Send one event for a slate, or one when more is seen or clicked.",
    ),
    OutcomeStatus.ERASED: (
        "The data of this user were erased after that time.",
        "Do not send it again: it is not kept.",
    ),
}


@dataclass
class ParsedEvents:
    """The records that events make, and the events that were refused."""

    slates: list[SlateRecord] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    refused: dict[int, SlatewiseError] = field(default_factory=dict)
    """by the index of the event"""


def parse_events(events: Sequence[Event], now: int) -> ParsedEvents:
    """Turn events that arrived at `now` into records; a bad one does not affect the others."""
    result = ParsedEvents()
    for index, event in enumerate(events):
        try:
            when = moment(event.time, now)
            slate = None if event.items is None else _slate(event, event.items, when)
            clicked = _clicked(event)
        except SlatewiseError as error:
            result.refused[index] = error
            continue
        if slate is not None:
            result.slates.append(slate)
        items = None if slate is None else slate.items
        outcome = Outcome(event.slate_id, event.seen, clicked, when, event.user_id, items)
        result.outcomes.append(outcome)
    return result


def moment(given: int | str | None, now: int) -> int:
    """Return a time in microseconds since 1970; without one, now."""
    if given is None:
        return now
    when = given if isinstance(given, int) else _iso(given)
    if when > now + AHEAD:
        raise SlatewiseError("The time is in the future.", "Check the clock and the time zone.")
    if when < EARLIEST:
        raise SlatewiseError(
            "The time is before the year 2000.",
            "Send ISO 8601 with an offset, or microseconds since 1970.",
        )
    return when


def refuse_contradictions(written: Sequence[OutcomeStatus], events: int) -> None:
    """Refuse a request if all that it tells contradicts what is known of its slates."""
    if events and list(written) == [OutcomeStatus.CONTRADICTION] * events:
        raise Problem(409, *_REFUSALS[OutcomeStatus.CONTRADICTION])


def answers(
    events: Sequence[Event], parsed: ParsedEvents, written: Sequence[OutcomeStatus]
) -> dict[str, Any]:
    """Return what became of each event, as `FeedbackAnswer` describes it.

    Not through the model: checking what we made ourselves would cost as much as parsing it.
    """
    states, found = iter(written), []
    for index, event in enumerate(events):
        error = parsed.refused.get(index)
        what = _STATUS[next(states)] if error is None else _refusal(error.problem, error.remedy)
        found.append({"slate_id": event.slate_id, **what})
    counts = Counter(one["status"] for one in found)
    return {"events": found} | {kind: counts[kind] for kind in KINDS}


def _refusal(problem: str, remedy: str) -> dict[str, str | None]:
    return {"status": "refused", "problem": problem, "remedy": remedy}


KINDS: Final = ("recorded", "duplicate", "refused")
_NO_PROBLEM: Final = {"problem": None, "remedy": None}
_STATUS: Final[dict[OutcomeStatus, dict[str, str | None]]] = {
    OutcomeStatus.RECORDED: {"status": "recorded", **_NO_PROBLEM},
    OutcomeStatus.DUPLICATE: {"status": "duplicate", **_NO_PROBLEM},
    OutcomeStatus.CORRECTED: {
        "status": "recorded",
        "problem": "The time is before the slate was shown: it counts as of that moment.",
        "remedy": "Check the clock and the time zone.",
    },
    **{state: _refusal(*words) for state, words in _REFUSALS.items()},
}


def _slate(event: Event, items: list[str], when: int) -> SlateRecord:
    if event.source is None:
        raise SlatewiseError(
            "A slate of yours needs a source.", 'Say where it was shown, for instance "search".'
        )
    if len(items) > MOST_SHOWN:
        raise SlatewiseError(
            f"The slate has {len(items):,} items.", f"Send those on the page, at most {MOST_SHOWN}."
        )
    if len(set(items)) < len(items):
        raise SlatewiseError("The slate has an item twice.", "Send every item once.")
    return SlateRecord(event.slate_id, event.user_id, when, event.source, tuple(items))


def _clicked(event: Event) -> tuple[str, ...]:
    if event.clicked is None:
        return ()
    if isinstance(event.clicked, str):
        return (event.clicked,)
    if len(event.clicked) > MOST_SHOWN:
        raise SlatewiseError(
            f"The event has {len(event.clicked):,} clicks.", f"Send at most {MOST_SHOWN}."
        )
    return tuple(event.clicked)


def _iso(text: str) -> int:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise SlatewiseError(
            "The time is no ISO 8601 time.", "Write it as 2026-05-17T12:30:00Z."
        ) from None
    if when.tzinfo is None:
        raise SlatewiseError("The time has no offset.", "Add Z for UTC, or an offset as +02:00.")
    since = when - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
