"""Passes over all items for many profiles, in plain torch: what those of a GPU are tested against.

They hold the matrix of all profiles and items. Noise is counted by profile and item, so that these
passes and those of `passes_gpu` draw the same.

Shapes: R profiles, I items, D dimensions, P items of the pilot, E events.
"""

from typing import Final, NamedTuple

import torch
from torch import Tensor

from slatewise.compiled.splitmix import log_uniforms_of, mixed, normals_of, shifted

BITS: Final = 24
"""Events have probabilities in multiples of 2^−24, rounded up: a whole number decides exactly."""
BLOCK: Final = 64
"""Items of which the nearest may be one of the pilot; the others have their chance later."""


class Spread(NamedTuple):
    """Three numbers of each item: Var D ≤ fourth + greatest · ‖z − μ‖²."""

    variance: Tensor
    """[I] Σσ²: E D = ‖z − μ‖² + Σσ²"""
    fourth: Tensor
    """[I] 2 Σσ⁴"""
    greatest: Tensor
    """[I] 4 max σ²"""

    @classmethod
    def of(cls, scale: Tensor) -> "Spread":
        """Take the scales of all items: [I, D]."""
        squares = scale.square()
        return cls(squares.sum(1), 2 * squares.square().sum(1), 4 * squares.amax(1))


class Late(NamedTuple):
    """Items that come below the τ of a profile, by profile."""

    row: Tensor
    """[E] profiles, in rising order"""
    item: Tensor
    """[E]"""
    distance: Tensor
    """[E] the squared distance"""


class PlainPasses:
    """Passes of R profiles over a matrix of all items."""

    def __init__(
        self, mean: Tensor, scale: Tensor, spread: Spread, profiles: Tensor, near: Tensor
    ) -> None:
        """Take the expected squared distances [R, I] of profiles [R, D]."""
        self._mean, self._scale, self._spread = mean, scale, spread
        self._profiles, self._near = profiles, near

    def nearest(self, count: int) -> Tensor:
        """Return about the nearest items of each profile: [R, P].

        Which items are in a pilot does not change the law of what comes out.
        """
        rows, size = self._near.shape
        blocks = size // BLOCK
        if blocks <= count:
            return self._near.topk(min(count, size), largest=False).indices
        cut = blocks * BLOCK  # the last few items are left to their chances
        value, inside = self._near[:, :cut].view(rows, blocks, BLOCK).min(2)
        best = value.topk(count, largest=False).indices
        return best * BLOCK + inside.gather(1, best)

    def ahead(self, targets: Tensor) -> Tensor:
        """Return how many items are nearer to each profile than its target [R]: [R].

        Of two that are alike it is the one of the lower number.
        """
        own, numbers = self._near.gather(1, targets[:, None]), torch.arange(self._near.shape[1])
        alike = (self._near == own) & (numbers.to(targets) < targets[:, None])
        return ((self._near < own) | alike).sum(1)

    def draws(self, items: Tensor, keys: Tensor) -> Tensor:
        """Draw the vectors of items [R, P], and return their squared distances: [R, P]."""
        row = torch.arange(len(items), device=items.device)[:, None]
        noise = self._noise(row, items, keys)
        gaps = (self._profiles[:, None] - self._mean[items]).double()
        return (gaps - self._scale[items].double() * noise).square().sum(2)

    def late(self, limits: Tensor, keys: Tensor) -> Late:
        """Draw which items come below τ [R], and where; those of the pilot are among them."""
        size = self._near.shape[1]
        row, item = (torch.arange(count, device=limits.device) for count in self._near.shape)
        chances = bounds(self._near, limits.float(), self._spread)
        coins = shifted(mixed(keys[0], row[:, None] * size + item), 64 - BITS)
        row, item = torch.nonzero(coins < chances, as_tuple=True)
        distance = self._tilted(row, item, chances[row, item], limits, keys)
        kept = distance.isfinite()
        return Late(row[kept], item[kept], distance[kept])

    def _tilted(
        self, row: Tensor, item: Tensor, chance: Tensor, limits: Tensor, keys: Tensor
    ) -> Tensor:
        """Draw the distances of events by p(v) e^(−λD), infinite where one is rejected: [E]."""
        limit, own = limits[row].double(), self._scale[item].double().square()  # [E], [E, D]
        gaps = (self._profiles[row] - self._mean[item]).double()
        squared = gaps.square().sum(1)
        _, fourth, greatest = (part[item].double() for part in self._spread)
        beyond = (squared + own.sum(1) - limit).clamp(min=0)
        tilt = beyond / (fourth + greatest * squared).clamp(min=1e-30)
        wider = 1 + 2 * tilt[:, None] * own
        moment = (0.5 * wider.log() + tilt[:, None] * gaps.square() / wider).sum(1)
        below = tilt * limit - moment - (chance.double() / (1 << BITS)).log()
        noise = self._noise(row, item, keys)
        distance = (gaps / wider + (own / wider).sqrt() * noise).square().sum(1)
        pair = row * len(self._mean) + item
        first, second = (log_uniforms_of(mixed(key, pair)) for key in keys[2:])
        kept = (first < below) & (distance < limit) & (second < tilt * (distance - limit))
        return torch.where(kept, distance, torch.inf)

    def _noise(self, row: Tensor, item: Tensor, keys: Tensor) -> Tensor:
        """Return standard normals for pairs of profiles and items [...]: [..., D]."""
        size, dims = self._mean.shape
        pair = (row * size + item)[..., None]
        return normals_of(mixed(keys[1], pair * dims + torch.arange(dims, device=row.device)))


def bounds(near: Tensor, least: Tensor, spread: Spread) -> Tensor:
    """Return 2^24 · exp(−(m − τ)² / 2v̄), rounded up: [R, I].

    Rounding in m is allowed for on both sides, so that these stay bounds.
    """
    beyond = (near * (1 - 1e-5) - 2e-4 - least[:, None]).clamp(min=0)
    off = (near * (1 + 1e-5) + 2e-4 - spread.variance).clamp(min=0)
    wide = (off * spread.greatest + spread.fourth).clamp(min=1e-30)
    return torch.exp(-beyond * beyond / (2 * wide)).mul_(1 << BITS).ceil_().int()
