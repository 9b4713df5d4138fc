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
from tests.features.logs import HOUR, random_log, with_other_future

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
def test_the_clicks_of_a_moment_are_not_in_its_features(seed: int) -> None:
    log = random_log(seed)
    if not len(log.times):
        return
    moment = log.times[seed % len(log.times)]
    now = log.times == moment
    other = replace(log, clicks=torch.where(now & (log.clicks >= 0), 0, log.clicks))
    cells = torch.repeat_interleave(now, log.scroll_lengths)
    found, wanted = table_of(other), table_of(log)
    assert torch.equal(found.items[cells], wanted.items[cells])
    assert torch.equal(found.slates[now], wanted.slates[now])


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


def test_slates_at_one_time_do_not_know_of_each_other() -> None:
    first, second = Showing((0, 1), (1,), HOUR), Showing((1, 2), (0,), HOUR)
    items, slates = table_of(of_one_user(first, second))
    assert not items.any()
    assert torch.equal(slates[0], slates[1])


def test_without_clock_times_nothing_is_counted_in_hours() -> None:
    known = PastFeatures(popularity=None, rates=(0.5,), rate=0.5)
    log = of_one_user(Showing((0, 1), (1,), 1), Showing((1, 2), (), 2))
    items, slates = known.table(log, GROUPS)
    assert items.shape == (4, len(known.item_names))
    assert slates.shape == (2, len(known.slate_names))
    assert not [n for n in (*known.item_names, *known.slate_names) if "minutes" in n or "hour" in n]
    assert items[2].any()
