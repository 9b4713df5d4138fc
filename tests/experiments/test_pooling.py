import numpy as np
import pytest

from slatewise.experiments.pooling import over_worlds, pool


def test_one_seed_keeps_its_own_interval() -> None:
    replicates = np.linspace(-1, 3, 1_001)
    found = pool([1.0], [replicates], same_users=False)
    assert (found.value, found.low, found.high) == (1.0, pytest.approx(-0.9), pytest.approx(2.9))


def test_seeds_without_a_difference_of_their_own_narrow_the_interval() -> None:
    rng = np.random.default_rng(0)
    replicates = 5 + rng.normal(size=(4, 4_000))
    found = pool([5.0] * 4, list(replicates), same_users=False)
    assert found.high - found.low == pytest.approx(2 * 1.96 / np.sqrt(4), rel=0.05)


def test_the_same_users_do_not_count_twice() -> None:
    replicates = 5 + np.random.default_rng(0).normal(size=4_000)
    found = pool([5.0] * 4, [replicates] * 4, same_users=True)
    assert found.high - found.low == pytest.approx(2 * 1.96, rel=0.05)


def test_seeds_that_differ_more_than_their_users_widen_the_interval() -> None:
    rng = np.random.default_rng(0)
    values = [-1.0, 0.0, 1.0]
    replicates = [value + 0.01 * rng.normal(size=2_000) for value in values]
    found = pool(values, replicates, same_users=False)
    assert found.high - found.low == pytest.approx(2 * 1.96 / np.sqrt(3), rel=0.05)
    assert found.low < 0 < found.high


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_intervals_of_five_seeds_cover_the_truth(spread: float) -> None:
    """Between seeds as much variance as within, or none: 88 % and more of 600 cover."""
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(600):
        truths = spread * rng.normal(size=5)
        values = truths + rng.normal(size=5)
        replicates = values[:, None] + rng.normal(size=(5, 400))
        found = pool(values.tolist(), list(replicates), same_users=False)
        covered += found.low <= 0 <= found.high
    assert covered / 600 >= 0.88


def test_the_note_counts_seeds_on_each_side() -> None:
    found = pool([0.1, -0.2, 0.3], [np.zeros(3)] * 3, same_users=False)
    assert found.note() == "2 of 3 seeds above 0"
    assert pool([0.1], [np.zeros(3)], same_users=False).note() == "1 of 1 seed above 0"


def test_what_is_not_defined_has_no_interval() -> None:
    found = pool([0.5], [[np.nan, np.nan]], same_users=False)
    assert np.isnan([found.low, found.high]).all()


@pytest.mark.parametrize(("worlds", "spread"), [(3, 1.0), (3, 0.0), (6, 3.0)])
def test_intervals_over_few_worlds_cover_the_truth(worlds: int, spread: float) -> None:
    """With Student's quantile 93 % and more of 600 cover, however much worlds differ."""
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(600):
        values = spread * rng.normal(size=worlds) + rng.normal(size=worlds)
        replicates = values[:, None] + rng.normal(size=(worlds, 200))
        found = over_worlds(values.tolist(), list(replicates))
        covered += found.low <= 0 <= found.high
    assert covered / 600 >= 0.93


def test_one_world_has_the_interval_of_its_users() -> None:
    replicates = np.random.default_rng(0).normal(1, 0.5, 4_000)
    found = over_worlds([1.0], [replicates])
    assert (found.low, found.high) == (pytest.approx(0, abs=0.05), pytest.approx(2, abs=0.05))
    assert found.error == pytest.approx(0.5, rel=0.05)
    assert np.isnan(over_worlds([np.nan], [[np.nan, np.nan]]).error)
