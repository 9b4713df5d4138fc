"""Events as clients send them, and what is made of them."""

from typing import Any

import pytest

from slatewise.errors import SlatewiseError
from slatewise.service.http.events import MOST_SHOWN, answers, moment, parse_events
from slatewise.service.http.schemas import Event, FeedbackAnswer
from slatewise.service.store.clock import AHEAD
from slatewise.service.store.records import Outcome, OutcomeStatus, SlateRecord

NOW = 1_779_021_000_000_000  # 2026-05-17T12:30:00Z


def event(**values: Any) -> Event:
    return Event.model_validate({"slate_id": "s", **values})


@pytest.mark.parametrize(
    "given",
    [
        NOW,
        "2026-05-17T12:30:00Z",
        "2026-05-17T14:30:00+02:00",
        "2026-05-17 12:30:00.000000+00:00",
        "20260517T123000Z",
    ],
)
def test_a_time_is_iso_or_microseconds(given: int | str) -> None:
    assert moment(given, NOW) == NOW


def test_no_time_is_now() -> None:
    assert moment(None, NOW) == NOW


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (NOW + AHEAD + 1, "future"),
        ("9999-12-31T23:59:59Z", "future"),
        (NOW // 1_000_000, "before the year 2000"),
        (NOW // 1_000, "before the year 2000"),
        ("2026-05-17T12:30:00", "no offset"),
        ("2026-05-17", "no offset"),
        ("yesterday", "ISO 8601"),
        ("1779021000", "ISO 8601"),
        ("0001-01-01T00:00:00+23:59", "before the year 2000"),
    ],
)
def test_other_times_are_refused_in_words(given: int | str, problem: str) -> None:
    with pytest.raises(SlatewiseError, match=problem) as refusal:
        moment(given, NOW)
    assert refusal.value.remedy


def test_a_clock_a_little_ahead_is_borne() -> None:
    assert moment(NOW + AHEAD, NOW) == NOW + AHEAD


def test_events_become_outcomes_and_slates_of_others() -> None:
    found = parse_events(
        [
            event(seen=3, clicked=7),
            event(slate_id="t", clicked=["a", "b"], time=NOW - 5),
            event(slate_id="u", user_id=5, source="search", items=[1, "x"], clicked=None),
        ],
        NOW,
    )
    assert not found.refused
    assert found.slates == [SlateRecord("u", "5", NOW, "search", ("1", "x"))]
    assert found.outcomes == [
        Outcome("s", 3, ("7",), NOW),
        Outcome("t", None, ("a", "b"), NOW - 5),
        Outcome("u", None, (), NOW, "5", ("1", "x")),
    ]


def test_slates_and_clicks_without_end_are_refused() -> None:
    many = [f"i{number}" for number in range(MOST_SHOWN + 1)]
    slates = [many[:-1], many]
    events = [event(slate_id=f"s{len(one)}", items=one, source="search") for one in slates]
    events += [event(slate_id="t", clicked=many)]
    found = parse_events(events, NOW)
    assert [len(slate.items) for slate in found.slates] == [MOST_SHOWN]
    assert len(found.outcomes) == 1
    assert found.refused[1].problem == "The slate has 1,001 items."
    assert found.refused[2].problem == "The event has 1,001 clicks."


def test_what_is_wrong_with_one_event_is_no_harm_to_others() -> None:
    events = [
        event(slate_id="late", time=NOW * 2),
        event(slate_id="fine"),
        event(slate_id="sourceless", items=["a"]),
        event(slate_id="twice", items=["a", "a"], source="search"),
        event(slate_id="unknown"),
        event(slate_id="again"),
    ]
    found = parse_events(events, NOW)
    written = [OutcomeStatus.RECORDED, OutcomeStatus.UNKNOWN_SLATE, OutcomeStatus.DUPLICATE]
    told = FeedbackAnswer.model_validate(answers(events, found, written))
    assert [one.status for one in told.events] == [
        "refused",
        "recorded",
        "refused",
        "refused",
        "refused",
        "duplicate",
    ]
    assert (told.recorded, told.duplicate, told.refused) == (1, 1, 4)
    for one in told.events:
        assert (one.status == "refused") == bool(one.problem) == bool(one.remedy)


@pytest.mark.parametrize("state", list(OutcomeStatus))
def test_every_result_of_the_store_has_words(state: OutcomeStatus) -> None:
    found = answers([event()], parse_events([event()], NOW), [state])
    told = FeedbackAnswer.model_validate(found).events[0]
    accepted = (OutcomeStatus.RECORDED, OutcomeStatus.CORRECTED, OutcomeStatus.DUPLICATE)
    assert (told.status == "refused") != (state in accepted)
