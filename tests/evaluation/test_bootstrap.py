"""Intervals: coverage of a known proportion, pairing, and independence of the batches."""

import numpy as np
import pytest

from slatewise.errors import SlatewiseError
from slatewise.evaluation import Estimate, Recall, TargetRanks, bootstrap, difference
from slatewise.evaluation.bootstrap import EffectiveUsers, Resampler


def hits(rng: np.random.Generator, users: int, share: float) -> TargetRanks:
    """Users with 1 to 5 hits or misses each, alike within a user."""
    owner = np.repeat(np.arange(users), rng.integers(1, 6, users))
    hit = (rng.random(users) < share)[owner]
    return TargetRanks(owner, np.zeros(len(owner), dtype=np.uint8), np.where(hit, 1, 99))


def test_intervals_cover_a_known_share() -> None:
    """95 % intervals over users hold the truth 89 to 99 times of 100; over rows they would not."""
    rng = np.random.default_rng(8)
    covered = 0
    for _ in range(200):
        found = bootstrap(Recall(20), hits(rng, 150, 0.3), resamples=300)
        covered += found.low <= 0.3 <= found.high
    assert 178 <= covered <= 198


def test_intervals_of_few_users_with_heavy_tails_cover_the_truth() -> None:
    """Of 200 users a handful bring most of the rows; plain resamples hold the truth 87 of 100."""
    rng = np.random.default_rng(4)
    covered = 0
    for _ in range(200):
        rows = np.ceil(rng.lognormal(1, 2, 200)).astype(np.int64)
        clicks = rng.binomial(rows, rng.beta(0.5, 8, 200))
        hit = np.concatenate([np.arange(n) < c for n, c in zip(rows, clicks, strict=True)])
        owner = np.repeat(np.arange(200), rows)
        observed = TargetRanks(owner, np.zeros(len(owner), np.uint8), np.where(hit, 1, 99))
        found = bootstrap(Recall(20), observed, resamples=200)
        covered += found.low <= 0.5 / 8.5 <= found.high
    assert covered >= 190


def test_users_alike_in_activity_hardly_widen_an_interval() -> None:
    even, skewed = EffectiveUsers(), EffectiveUsers()
    even.add(np.full(1_000, 7.0))
    skewed.add(np.array([50.0, 1, 1, 1]))
    assert even.widening == pytest.approx(1.0, abs=2e-3)
    assert skewed.widening == pytest.approx(4.303 / 1.96, rel=1e-3)
    assert EffectiveUsers().widening == 1


def test_the_spread_is_that_of_a_ratio_over_users() -> None:
    observed = hits(np.random.default_rng(3), 2_000, 0.4)
    found = bootstrap(Recall(20), observed)
    users, sums = Recall(20).per_user(observed)
    residual = sums[:, 0] - found.value * sums[:, 1]
    expected = np.sqrt((residual**2).sum()) / sums[:, 1].sum()
    assert len(users) == 2_000
    assert found.replicates.std() == pytest.approx(expected, rel=0.1)
    assert found.count == len(observed.users)


def test_batches_do_not_matter() -> None:
    rng = np.random.default_rng(1)
    sums = rng.random((3_000, 4))
    whole, parts = Resampler(5, 40), Resampler(5, 40)
    whole.add(np.arange(3_000), sums)
    for start, stop in ((0, 10), (10, 1_024), (1_024, 2_900), (2_900, 3_000)):
        parts.add(np.arange(start, stop), sums[start:stop])
    assert np.allclose(whole.totals, parts.totals)
    assert np.allclose(whole.resampled, parts.resampled)
    assert whole.sample == parts.sample
    other = Resampler(6, 40)
    other.add(np.arange(3_000), sums)
    assert not np.allclose(other.resampled, whole.resampled)


def test_a_difference_is_paired() -> None:
    rng = np.random.default_rng(2)
    first = hits(rng, 300, 0.4)
    flipped = np.where(rng.random(len(first.ranks)) < 0.02, 1, first.ranks)
    second = TargetRanks(first.users, first.sources, flipped)
    gain = difference(Recall(20), second, first)
    assert gain.value == Recall(20)(second) - Recall(20)(first)
    alone = bootstrap(Recall(20), first)
    assert gain.high - gain.low < (alone.high - alone.low) / 2
    assert difference(Recall(20), first, first) == Estimate(
        0.0, 0.0, 0.0, gain.count, alone.replicates, ""
    )


def test_other_users_are_not_compared() -> None:
    rng = np.random.default_rng(2)
    with pytest.raises(SlatewiseError, match="different users"):
        difference(Recall(20), hits(rng, 30, 0.4), hits(rng, 31, 0.4))


def test_nothing_observed_is_not_a_number() -> None:
    nothing = TargetRanks(*(np.zeros(0, dtype=kind) for kind in (np.int64, np.uint8, np.int64)))
    users, sums = Recall(20).per_user(nothing)
    assert (len(users), sums.shape) == (0, (0, 2))
    assert np.isnan(Recall(20)(nothing))
    found = bootstrap(Recall(20), nothing)
    assert found.to_json() == {"value": None, "low": None, "high": None, "count": 0}
