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


@pytest.mark.parametrize(
    ("lengths", "prefix"),
    [
        (np.tile([1, 1, 2, 7], 250), 0),  # of 100 users held out hardly anything would be left
        (np.tile([6, 7, 8, 19], 250), 5),  # half
        (np.tile([6, 6, 6, 6], 10_000), 5),  # a sixth, which is enough of so many
    ],
)
def test_users_with_few_interactions_are_held_out_whole(
    lengths: np.ndarray[tuple[int], np.dtype[np.int64]], prefix: int
) -> None:
    keys = mix(np.arange(len(lengths), dtype=np.uint64))
    cut, given = (split_by_user(c, keys, lengths) for c in (SplitConfig(), SplitConfig(prefix=5)))
    assert cut.train_end.min() == min(prefix, lengths.min())
    assert (cut.train_end == given.train_end).all() == (prefix == 5)


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
    monkeypatch.setattr("slatewise.data.ragged._PIECE", 4)
    config = SplitConfig(method="time", valid_from="20", test_from="35")
    cut = split_by_time(config, times, offsets)
    parts = [times[a:b] for a, b in pairwise(offsets)]
    assert cut.train_end.tolist() == [(part < 20).sum() for part in parts]
    assert cut.valid_end.tolist() == [(part < 35).sum() for part in parts]


def test_quantile_of_one_moment() -> None:
    moment = time_quantile(np.full(10, 7), 0.9)
    assert moment > 7


@pytest.mark.parametrize(
    "times",
    [
        np.random.default_rng(0).integers(0, 10**12, size=1000),
        np.append(np.arange(999), 2**62),  # one far outlier
        np.append(np.arange(998), [-(2**63), 2**63 - 1]),
        np.repeat(np.arange(20) * 86_400_000_000, 50),  # whole days
        np.repeat([0, 1], [930, 70]),
    ],
)
def test_quantiles_are_as_near_as_moments_allow(times: np.ndarray) -> None:
    for share in (0.1, 0.5, 0.9, 0.95):
        before = int((times < time_quantile(times, share)).sum())
        possible = [int((times < moment).sum()) for moment in np.unique(times)] + [len(times)]
        assert abs(before - share * 1000) == min(abs(n - share * 1000) for n in possible)


def test_quantiles_work_across_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    times = np.random.default_rng(0).integers(-(2**62), 2**62, size=1000)
    whole = time_quantile(times, 0.9)
    monkeypatch.setattr("slatewise.data.ragged._PIECE", 7)
    assert time_quantile(times, 0.9) == whole


@pytest.mark.parametrize(
    ("times", "part"),
    [
        ([1] * 18 + [2, 3], "validation"),
        ([1] * 9 + [2] * 11, "test"),
    ],
)
def test_coarse_times_that_leave_a_part_empty_are_refused(times: list[int], part: str) -> None:
    offsets = np.array([0, len(times)])
    config = SplitConfig(method="time", valid_share=0.3, test_share=0.1)
    with pytest.raises(SlatewiseError, match=f"for {part}") as error:
        split_by_time(config, np.array(times), offsets)
    assert "--test-from" in error.value.remedy
    none = SplitConfig(method="time", valid_share=0, test_share=0)
    assert split_by_time(none, np.array(times), offsets).train_end.tolist() == [len(times)]


@pytest.mark.parametrize(
    ("users", "valid_share", "test_share", "wanted"),
    [
        (1000, 0.2, 0.03, (200, 30)),
        (100, 0.07, 0.14, (7, 14)),  # 0.07 * 100 and 0.14 * 100 are above 7 and 14 in floats
        (1000, 0.05, 0, (50, 0)),
        (10, 0.05, 0.05, (1, 1)),
        (3, 0.05, 0.05, (1, 1)),
        (2, 0.05, 0.05, (0, 0)),
    ],
)
def test_so_many_users_are_held_out(
    users: int, valid_share: float, test_share: float, wanted: tuple[int, int]
) -> None:
    config = SplitConfig(valid_share=valid_share, test_share=test_share, prefix=2)
    lengths = np.full(users, 6)
    cut = split_by_user(config, KEYS[:users], lengths)
    ends = list(zip(cut.train_end.tolist(), cut.valid_end.tolist(), strict=True))
    assert (ends.count((2, 6)), ends.count((2, 2))) == wanted
    assert ends.count((6, 6)) == users - sum(wanted)


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
