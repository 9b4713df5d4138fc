"""Noise that is counted: a normal for each number, from a key, and no stream to keep in step.

A step of training on a GPU makes the noise of an item anew where it needs it again, from its key.
Numbers are those of `compiled.splitmix`.
"""

import math

import torch
from torch import Tensor

from slatewise.compiled.gpu import takes_triton
from slatewise.compiled.splitmix import mixed, normals_of


def normals(key: Tensor, first: int, shape: tuple[int, ...]) -> Tensor:
    """Return the normals of counters from `first` on, for a key [1] int64, where the key is."""
    if takes_triton(key):
        from slatewise.model.kernels.gpu import parts  # noqa: PLC0415

        return parts.normals(key, first, shape)
    count = math.prod(shape)
    bits = mixed(key, torch.arange(first, first + count, device=key.device))
    return normals_of(bits).view(shape)


def uniforms(key: Tensor, first: int, count: int) -> Tensor:
    """Return numbers between 0 and 1, of 24 bits, for counters from `first` on: [count]."""
    bits = mixed(key, torch.arange(first, first + count, device=key.device))
    return ((bits >> 40) & 0xFFFFFF).to(torch.float32) * 2.0**-24


_ROUNDS = 4


def distinct(key: Tensor, first: int, count: int, size: int) -> Tensor:
    """Return `count` different numbers below `size`, drawn uniformly: [count].

    They are the first that a permutation, drawn by the key, puts below `size`. It permutes numbers
    of as many bits as `size` needs, by odd factors and shifts, which can both be undone: sorting
    uniforms of a whole catalogue instead took a third of a millisecond.
    """
    bits = max(1, (size - 1).bit_length())
    mask, half = (1 << bits) - 1, (bits + 1) // 2
    # More than half of all numbers are below the size: so many hold enough but once in 2^64 times.
    tried = min(1 << bits, 4 * count + 64)
    numbers = torch.arange(tried, device=key.device)
    drawn = mixed(key, torch.arange(first, first + 2 * _ROUNDS, device=key.device))
    factors, shifts = (drawn & mask).view(2, _ROUNDS)
    for round_ in range(_ROUNDS):
        numbers = (numbers * (factors[round_] | 1) + shifts[round_]) & mask
        numbers = numbers ^ (numbers >> half)
    fits = numbers < size
    index = torch.where(fits, fits.cumsum(0) - 1, count).clamp(max=count)
    found = numbers.new_zeros(count + 1).scatter_(0, index, numbers)
    return found[:count]


class KeyedNoise:
    """The noise of one step, part after part: each takes the next counters."""

    def __init__(self, key: Tensor, first: int) -> None:
        self.key, self._next = key, first

    def normals(self, shape: tuple[int, ...]) -> Tensor:
        """Return standard normals of a shape."""
        return normals(self.key, self._taken(math.prod(shape)), shape)

    def uniforms(self, count: int) -> Tensor:
        """Return numbers between 0 and 1: [count]."""
        return uniforms(self.key, self._taken(count), count)

    def distinct(self, count: int, size: int) -> Tensor:
        """Return different numbers below a size: [count]."""
        return distinct(self.key, self._taken(2 * _ROUNDS), count, size)

    def _taken(self, count: int) -> int:
        first, self._next = self._next, self._next + count
        return first
