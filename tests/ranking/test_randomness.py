import math

import numpy as np

from slatewise.compiled.compilation import compiled
from slatewise.compiled.lanes import random_lanes, store
from slatewise.ranking.loops.randomness import normal, uniform


def state() -> np.ndarray:
    return np.random.SeedSequence(1).generate_state(4, np.uint64)


@compiled
def _fill_normal(state, values):  # noqa: ANN001, ANN202
    for index in range(len(values)):
        values[index] = normal(state)


@compiled
def _fill_uniform(state, values):  # noqa: ANN001, ANN202
    for index in range(len(values)):
        values[index] = uniform(state)


@compiled
def _fill_lanes(values, one, other):  # noqa: ANN001, ANN202
    for at in range(0, len(values), 16):
        store(values, at, random_lanes(at, one, other))


def distance(values: np.ndarray, shares: np.ndarray) -> float:
    """Return Kolmogorov and Smirnov's statistic of ordered values with these true shares below."""
    count = len(values)
    return float(np.abs(shares - (np.arange(count) + 0.5) / count).max() * math.sqrt(count))


def test_normal_numbers_have_the_normal_law_into_the_tails() -> None:
    values = np.empty(2_000_000)
    _fill_normal(state(), values)
    values.sort()
    shares = np.array([math.erfc(-x / math.sqrt(2)) / 2 for x in values[::20]])
    assert distance(values[::20], shares) < 2.3 / math.sqrt(20) + 1e-3 * math.sqrt(len(shares))
    assert abs(np.mean(values**4) - 3) < 5 * math.sqrt(96 / len(values))
    for edge in (3.6541528853610088, 4.5):  # the base of the ziggurat, and beyond it
        wanted = len(values) * math.erfc(edge / math.sqrt(2))
        assert abs((np.abs(values) > edge).sum() - wanted) < 5 * math.sqrt(wanted)


def test_uniform_numbers_are_uniform_with_53_bits() -> None:
    values = np.empty(500_000)
    _fill_uniform(state(), values)
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 5 / math.sqrt(len(values))
    assert ((values * 2**53) % 2**21 != 0).mean() > 0.99
    values.sort()
    assert distance(values, values) < 2.3


def test_numbers_of_items_are_uniform_and_independent_of_the_next_and_of_other_keys() -> None:
    keys = np.random.SeedSequence(5).generate_state(4, np.uint32).view(np.int32)
    one, other = np.empty(1 << 20, np.float32), np.empty(1 << 20, np.float32)
    _fill_lanes(one, keys[0], keys[1])
    _fill_lanes(other, keys[2], keys[3])
    limit = 5 / math.sqrt(len(one))
    assert abs(np.corrcoef(one, other)[0, 1]) < limit
    assert abs(np.corrcoef(one[:-1], one[1:])[0, 1]) < limit
    assert abs(np.corrcoef(one[:-16], one[16:])[0, 1]) < limit
    for share in (0.5, 1e-2, 1e-4):
        wanted = len(one) * share
        assert abs((one < share).sum() - wanted) < 5 * math.sqrt(wanted)
    ordered = np.sort(one).astype(float)
    assert distance(ordered, ordered) < 2.3
