"""What a model made of a user's history is kept as long as it is true."""

import time

import numpy as np
import pytest

from slatewise.service.serving.item_states import ItemStates
from slatewise.service.serving.items import ItemLog
from slatewise.service.serving.users import User, history_of_visits, newest_visits
from slatewise.service.store import Store
from slatewise.service.store.records import Answer, Outcome, SlateRecord, Visit
from tests.service.serving.test_catalogue import TRAINED, catalogue_of
from tests.service.serving.test_known_users import Given, history_of

VISITS: Given = [(list(TRAINED), 3, 1, "search"), (list(TRAINED), 2, 0, "recommendation")]
OTHERS: list[Given] = [
    VISITS[:1],
    VISITS[::-1],
    [(list(TRAINED), 3, 2, "search"), VISITS[1]],
    [(list(TRAINED), 2, 1, "search"), VISITS[1]],
    [(list(TRAINED)[::-1], 3, 1, "search"), VISITS[1]],
    [(list(TRAINED), 3, 1, "recommendation"), VISITS[1]],
    [],
]


def test_the_same_past_is_told_as_before() -> None:
    log = ItemLog()
    model = catalogue_of(log), np.arange(2)
    before, again = (User(history_of(VISITS, log), 9, stamp, 0.0) for stamp in (1, 2))
    known = before.lookup(())(*model)
    again.remember(before)
    assert again.lookup(())(*model) is known


@pytest.mark.parametrize("visits", OTHERS)
def test_another_past_is_told_anew(visits: Given) -> None:
    log = ItemLog()
    model = catalogue_of(log), np.arange(2)
    before, again = (User(history_of(given, log), 9, 1, 0.0) for given in (VISITS, visits))
    known = before.lookup(())(*model)
    again.remember(before)
    assert again.lookup(())(*model) is not known


def test_only_the_newest_visits_with_so_many_clicks_count() -> None:
    visits = [
        Visit(SlateRecord(f"s{clicks}", "u", clicks, "search", tuple("abcdef")), 6, items)
        for clicks in (1, 2, 0, 3)
        for items in [tuple("abcdef")[:clicks]]
    ]
    kept = [len(newest_visits(visits, most)) for most in range(7)]
    assert kept == [1, 1, 1, 2, 2, 3, 4]
    assert newest_visits(visits, 5) == visits[1:]
    assert not newest_visits([], 5)


def test_a_slate_with_many_clicks_is_read_in_one_pass(store: Store) -> None:
    items = tuple(f"i{number}" for number in range(20_000))
    slate = SlateRecord("s", "u", 1_700_000_000_000_000, "search", items)
    store.write([slate], [Outcome("s", None, items, slate.time)])
    states = ItemStates({}, log := ItemLog())
    start = time.process_time()
    history = history_of_visits(store.history("u", 5).visits, log)
    news = list(states._news(Answer(1, "s", slate.time, items, len(items), items)))
    assert time.process_time() - start < 1  # one by one it takes some seconds
    assert history.clicks.tolist() == list(range(20_000))
    assert all(click for _, _, click, _ in news)
