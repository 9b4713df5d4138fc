"""Features of the strict past: nothing of a slate's own time, click or future is in them."""

from dataclasses import replace

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slatewise.data.interactions import Interactions
from slatewise.features import Popularity, PopularityConfig, PopularityIndex, Showing
from slatewise.features.past import OWN, USER, PastFeatures, PastTable
from slatewise.features.showings import as_interactions
from slatewise.features.user_history import Histories, UserHistory
from slatewise.model.network.requests import interactions_with_list
from tests.features.logs import (
    HOUR,
    first_of_showing,
    past_of_user,
    random_log,
    slate,
    with_other_future,
)

ITEMS = 8
GROUPS = np.arange(ITEMS) % 3
SEEDS = st.integers(0, 10_000)
MINUTE = 60_000_000
KNOWN = PastFeatures(
    popularity=Popularity(
        settings=PopularityConfig(half_lives=(2.0,), refresh=1.0), rate=0.2, slate_rate=0.7
    ),
    rates=(0.5, 0.7),
    rate=0.6,
)


def table_of(log: Interactions) -> PastTable:
    assert KNOWN.popularity is not None
    index = PopularityIndex.of_events(KNOWN.popularity, log, ITEMS)
    return KNOWN.table(log, GROUPS, index.cells)


@given(SEEDS, st.integers(0, 12))
@settings(max_examples=30)
def test_what_comes_at_a_time_or_after_it_changes_nothing_before(seed: int, hour: int) -> None:
    log = random_log(seed)
    before, after = (
        table_of(one) for one in (log, with_other_future(log, hour * HOUR, seed + 1, ITEMS))
    )
    earlier = log.times < hour * HOUR
    cells = torch.repeat_interleave(earlier, log.scroll_lengths)
    assert torch.equal(before.items[cells], after.items[cells])
    assert torch.equal(before.slates[earlier], after.slates[earlier])


@given(SEEDS)
@settings(max_examples=30)
def test_the_clicks_of_a_slate_and_of_others_at_its_time_are_not_in_its_features(seed: int) -> None:
    log = random_log(seed)
    if not len(log.times):
        return
    row = first_of_showing(log, seed % len(log.times))
    users = torch.searchsorted(log.user_offsets, torch.arange(len(log.times)), right=True)
    later = (users == users[row]) & (torch.arange(len(log.times)) >= row)
    changed = (log.times == log.times[row]) & (later | (users != users[row]))
    other = replace(log, clicks=torch.where(changed & (log.clicks >= 0), 0, log.clicks))
    cells = slice(int(log.slate_offsets[row]), int(log.slate_offsets[row + 1]))
    found, wanted = table_of(other), table_of(log)
    assert torch.equal(found.items[cells], wanted.items[cells])
    assert torch.equal(found.slates[row], wanted.slates[row])


@given(SEEDS)
@settings(max_examples=30)
def test_what_a_user_did_is_all_that_stands_before_a_slate_in_the_log(seed: int) -> None:
    log = random_log(seed)
    items, slates = table_of(log)
    for n in range(len(log.times)):
        past = past_of_user(log, n)
        shown = [slate(log, row) for row in past if first_of_showing(log, row) == row]
        clicked = [slate(log, row)[log.clicks[row]] for row in past if log.clicks[row] >= 0]
        wanted = np.log1p([len(shown), len(clicked)]).astype(np.float32)
        assert slates[n, :2].tolist() == wanted.tolist()
        own = items[int(log.slate_offsets[n]) : int(log.slate_offsets[n + 1]), -len(OWN) :]
        for item, values in zip(slate(log, n), own.tolist(), strict=True):
            found = dict(zip(OWN, values, strict=True))
            seen = sum(item in one for one in shown)
            assert found["shown_before"] == np.float32(np.log1p(seen))
            assert found["clicked_before"] == np.float32(np.log1p(clicked.count(item)))
            assert found["clicked_last"] == (clicked[-1:] == [item])


@given(SEEDS)
@settings(max_examples=30)
def test_serving_sees_the_past_of_a_slate_as_the_log_has_it(seed: int) -> None:
    log = random_log(seed)
    log = replace(log, times=log.times + HOUR)  # a time of 0 is unknown
    assert KNOWN.popularity is not None
    unknown = len(KNOWN.popularity.names)

    def own(rows: Interactions) -> PastTable:
        return KNOWN.table(rows, GROUPS, lambda log: torch.zeros(len(log.slate_items), unknown))

    wanted, histories = own(log), Histories(log)
    for n in range(len(log.times)):
        (history,) = histories.before(torch.tensor([n]))
        shown = np.array(slate(log, n))
        found = own(interactions_with_list(history, shown, int(log.sources[n]), int(log.times[n])))
        cells = slice(int(log.slate_offsets[n]), int(log.slate_offsets[n + 1]))
        assert torch.equal(found.items[-len(shown) :], wanted.items[cells])
        assert torch.equal(found.slates[-1], wanted.slates[n])


def of_one_user(*showings: Showing) -> Interactions:
    rows = as_interactions(showings)
    return replace(rows, user_offsets=torch.tensor([0, len(rows.clicks)]))


def test_a_user_remembers_what_she_saw_and_clicked_and_when() -> None:
    day = 24 * HOUR
    log = of_one_user(
        Showing((0, 1), (1,), day),
        Showing((1, 2), (), day + 10 * MINUTE),
        Showing((1, 4), (), day + 30 * MINUTE),
    )
    items, slates = table_of(log)
    own = dict(zip(OWN, items[-2, -len(OWN) :].tolist(), strict=True))  # of item 1 in the last
    longest = 28 * 24 * 60
    wanted = {
        "clicked_before": np.log(2),
        "shown_before": np.log(3),
        "slates_since_shown": np.log(1_001),
        "minutes_since_shown": np.log((1 + longest) / 21),
        "slates_since_clicked": np.log(1_001 / 2),
        "minutes_since_clicked": np.log((1 + longest) / 31),
        "clicked_last": 1.0,
        "group_clicked": np.log(2),
        "group_shown": np.log(3),
    }
    assert {name: own[name] for name in wanted} == {
        name: np.float32(value) for name, value in wanted.items()
    }
    # Item 4 is new, and of the group of item 1.
    assert items[-1, -len(OWN) :][:7].tolist() == [0.0] * 7
    assert items[-1, -len(OWN) :][7:].tolist() == items[-2, -len(OWN) :][7:].tolist()
    user = dict(zip(USER, slates[-1].tolist(), strict=False))
    assert user["slates"] == np.float32(np.log(3))
    assert user["session"] == np.float32(np.log(3))
    assert user["lately_2"] == np.float32(0.5 * 0.25 - 0.25)
    assert not slates[0, :10].any()


@given(SEEDS)
@settings(max_examples=30)
def test_the_last_slate_of_a_user_has_the_same_features_alone(seed: int) -> None:
    log = random_log(seed)
    for user in range(log.num_users):
        one = log.of_users(torch.tensor([user]))
        if not len(one.times):
            continue
        times, last = one.times.clone(), int(one.scroll_lengths[-1])
        times[-1] = times.max() + 1
        one = replace(one, times=times)
        whole, kinds = table_of(one), GROUPS[one.slate_items.numpy()].astype(np.int64)
        first = len(whole.items) - last
        popular = whole.items[first:, : -len(OWN)].numpy()
        alone = KNOWN.of_last(one, kinds, 3, popular)
        assert torch.equal(alone.items, whole.items[first:])
        assert torch.equal(alone.slates, whole.slates[-1:])


def test_of_slates_at_one_time_the_earlier_row_is_the_past() -> None:
    first, second = Showing((0, 1), (1,), HOUR), Showing((1, 2), (0,), HOUR)
    items, slates = table_of(of_one_user(first, second))
    own = dict(zip(OWN, items[2, -len(OWN) :].tolist(), strict=True))  # of item 1 in the second
    assert (own["clicked_last"], own["minutes_since_shown"]) == (1, np.float32(np.log(40_321)))
    assert not items[:2].any()
    assert not items[2:, : -len(OWN)].any()  # popularity at one time is that of before
    assert slates[1, 0] == np.float32(np.log(2))
    alone = table_of(as_interactions([first, second]))  # of two users
    assert not alone.items.any()


def test_rows_without_a_time_after_others_are_no_time_later() -> None:
    history = UserHistory.of_showings([Showing((0, 1), (1,), 40 * 24 * HOUR)])
    history = history.clicking(np.array([1, 2]))
    history = replace(history, sources=np.zeros(len(history), np.int64))
    rows = interactions_with_list(history, np.array([2]), 0, 40 * 24 * HOUR)
    assert table_of(rows).items.isfinite().all()


def test_without_clock_times_nothing_is_counted_in_hours() -> None:
    known = PastFeatures(popularity=None, rates=(0.5,), rate=0.5)
    log = of_one_user(Showing((0, 1), (1,), 1), Showing((1, 2), (), 2))
    items, slates = known.table(log, GROUPS)
    assert items.shape == (4, len(known.item_names))
    assert slates.shape == (2, len(known.slate_names))
    assert not [n for n in (*known.item_names, *known.slate_names) if "minutes" in n or "hour" in n]
    assert items[2].any()
