import json
import weakref
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.data.preparation import prepare
from slatewise.errors import SlatewiseError
from slatewise.features import (
    Popularity,
    PopularityConfig,
    PopularityIndex,
    PopularityState,
    Showing,
    replay,
    threads,
)
from slatewise.features.popularity import Sums, stream, time_order
from slatewise.features.popularity_state import CountedEvents
from tests.features.logs import HOUR, first_of_showing, random_log, slate, with_other_future

ITEMS = 8
SEEDS = st.integers(0, 10_000)


def popularity(refresh: float = 3_600.0) -> Popularity:
    settings = PopularityConfig(half_lives=(2.0, 7.5), refresh=refresh, strength=3.0)
    return Popularity(settings=settings, rate=0.25, slate_rate=0.7)


def slow_features(known: Popularity, log: Interactions, item: int, time: int) -> list[float]:
    """Go through every event of the log; those of the same tick or later are not known."""
    tick = known.settings.refresh * 1e6
    out, past = [], []
    for n in range(len(log.clicks)):
        ticks = time // tick - int(log.times[n]) // tick
        if ticks > 0 and item in slate(log, n):
            past.append(ticks * tick / HOUR)
    for hours in known.settings.half_lives:
        clicks = views = expected = 0.0
        for n in range(len(log.clicks)):
            ticks = time // tick - int(log.times[n]) // tick
            if ticks > 0:
                weight = 0.5 ** (ticks * tick / (hours * HOUR))
                seen = item in slate(log, n) and first_of_showing(log, n) == n
                views += weight * seen
                expected += weight * seen / len(slate(log, n))
                clicked = bool(log.clicks[n] >= 0) and slate(log, n)[log.clicks[n]] == item
                clicks += weight * clicked
        rate, strength = known.rate, known.settings.strength
        smoothed = (clicks + strength * rate) / (views + strength)
        out += [np.log(smoothed) - np.log(rate), np.log(1 + clicks)]
        strength, rate = strength * rate / known.slate_rate, known.slate_rate
        smoothed = (clicks + strength * rate) / (expected + strength)
        out += [np.log(smoothed) - np.log(rate), np.log(1 + views)]
    return [*out, np.log(1 + max(past, default=0.0))]


def streamed(known: Popularity, log: Interactions) -> np.ndarray:
    out = np.empty((len(log.slate_items), len(known.names)), dtype=np.float32)
    offsets = log.slate_offsets.numpy()
    stream(known, log, Sums.empty(ITEMS, known), offsets, out)
    return out


@given(SEEDS, st.sampled_from([1.0, 3_600.0, 9_000.0]))
def test_every_cell_has_what_a_slow_sum_over_the_log_gives(seed: int, refresh: float) -> None:
    log, known = random_log(seed, users=3), popularity(refresh)
    wanted = [
        slow_features(known, log, item, int(log.times[n]))
        for n in range(len(log.clicks))
        for item in slate(log, n)
    ]
    np.testing.assert_allclose(
        streamed(known, log), np.array(wanted).reshape(-1, 9), rtol=2e-5, atol=2e-6
    )


@given(SEEDS, st.sampled_from([1.0, 9_000.0]))
def test_the_index_and_the_pass_in_time_order_agree_to_the_last_bit(
    seed: int, refresh: float
) -> None:
    log, known = random_log(seed), popularity(refresh)
    index = PopularityIndex.of_events(known, log, ITEMS)
    np.testing.assert_array_equal(index.cells(log).numpy(), streamed(known, log))


@pytest.fixture
def three_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let threads share even the smallest log."""
    before = torch.get_num_threads()
    monkeypatch.setattr(threads, "ROWS", 4)
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("refresh", [1.0, 3_600.0])
def test_threads_and_checkpoints_change_nothing_in_a_long_log(refresh: float) -> None:
    log, known = random_log(6, users=200, hours=400), popularity(refresh)
    index = PopularityIndex.of_events(known, log, ITEMS)
    assert len(index.checkpoints.sums) > 4 * ITEMS
    np.testing.assert_array_equal(index.cells(log).numpy(), streamed(known, log))


def test_ticks_are_ordered_as_by_a_stable_sort() -> None:
    ticks = np.random.default_rng(0).integers(-(2**40), 2**40, 500)
    ticks[::3] = ticks[0]
    np.testing.assert_array_equal(time_order(ticks), np.argsort(ticks, kind="stable"))
    assert len(time_order(ticks[:0])) == 0


@given(SEEDS, st.integers(1, 4))
def test_replaying_the_log_through_serving_gives_the_same_numbers(seed: int, calls: int) -> None:
    log, known = random_log(seed), popularity()
    index = PopularityIndex.of_events(known, log, ITEMS)
    shown = [one for user in range(log.num_users) for one in replay(log, user)]
    shown.sort(key=lambda one: one.time)
    state, items = PopularityState.empty(known, ITEMS), np.arange(ITEMS)
    for time in sorted({one.time for one in shown}):
        served = state.features(time)
        np.testing.assert_array_equal(served, index.features(items, np.full(ITEMS, time)))
        now = [one for one in shown if one.time == time]
        for part in range(calls):
            state.add(now[part::calls])
        np.testing.assert_array_equal(state.features(time), served)


@given(SEEDS, st.integers(0, 12))
def test_nothing_at_a_time_or_after_it_moves_a_feature(seed: int, hour: int) -> None:
    log, known = random_log(seed), popularity()
    items, times = np.arange(ITEMS), np.full(ITEMS, hour * HOUR)
    other = with_other_future(log, hour * HOUR, seed + 1, ITEMS)
    before, after = (PopularityIndex.of_events(known, one, ITEMS) for one in (log, other))
    np.testing.assert_array_equal(before.features(items, times), after.features(items, times))
    earlier = torch.repeat_interleave(log.times < hour * HOUR, log.slate_offsets.diff())
    assert torch.equal(before.cells(log)[earlier], after.cells(other)[earlier])


def test_an_event_counts_from_the_next_tick_and_half_after_a_half_life() -> None:
    known = popularity()
    state = PopularityState.empty(known, 2)
    state.add([Showing(items=(1, 0), clicks=(0,), time=10 * HOUR)])
    assert not state.features(11 * HOUR - 1).any()
    clicks = np.expm1(state.features(12 * HOUR)[1, 1:-1:4])
    np.testing.assert_allclose(clicks, [0.5, 0.5 ** (2 / 7.5)], rtol=1e-6)


def test_an_item_is_as_old_as_its_first_event_whenever_that_came_and_at_most_four_weeks() -> None:
    state = PopularityState.empty(popularity(), 2)
    for hour in (10, 3, 20):
        state.add([Showing(items=(1,), time=hour * HOUR)])
    for hour, age in ((21, 18), (500, 497), (3 + 28 * 24, 28 * 24), (10_000, 28 * 24)):
        found = np.expm1(state.features(hour * HOUR)[:, -1])
        np.testing.assert_allclose(found, [0, age], rtol=1e-5)


def test_late_events_weigh_what_they_would_have_weighed() -> None:
    log, known = random_log(3, users=12), popularity()
    shown = [one for user in range(log.num_users) for one in replay(log, user)]
    in_order, astray = PopularityState.empty(known, ITEMS), PopularityState.empty(known, ITEMS)
    in_order.add(shown)
    for one in reversed(shown):
        astray.add([one])
    np.testing.assert_allclose(
        astray.features(20 * HOUR), in_order.features(20 * HOUR), rtol=1e-5, atol=1e-6
    )


def test_events_that_are_counted_one_by_one_count_as_slates() -> None:
    """In any division into calls, to the last bit; items that come up later have room."""
    popularity = Popularity(settings=PopularityConfig(), rate=0.2, slate_rate=0.6)
    slates = [Showing((0, 1, 2), (1,), 5 * HOUR), Showing((2, 0), (0, 1), 2 * HOUR)]
    whole = PopularityState.empty(popularity, 3)
    for one in slates:
        whole.add([one])
    events = CountedEvents(
        [s.time for s in slates for _ in s.items],
        np.array([item for s in slates for item in s.items]),
        np.ones(5, np.bool_),
        np.array([position in s.clicks for s in slates for position in range(len(s.items))]),
        np.array([1 / len(s.items) for s in slates for _ in s.items]),
    )
    for cut in range(6):
        state = PopularityState.empty(popularity, 0)
        for part in (slice(cut), slice(cut, None)):
            state.count(CountedEvents(*(values[part] for values in events)))
        np.testing.assert_array_equal(
            state.features(7 * HOUR, np.arange(3)), whole.features(7 * HOUR)
        )
        assert state.newest == 5 * HOUR


def test_a_click_on_what_was_seen_before_is_no_second_view() -> None:
    popularity = Popularity(settings=PopularityConfig(), rate=0.2, slate_rate=0.6)
    once, twice = (PopularityState.empty(popularity, 1) for _ in range(2))
    once.add([Showing((0,), (0,), HOUR)])
    for view in (True, False):
        flags = np.array([view]), np.array([not view])
        twice.count(CountedEvents([HOUR], np.array([0]), *flags, np.array([float(view)])))
    np.testing.assert_array_equal(once.features(2 * HOUR), twice.features(2 * HOUR))


def test_a_state_is_not_asked_about_its_past() -> None:
    state = PopularityState.empty(popularity(), 2)
    state.add([Showing(items=(1,), time=10 * HOUR)])
    with pytest.raises(SlatewiseError, match="item 1 has events after"):
        state.features(9 * HOUR)
    with pytest.raises(SlatewiseError, match="no item 2"):
        state.features(11 * HOUR, np.array([2]))


def test_the_index_has_a_row_for_each_item_and_tick_and_no_more() -> None:
    log = random_log(4, users=300, hours=4)
    index = PopularityIndex.of_events(popularity(), log, ITEMS)
    ticks = torch.repeat_interleave(log.times // HOUR, log.slate_offsets.diff())
    pairs = set(zip(log.slate_items.tolist(), ticks.tolist(), strict=True))
    assert len(index.counts.ticks) == len(pairs) <= 4 * ITEMS < len(log.slate_items) / 50


def test_unknown_items_are_refused() -> None:
    log = random_log(0)
    with pytest.raises(ValueError, match="unknown item"):
        PopularityIndex.of_events(popularity(), log, 3)
    with pytest.raises(ValueError, match="unknown item"):
        stream(popularity(), log, Sums.empty(3, popularity()))


def test_columns_are_named_after_their_half_life() -> None:
    kinds = ("click_rate", "clicks", "click_lift", "views")
    fading = [f"{kind}_{hours}h" for hours in ("2", "7.5") for kind in kinds]
    assert popularity().names == (*fading, "age")


def test_it_is_saved_as_json_and_that_of_an_earlier_release_refused() -> None:
    known = popularity()
    stored = json.loads(known.model_dump_json())
    assert Popularity.build(stored, "popularity") == known
    stored.pop("slate_rate")
    with pytest.raises(SlatewiseError, match="earlier release: train the model again"):
        Popularity.build(stored, "popularity")


@pytest.fixture
def dataset(write_log: Callable[..., Any], tmp_path: Path) -> SlateDataset:
    start, log = datetime(2024, 5, 17), random_log(5, users=30)
    rows = [
        {
            "user_id": user,
            "time": start + timedelta(microseconds=one.time),
            "slate": list(one.items),
            "click": [one.items[click] for click in one.clicks],
            "source": f"source {one.source}",
        }
        for user in range(log.num_users)
        for one in replay(log, user)
    ]
    return prepare(*write_log(rows), tmp_path / "dataset")


def test_a_dataset_gives_the_same_numbers_in_training_evaluation_and_serving(
    dataset: SlateDataset,
) -> None:
    known = Popularity.fit(dataset, PopularityConfig(half_lives=(3.0,)))
    cells = known.cells(dataset)
    assert torch.equal(cells, PopularityIndex.of(known, dataset).cells(dataset.interactions()))
    last = int(dataset.times.max())
    at_last = np.repeat(dataset.times == last, np.diff(dataset.slate_offsets))
    served = PopularityState.of(known, dataset).features(last, dataset.slate_items[at_last])
    np.testing.assert_array_equal(cells.numpy()[at_last], served)


def test_indices_of_a_log_share_what_was_counted_while_one_is_in_use(dataset: SlateDataset) -> None:
    short, long = (
        Popularity.fit(dataset, PopularityConfig(half_lives=(hours,))) for hours in (3.0, 24.0)
    )
    kept, view = (
        PopularityIndex.of(short, dataset),
        dataset.with_ends(dataset.train_end, dataset.valid_end),
    )
    other, again = PopularityIndex.of(long, view), PopularityIndex.of(short, view)
    assert other.counts is kept.counts is again.counts
    assert again.checkpoints is kept.checkpoints is not other.checkpoints
    minutes = Popularity.fit(dataset, PopularityConfig(refresh=600.0))
    assert PopularityIndex.of(minutes, dataset).counts is not kept.counts
    gone = weakref.ref(kept.counts)
    del kept, other, again
    assert gone() is None


def test_the_result_for_a_dataset_may_be_a_file(dataset: SlateDataset, tmp_path: Path) -> None:
    known = Popularity.fit(dataset)
    shape = (len(dataset.slate_items), len(known.names))
    mapped = np.lib.format.open_memmap(tmp_path / "cells.npy", "w+", np.float32, shape)
    known.cells(dataset, mapped)
    mapped.flush()
    np.testing.assert_array_equal(np.load(tmp_path / "cells.npy"), known.cells(dataset))


def test_the_rate_counts_training_clicks_and_every_slate_once(dataset: SlateDataset) -> None:
    clicks = views = 0
    log = dataset.interactions()
    for user in range(dataset.num_users):
        for n in range(dataset.train_end[user]):
            at = int(dataset.user_offsets[user]) + n
            clicks += int(dataset.clicks[at] >= 0)
            views += len(slate(log, at)) * (first_of_showing(log, at) == at)
    assert Popularity.fit(dataset).rate == pytest.approx((clicks + 0.5) / (views + 1))


def test_a_log_whose_times_are_only_an_order_is_refused(
    write_log: Callable[..., Any], tmp_path: Path
) -> None:
    rows = [{"user_id": 1, "time": 3, "slate": [1, 2], "click": 1, "source": "a"}]
    counted = prepare(*write_log(rows), tmp_path / "dataset")
    for refused in (
        lambda: Popularity.fit(counted),
        lambda: popularity().cells(counted),
        lambda: PopularityIndex.of(popularity(), counted),
        lambda: PopularityState.of(popularity(), counted),
    ):
        with pytest.raises(SlatewiseError, match="only an order"):
            refused()
