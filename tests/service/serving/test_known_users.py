"""A model knows of a user's visits what `Recommender` would be told."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatewise.features import UserHistory
from slatewise.features.user_history import NO_HISTORY
from slatewise.service.serving import items as module
from slatewise.service.serving.items import ItemLog
from slatewise.service.serving.users import history_of_visits, known_user
from slatewise.service.store.records import SlateRecord, Visit
from slatewise.slates.users import KnownUser, Seen, history_of_events
from tests.service.serving.test_catalogue import TRAINED, catalogue_of

SOURCES = ["search", "recommendation"]

visits = st.lists(
    st.tuples(
        st.permutations([*TRAINED, "strange", "odd"]),
        st.integers(1, 5),
        st.integers(0, 2),
        st.sampled_from(SOURCES),
    ),
    max_size=6,
)
Given = list[tuple[list[str], int, int, str]]


def history_of(given_visits: Given, log: ItemLog) -> UserHistory:
    made = []
    for number, (items, seen, clicks, source) in enumerate(given_visits):
        slate = SlateRecord(f"s{number}", "u", number, source, tuple(items))
        made.append(Visit(slate, seen, tuple(items[:seen][:clicks][::-1])))
    return history_of_visits(made, log)


def known(given_visits: Given, clicks: list[str] | None = None) -> KnownUser:
    log = ItemLog()
    catalogue = catalogue_of(log)
    history = history_of(given_visits, log)
    names = [SOURCES.index(name) if name in SOURCES else -1 for name in log.sources.ids]
    return known_user(history, clicks or [], catalogue, np.array(names))


@given(given_visits=visits, now=st.lists(st.sampled_from([*TRAINED, "new"]), max_size=2))
def test_what_is_known_is_what_the_events_say(given_visits: Given, now: list[str]) -> None:
    found = known(given_visits, now)
    events: list[str | Seen] = []
    for items, seen, clicks, source in given_visits:
        clicked = items[:seen][:clicks][::-1]
        events.append(Seen(items[:seen], clicked, source))
    find = catalogue_of(ItemLog()).find
    expected, unknown = history_of_events([*events, *now], find, SOURCES)
    assert [(s.items, s.clicks, s.source) for s in found.history.showings()] == [
        (s.items, s.clicks, s.source) for s in expected.showings()
    ]
    assert set(found.unknown) <= set(unknown)


def test_slates_of_unknown_sources_move_nobody_but_their_clicks_count() -> None:
    found = known([(["a", "b"], 2, 1, "leaflet"), (["b", "c"], 2, 0, "leaflet")])
    assert found.history.clicked.tolist() == [0]
    assert found.history.sources.tolist() == [-1, -1]
    assert [showing.items for showing in found.history.showings()] == [(0, 1), (1, 2)]


def test_so_many_sources_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SOURCES", 3)
    log = ItemLog()
    assert log.source_indices(["a", "b", "a", "c", "d", "e", "d", "c"]).tolist() == [
        *[0, 1, 0, 2, 3, 3, 3, 2]
    ]
    assert log.sources.ids == ["a", "b", "c", ""]


def test_what_was_not_seen_of_a_slate_does_not_count() -> None:
    found = known([(["a", "b", "c"], 1, 0, "search"), (["b"], 0, 0, "search")])
    assert found.history.items.tolist() == [0]
    assert len(found.history) == 1


def test_clicks_that_the_model_does_not_know_are_named_once() -> None:
    assert known([(["strange", "a"], 2, 1, "search")] * 2).unknown == ["strange"]


def test_an_anonymous_user_has_no_history() -> None:
    assert known_user(NO_HISTORY, (), catalogue_of(ItemLog()), np.empty(0, int)).history.same(
        NO_HISTORY
    )
