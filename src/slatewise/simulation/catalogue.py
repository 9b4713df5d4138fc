"""What the platform knows about its items: their groups, and how often each is exposed."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from slatewise.simulation.arrays import Bools, Doubles, Ints
from slatewise.simulation.config import CatalogueConfig


@dataclass(frozen=True)
class Catalogue:
    """Items in groups of skewed sizes, with Zipf-skewed exposure inside each group.

    An item's index is its id and says nothing of its group or exposure. Holds no truth about
    preferences: policies may look at all of it.
    """

    group: Ints  # [I]
    members: Ints  # [I], the items by group and, within a group, most exposed first
    start: Ints  # [G + 1], where each group begins in `members`
    skew: float

    @classmethod
    def generate(cls, config: CatalogueConfig, rng: np.random.Generator) -> Self:
        """Draw which items belong to which group."""
        weight = np.arange(1, config.groups + 1) ** -config.group_skew  # [G]
        spare = config.items - config.groups
        size = 1 + np.floor(spare * weight / weight.sum()).astype(np.int64)  # [G]
        size[0] += config.items - size.sum()
        size = rng.permutation(size)
        members = rng.permutation(config.items)  # [I]
        group = np.empty(config.items, dtype=np.int64)
        group[members] = np.repeat(np.arange(config.groups), size)
        start = np.concatenate([[0], np.cumsum(size)])
        return cls(group, members, start, config.exposure_skew)

    @property
    def items(self) -> int:
        """Number of items, I."""
        return len(self.group)

    @property
    def groups(self) -> int:
        """Number of groups, G."""
        return len(self.start) - 1

    @cached_property
    def exposure(self) -> Doubles:
        """Probability of each item in `draw`, [I]."""
        size = np.diff(self.start)
        n = np.repeat(size, size)  # [I], in the order of `members`
        rank = np.arange(self.items) - np.repeat(self.start[:-1], size)
        exposure = np.empty(self.items)
        below = _zipf_cdf(rank, n, self.skew)
        exposure[self.members] = (_zipf_cdf(rank + 1, n, self.skew) - below) * n / self.items
        return exposure

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Ints:
        """Draw items from the whole catalogue by exposure; groups in proportion to their size."""
        return self.draw_in(self.draw_groups(shape, rng), rng)

    def draw_groups(self, shape: tuple[int, ...], rng: np.random.Generator) -> Ints:
        """Draw groups in proportion to their size: the group of a uniformly drawn item."""
        return self.group[rng.integers(self.items, size=shape)]

    def draw_in(self, groups: Ints, rng: np.random.Generator) -> Ints:
        """Draw one item by exposure from each of `groups`, an array of any shape."""
        first = self.start[groups]
        size = self.start[groups + 1] - first
        rank = zipf_quantile(rng.random(groups.shape), size, self.skew)
        return np.asarray(self.members[first + rank])

    def complete(self, items: Ints, k: int, rng: np.random.Generator) -> Ints:
        """Return slates [B, k] of the first k distinct items in each row of `items` [B, C].

        −1 stands for none. What is missing is drawn by exposure and, where that does not suffice,
        uniformly, which ends surely because k ≤ I.
        """
        slates = compact(items, k)
        short = np.flatnonzero(slates[:, -1] < 0)
        if len(short):
            fresh = self.draw((len(short), 2 * k), rng)
            slates[short] = compact(np.hstack([slates[short], fresh]), k)
            short = short[slates[short, -1] < 0]
        while len(short):
            fresh = rng.integers(self.items, size=(len(short), 2 * k))
            slates[short] = compact(np.hstack([slates[short], fresh]), k)
            short = short[slates[short, -1] < 0]
        return slates


def repeated(items: Ints) -> Bools:
    """Mark the entries of `items` [B, C] that an earlier column of their row holds already."""
    columns = items.shape[1]
    # One integer sort per row, item and column packed together, is faster than a stable argsort.
    packed = np.sort(items * columns + np.arange(columns), axis=1)  # [B, C]
    item, column = np.divmod(packed, columns)
    again = item[:, 1:] == item[:, :-1]  # [B, C − 1]
    mask = np.zeros(items.shape, dtype=np.bool_)
    row, index = np.nonzero(again)
    mask[row, column[row, index + 1]] = True
    return mask


def compact(items: Ints, k: int) -> Ints:
    """Return the first k distinct items of each row of [B, C], and −1 where there are fewer."""
    absent = (items < 0) | repeated(items)
    order = np.argsort(absent, axis=1, kind="stable")[:, :k]
    kept = np.take_along_axis(np.where(absent, -1, items), order, axis=1)
    missing = k - kept.shape[1]
    return np.pad(kept, ((0, 0), (0, missing)), constant_values=-1) if missing > 0 else kept


def _zipf_cdf(rank: Ints, size: Ints, skew: float) -> Doubles:
    """Probability that a draw from `size` items has a rank (from 0) below `rank`.

    The density (1 + x)^−skew on [0, size), cut at the integers: Zipf up to rounding, and with an
    inverse in closed form, so that 10⁹ draws need no tables and no binary searches.
    """
    x, n = np.log1p(rank), np.log1p(size)
    if skew == 1:
        return np.asarray(x / n)
    return np.asarray(np.expm1((1 - skew) * x) / np.expm1((1 - skew) * n))


def zipf_quantile(u: Doubles, size: Ints, skew: float) -> Ints:
    """Return the rank at which `_zipf_cdf` passes u."""
    if skew == 1:
        x = (1.0 + size) ** u - 1
    else:
        x = (1 + u * ((1.0 + size) ** (1 - skew) - 1)) ** (1 / (1 - skew)) - 1
    # Rounding may reach `size` itself when u is next to 1.
    return np.minimum(x.astype(np.int64), size - 1)
