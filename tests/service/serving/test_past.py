"""A model is told of a user's past what `Recommender` would be told, in fewer bytes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slatewise.features.history import HistoryState
from slatewise.service.serving.items import ItemLog
from slatewise.service.serving.past import NO_PAST, Listener, Past, Told, tell
from slatewise.service.store.records import SlateRecord, UserHistory, Visit
from slatewise.strategies.history import Seen, Unclicked, read_history
from tests.service.serving.test_offers import TRAINED, offers_of

SOURCES = {"search": 0, "recommendation": 1}
EVERYTHING = Listener(SOURCES, frozenset({0, 1}), True)

visits = st.lists(
    st.tuples(
        st.permutations([*TRAINED, "strange", "odd"]),
        st.integers(1, 5),
        st.integers(0, 2),
        st.sampled_from(list(SOURCES)),
    ),
    max_size=6,
)
Given = list[tuple[list[str], int, int, str]]


def a_past(given_visits: Given, log: ItemLog) -> Past:
    made = []
    for number, (items, seen, clicks, source) in enumerate(given_visits):
        slate = SlateRecord(f"s{number}", "u", number, source, tuple(items))
        made.append(Visit(slate, seen, tuple(items[:seen][:clicks][::-1])))
    return Past.of(UserHistory(tuple(made), 9), log)


@given(given_visits=visits, now=st.lists(st.sampled_from([*TRAINED, "new"]), max_size=2))
def test_what_is_told_is_what_the_events_say(given_visits: Given, now: list[str]) -> None:
    log = ItemLog()
    offers = offers_of(log)
    told = tell(a_past(given_visits, log), now, offers, EVERYTHING)
    events: list[str | Seen | Unclicked] = []
    for items, seen, clicks, source in given_visits:
        clicked = items[:seen][:clicks][::-1]
        events.append(
            Seen(items[:seen], clicked, source) if clicked else Unclicked(items[:seen], source)
        )
    expected = read_history([*events, *now], offers.find, list(SOURCES))
    assert told.clicks.tolist() == expected.clicks.tolist()
    assert [(s.after, s.items.tolist(), s.source) for s in told.unclicked] == [
        (s.after, s.items.tolist(), s.source) for s in expected.unclicked
    ]
    assert [(s.items, s.clicks) for s in told.shown] == [
        (s.items, s.clicks) for s in expected.shown
    ]
    assert set(told.unknown) <= set(expected.unknown)


@given(given_visits=visits, now=st.lists(st.sampled_from(TRAINED), max_size=2))
def test_what_was_met_is_counted_as_the_history_term_counts(
    given_visits: Given, now: list[str]
) -> None:
    log = ItemLog()
    told = tell(a_past(given_visits, log), now, offers_of(log), EVERYTHING)
    state = HistoryState()
    for showing in told.shown:
        state.add(showing)
    for items in (None, np.array([2, 0, 1])):
        ours, theirs = told.shown.features(items), state.features(items)  # type: ignore[attr-defined]
        np.testing.assert_array_equal(ours[0], theirs[0])
        np.testing.assert_array_equal(ours[1], theirs[1])


def told_of(given_visits: Given, listener: Listener) -> Told:
    log = ItemLog()
    offers = offers_of(log)
    return tell(a_past(given_visits, log), (), offers, listener)


def test_slates_of_unknown_sources_move_nobody_but_their_clicks_count() -> None:
    given_visits = [(["a", "b"], 2, 1, "leaflet"), (["b", "c"], 2, 0, "leaflet")]
    told = told_of(given_visits, EVERYTHING)
    assert told.clicks.tolist() == [0]
    assert told.unclicked == ()
    assert [showing.items for showing in told.shown] == [(0, 1), (1, 2)]


def test_only_sources_with_evidence_move_users_without_a_click() -> None:
    given_visits = [(["a", "b"], 2, 0, source) for source in SOURCES]
    told = told_of(given_visits, Listener(SOURCES, frozenset({1}), False))
    assert [slate.source for slate in told.unclicked] == [1]
    assert len(told.shown) == 0


def test_what_was_not_seen_of_a_slate_does_not_count() -> None:
    told = told_of([(["a", "b", "c"], 1, 0, "search")], EVERYTHING)
    assert told.unclicked[0].items.tolist() == [0]


def test_clicks_that_the_model_does_not_know_are_named_once() -> None:
    given_visits = [(["strange", "a"], 2, 1, "search")] * 2
    assert told_of(given_visits, EVERYTHING).unknown == ["strange"]


def test_nobody_has_no_past() -> None:
    told = tell(NO_PAST, (), offers_of(ItemLog()), EVERYTHING)
    assert told.clicks.tolist() == []
    assert told.unclicked == ()
    assert len(told.shown) == 0
