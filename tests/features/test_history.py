import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slatewise.data.interactions import Interactions
from slatewise.features import HISTORY, Showing, UserHistory, history_features, met_features
from tests.features.logs import first_of_showing, past_of_user, random_log, slate

SEEDS = st.integers(0, 10_000)


def slow_features(log: Interactions) -> np.ndarray:
    out = []
    for n in range(len(log.clicks)):
        past = past_of_user(log, n)
        clicked = [slate(log, m)[log.clicks[m]] for m in past if log.clicks[m] >= 0]
        seen = [i for m in past if first_of_showing(log, m) == m for i in slate(log, m)]
        for item in slate(log, n):
            last = bool(clicked) and clicked[-1] == item
            out.append([np.log1p(clicked.count(item)), np.log1p(seen.count(item)), last])
    return np.array(out, dtype=np.float32).reshape(-1, len(HISTORY))


@given(SEEDS)
def test_every_cell_has_what_a_slow_count_finds(seed: int) -> None:
    log = random_log(seed)
    np.testing.assert_array_equal(history_features(log).numpy(), slow_features(log))


def test_many_users_share_one_table_without_seeing_each_other() -> None:
    log = random_log(1, users=200, items=40)
    together = history_features(log)
    alone = [history_features(log.of_users(torch.tensor([user]))) for user in range(200)]
    assert torch.equal(together, torch.cat(alone))


def test_item_numbers_may_be_as_large_as_int32_allows() -> None:
    log = random_log(2)
    spread = log.with_items(2**31 - 1 - 65_536 * log.slate_items)
    assert torch.equal(history_features(spread), history_features(log))


@given(SEEDS, st.integers(0, 7))
def test_nothing_that_comes_later_moves_a_feature(seed: int, step: int) -> None:
    log = random_log(seed)
    ends = torch.full((log.num_users,), step)
    users = torch.arange(log.num_users)
    first = history_features(log.of_users(users, ends))
    everything = history_features(log)
    at = 0
    for user in users:
        begin = log.slate_offsets[log.user_offsets[user]]
        end = min(log.user_offsets[user] + step, log.user_offsets[user + 1])
        cells = int(log.slate_offsets[end] - begin)
        assert torch.equal(everything[begin : begin + cells], first[at : at + cells])
        at += cells


@given(SEEDS)
def test_the_history_before_an_interaction_gives_the_same_numbers(seed: int) -> None:
    log = random_log(seed)
    batch = history_features(log).numpy()
    for user in range(log.num_users):
        first, end = log.user_offsets[user : user + 2].tolist()
        for n in range(first, end):
            past = UserHistory.of_log(log, user, n - first)
            rows = batch[log.slate_offsets[n] : log.slate_offsets[n + 1]]
            items = np.array(slate(log, n))
            np.testing.assert_array_equal(met_features(past, items)[1], rows)
            met, values = met_features(past)
            assert not set(items[rows.any(axis=1)]) - set(met.tolist())
            assert values.any(axis=1).all()


def test_all_clicks_on_a_slate_count_and_the_last_is_the_last() -> None:
    history = UserHistory.of_showings([Showing(items=(4, 5, 6), clicks=(2, 0))])
    items, values = met_features(history)
    assert items.tolist() == [4, 5, 6]
    once = np.float32(np.log1p(1))
    assert values.tolist() == [[once, once, 1], [0, once, 0], [once, once, 0]]


def test_the_same_item_clicked_twice_running_in_slates_of_one_is_shown_twice() -> None:
    log = Interactions.of_clicks(torch.tensor([7, 7, 7]), torch.tensor([0, 3]))
    np.testing.assert_array_equal(
        history_features(log)[:, 1], np.log1p([0, 1, 2]).astype(np.float32)
    )


def test_the_cost_of_a_long_history_grows_with_its_length_only() -> None:
    count = 200_000
    log = Interactions.of_clicks(torch.arange(count) % 50_000, torch.tensor([0, count]))
    history_features(log)
    start = time.thread_time()
    last = history_features(log)[-1]
    assert time.thread_time() - start < 0.2  # 0.01 s; quadratic, it would be minutes
    np.testing.assert_array_equal(last[:2], np.log1p([3, 3]).astype(np.float32))


def test_no_users_have_no_features() -> None:
    log = Interactions.of_clicks(torch.zeros(0, dtype=torch.int64), torch.zeros(1).long())
    assert history_features(log).shape == (0, len(HISTORY))


def test_a_click_outside_its_slate_is_refused() -> None:
    log = Interactions.of_clicks(torch.tensor([3]), torch.tensor([0, 1]))
    log.clicks[0] = 1
    with pytest.raises(ValueError, match="interaction 0"):
        history_features(log)
    with pytest.raises(ValueError, match="slate of 1"):
        Showing(items=(3,), clicks=(1,))
