"""Noise by counters: the same for a counter whatever is asked for beside it, and normal."""

import math

import numpy as np
import torch

from slatewise.model.noise import KeyedNoise, distinct, normals, uniforms

KEY = torch.tensor([0x0123_4567_89AB_CDEF])


def bits(counter: int) -> int:
    """SplitMix64, in Python's integers."""
    mask = (1 << 64) - 1
    value = (int(KEY) + counter * 0x9E3779B97F4A7C15) & mask
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & mask
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & mask
    return value ^ (value >> 31)


def test_a_counter_has_its_number_by_hand() -> None:
    found = normals(KEY, 5, (40,))
    for counter, number in enumerate(found.tolist(), start=5):
        high, low = bits(counter) >> 32, bits(counter) & 0xFFFFFFFF
        radius = math.sqrt(-2 * math.log((high + 0.5) / 2**32))
        assert abs(number - radius * math.cos(2 * math.pi * low / 2**32)) < 1e-5
    expected = [(bits(counter) >> 40) / 2**24 for counter in range(3, 9)]
    assert uniforms(KEY, 3, 6).tolist() == expected


def test_parts_take_counters_in_turn() -> None:
    noise = KeyedNoise(KEY, 10)
    first, between, last = noise.normals((2, 3)), noise.uniforms(4), noise.normals((5,))
    assert torch.equal(first.flatten(), normals(KEY, 10, (6,)))
    assert torch.equal(between, uniforms(KEY, 16, 4))
    assert torch.equal(last, normals(KEY, 20, (5,)))


def test_numbers_are_normal_and_keys_are_independent() -> None:
    """Of 100,000, moments are off by five standard errors at most."""
    one, other = normals(KEY, 0, (100_000,)).double(), normals(KEY + 1, 0, (100_000,)).double()
    error = 5 / math.sqrt(100_000)
    assert abs(float(one.mean())) < error
    assert abs(float(one.var()) - 1) < error * math.sqrt(2)
    assert abs(float((one**4).mean()) - 3) < error * math.sqrt(96)
    assert abs(np.corrcoef(one.numpy(), other.numpy())[0, 1]) < error
    assert abs(np.corrcoef(one.numpy()[:-1], one.numpy()[1:])[0, 1]) < error


def test_different_numbers_are_drawn_uniformly() -> None:
    """Of 2,000 draws: each number as often as by chance, and so are two neighbours together."""
    count, size, draws = 20, 700, 2_000
    seen, beside = torch.zeros(size), 0
    for number in range(draws):
        drawn = distinct(KEY + number, 3, count, size).sort().values
        assert int(drawn[0]) >= 0
        assert int(drawn[-1]) < size
        gaps = drawn.diff()
        assert int(gaps.min()) > 0
        seen[drawn] += 1
        beside += int((gaps == 1).sum())
    expected = draws * count / size
    chi_square = float((seen - expected).square().sum()) / expected / (1 - count / size)
    assert abs(chi_square - size) < 5 * math.sqrt(2 * size)
    pairs = draws * count * (count - 1) / size
    assert abs(beside - pairs) < 5 * math.sqrt(pairs)
    for few, many in ((1, 2), (4, 5), (1_024, 1_025)):
        assert len(distinct(KEY, 0, few, many).unique()) == few
