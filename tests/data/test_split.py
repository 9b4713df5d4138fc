"""The split of Section 5 of the paper, and the split by wall-clock time."""

from itertools import pairwise

import numpy as np
import pytest

from slatewise.data.keys import mix
from slatewise.data.ragged import offsets_of
from slatewise.data.split import SplitConfig, split_by_time, split_by_user, time_quantile
from slatewise.errors import SlatewiseError

KEYS = mix(np.arange(1000, dtype=np.uint64))
LENGTHS = np.random.default_rng(0).integers(1, 21, size=1000)


def test_shares_are_exact_and_prefixes_are_training() -> None:
    cut = split_by_user(SplitConfig(), KEYS, LENGTHS)
    validation = cut.train_end < cut.valid_end
    test = cut.valid_end < LENGTHS
    assert not (validation & test).any()
    held_out = np.flatnonzero(validation | test)
    # Users with at most five interactions may be drawn too: they have nothing to be judged on.
    drawn = np.argsort(mix(mix(KEYS, salt=0)), kind="stable")[:100]
    assert set(held_out) == {u for u in drawn if LENGTHS[u] > 5}
    assert (cut.train_end[held_out] == 5).all()
    rest = np.setdiff1d(np.arange(1000), drawn)
    assert (cut.train_end[rest] == LENGTHS[rest]).all()


def test_every_interaction_is_in_exactly_one_part() -> None:
    cut = split_by_user(SplitConfig(valid_share=0.2, test_share=0.3, prefix=2), KEYS, LENGTHS)
    assert (cut.train_end >= 0).all()
    assert (cut.train_end <= cut.valid_end).all()
    assert (cut.valid_end <= LENGTHS).all()


def test_the_draw_depends_on_the_seed_and_not_on_the_order_of_users() -> None:
    config = SplitConfig(prefix=0)
    cut = split_by_user(config, KEYS, LENGTHS)
    order = np.random.default_rng(1).permutation(1000)
    shuffled = split_by_user(config, KEYS[order], LENGTHS[order])
    assert (shuffled.train_end == cut.train_end[order]).all()
    other = split_by_user(SplitConfig(prefix=0, seed=1), KEYS, LENGTHS)
    both = ((cut.train_end == 0) & (other.train_end == 0)).sum()
    # Two independent draws of 100 of 1000 share 10 +- 3 users.
    assert 1 <= both <= 22


def test_most_users_keep_their_role_when_users_come() -> None:
    cut = split_by_user(SplitConfig(prefix=0), KEYS[:900], LENGTHS[:900])
    later = split_by_user(SplitConfig(prefix=0), KEYS, LENGTHS)
    moved = (cut.train_end == 0) != (later.train_end[:900] == 0)
    assert moved.mean() < 0.03


def test_time_cuts_every_user_at_the_same_moments() -> None:
    rng = np.random.default_rng(2)
    times = np.concatenate([np.sort(rng.integers(0, 10**6, size=n)) for n in LENGTHS])
    offsets = offsets_of(LENGTHS)
    cut = split_by_time(SplitConfig(method="time", valid_share=0.1, test_share=0.2), times, offsets)
    flat = np.arange(len(times)) - np.repeat(offsets[:-1], LENGTHS)
    training = flat < np.repeat(cut.train_end, LENGTHS)
    testing = flat >= np.repeat(cut.valid_end, LENGTHS)
    validation = ~training & ~testing
    assert times[training].max() < times[validation].min()
    assert times[validation].max() < times[testing].min()
    assert training.mean() == pytest.approx(0.7, abs=0.002)
    assert testing.mean() == pytest.approx(0.2, abs=0.002)


def test_time_cuts_can_be_given() -> None:
    times = np.array([10, 20, 30, 5, 25, 40])
    offsets = np.array([0, 3, 6])
    config = SplitConfig(method="time", valid_from="20", test_from="30")
    cut = split_by_time(config, times, offsets)
    assert cut.train_end.tolist() == [1, 1]
    assert cut.valid_end.tolist() == [2, 2]
    day = SplitConfig(
        method="time", valid_from="1970-01-01", test_from="1970-01-01T00:00:00.000030"
    )
    cut = split_by_time(day, times, offsets)
    assert cut.train_end.tolist() == [0, 0]
    assert cut.valid_end.tolist() == [2, 2]


def test_counting_works_across_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    lengths = np.array([0, 3, 0, 7, 1, 0, 20, 2, 0])
    offsets = offsets_of(lengths)
    times = np.concatenate([np.sort(rng.integers(0, 50, size=n)) for n in lengths]).astype(np.int64)
    monkeypatch.setattr("slatewise.data.split._CHUNK", 4)
    config = SplitConfig(method="time", valid_from="20", test_from="35")
    cut = split_by_time(config, times, offsets)
    parts = [times[a:b] for a, b in pairwise(offsets)]
    assert cut.train_end.tolist() == [(part < 20).sum() for part in parts]
    assert cut.valid_end.tolist() == [(part < 35).sum() for part in parts]


def test_quantile_of_one_moment() -> None:
    moment = time_quantile(np.full(10, 7), 0.9)
    assert moment > 7


def test_impossible_splits_are_refused() -> None:
    for values, message in (
        ({"valid_share": 0.6, "test_share": 0.5}, "nothing for training"),
        ({"method": "time", "valid_from": "5"}, "both"),
        ({"valid_from": "5", "test_from": "6"}, "belong to the split by time"),
        ({"valid_share": -1}, "valid_share"),
    ):
        with pytest.raises(SlatewiseError, match=message):
            SplitConfig.build(values, "test")
    times, offsets = np.array([1, 2]), np.array([0, 2])
    for cuts, message in ((("9", "3"), "starts after test"), (("soon", "3"), "not a time")):
        config = SplitConfig(method="time", valid_from=cuts[0], test_from=cuts[1])
        with pytest.raises(SlatewiseError, match=message):
            split_by_time(config, times, offsets)
