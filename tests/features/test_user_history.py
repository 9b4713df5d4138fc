"""One type for what a user did, however it was learned of."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatewise.features import Showing, UserHistory, replay
from slatewise.features.user_history import NO_HISTORY
from tests.features.logs import random_log

SEEDS = st.integers(0, 10_000)
EVIDENCE = np.array([-1, 0])


@given(SEEDS)
def test_a_log_and_its_showings_are_the_same_history(seed: int) -> None:
    log = random_log(seed)
    for user in range(log.num_users):
        shown = list(replay(log, user))
        history = UserHistory.of_log(log, user)
        assert history.showings() == shown
        assert history.same(UserHistory.of_showings(shown))
        assert len(history) == len(shown)
        for number in range(len(shown)):
            assert history.until(number).showings() == shown[:number]


@given(SEEDS)
def test_counts_are_those_of_a_slow_count(seed: int) -> None:
    log = random_log(seed)
    for user in range(log.num_users):
        shown = list(replay(log, user))
        seen = [item for one in shown for item in one.items]
        clicked = [one.items[click] for one in shown for click in one.clicks]
        history = UserHistory.of_log(log, user)
        counts = history.counts
        assert counts.items.tolist() == sorted(set(seen))
        assert counts.views.tolist() == [seen.count(item) for item in sorted(set(seen))]
        assert counts.clicks.tolist() == [clicked.count(item) for item in sorted(set(seen))]
        assert counts.last == (clicked[-1] if clicked else -1)
        clicks, views = counts.of(np.arange(10))
        assert clicks.tolist() == [clicked.count(item) for item in range(10)]
        assert views.tolist() == [seen.count(item) for item in range(10)]
        assert history.clicked.tolist() == clicked


def test_moves_come_in_order_and_without_slates_that_move_nobody() -> None:
    history = UserHistory.of_showings(
        [
            Showing((1, 2), source=1),
            Showing((5,), (0,), source=1),
            Showing((3,), source=0),
            Showing((4, 8, 9), source=1),
            Showing((6, 2), (0,), source=1),
            Showing((7,), source=1),
            Showing((1, 3), source=-1),
        ]
    )
    moves = history.moves(EVIDENCE)
    assert moves.kinds.tolist() == [0, -1, 0, -1, 0]
    assert moves.items.tolist() == [1, 2, 5, 4, 8, 9, 6, 7]
    assert moves.offsets.tolist() == [0, 2, 3, 6, 7, 8]
    vectors = np.arange(16, dtype=np.float32).reshape(8, 2)
    averages = [[1, 2], [4, 5], [8, 9], [12, 13], [14, 15]]
    assert moves.averages(vectors).tolist() == averages
    assert moves.averages(vectors[None])[0].tolist() == averages
    alone = history.moves(np.array([-1, -1]))
    assert (alone.kinds.tolist(), alone.items.tolist()) == ([-1, -1], [5, 6])


def test_what_a_model_does_not_know_is_dropped() -> None:
    history = UserHistory.of_showings(
        [Showing((0, 1, 2), (2, 0), 7, 0), Showing((1,), time=8), Showing((3, 2), (1,), 9, 1)]
    )
    rows = np.array([5, -1, 6, 7])
    known = history.renumbered(rows[history.items], np.array([1, 1, 0]))
    assert known.showings() == [Showing((5, 6), (1, 0), 7, 1), Showing((7, 6), (1,), 9, 0)]
    nothing = history.renumbered(np.full(6, -1), np.array([1, 1, 0]))
    assert nothing.same(NO_HISTORY)


def test_a_slate_whose_click_is_unknown_is_no_slate_without_a_click() -> None:
    history = UserHistory.of_showings([Showing((0, 1), (0,), source=1), Showing((1,), source=1)])
    known = history.renumbered(np.array([-1, 4, 4]), np.array([1, 1]))
    assert known.moves(EVIDENCE).kinds.tolist() == [0]
    assert known.counts.views.tolist() == [2]


@pytest.mark.parametrize("before", [NO_HISTORY, UserHistory.of_showings([Showing((3, 4), (1,))])])
def test_clicks_just_now_are_slates_of_one(before: UserHistory) -> None:
    now = before.clicking(np.array([8, 8]))
    assert now.showings() == [*before.showings(), *[Showing((8,), (0,), source=-1)] * 2]
    assert before.clicking(np.empty(0, np.int64)) is before
    assert UserHistory.of_clicks(np.array([8, 8])).same(NO_HISTORY.clicking(np.array([8, 8])))
