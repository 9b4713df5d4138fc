"""Exact rankings of posterior draws for many profiles at once, in plain torch on any device.

The law is that of drawing every item for every profile; how few are drawn, and why that suffices,
is in docs/thompson-proofs.md: a pilot of near items is drawn, its k-th best distance τ bounds what
can still come in, and any other item i is drawn only in an event of a probability above that of
D_i < τ. Here one matrix product gives the expected squared distances m of all items, and events
are decided for all items side by side. A GPU is limited by how often the R x I matrix is read and
written: the product is the whole of m, the pilot comes from the best items of blocks, which is
one look at it and not a sort, and the bounds are one compiled pass.

Shapes: R profiles, I items, D dimensions, P items of the pilot, E events, or offsets.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

import torch
from torch import Tensor

PILOT: Final = 256
"""Items that are drawn for every profile, at least."""
_BLOCK: Final = 64
"""Items of which the nearest may be one of the pilot; the others have their chance later."""
_CELLS: Final = {"cpu": 1 << 24, "cuda": 1 << 30}
"""Profiles x items at once."""
_BITS: Final = 24
"""Events have probabilities in multiples of 2^−24, rounded up: a whole number decides exactly."""
_AGAIN: Final = 32
"""Further items that are looked at in double precision where floats say what the best are."""


class BatchedAdditions(NamedTuple):
    """What is added to −√E D: to every item, and to a few for each profile."""

    of_items: Tensor
    """[I]"""
    pairs: tuple[Tensor, Tensor]
    """[E] each: profiles and items, no pair twice"""
    offsets: Tensor
    """[E] what is added to these"""

    def of_rows(self, rows: slice) -> "BatchedAdditions":
        """Return those of some profiles, which are renumbered."""
        row, item = self.pairs
        here = (row >= rows.start) & (row < rows.stop)
        return BatchedAdditions(
            self.of_items, (row[here] - rows.start, item[here]), self.offsets[here]
        )


@dataclass(frozen=True)
class BatchedTable:
    """The posterior of the vectors of all items: v ~ N(mean, diag scale²)."""

    mean: Tensor
    """[I, D]"""
    scale: Tensor
    """[I, D]"""

    @cached_property
    def _centre(self) -> Tensor:
        """[D] around which products lose the fewest digits."""
        return self.mean.mean(0)

    @cached_property
    def _columns(self) -> Tensor:
        """[D + 2, I] whose product with (z, 1, ‖z‖²) is E D, in one pass."""
        centred = self.mean - self._centre
        lengths = centred.square().sum(1, keepdim=True) + self._variance[:, None]
        return torch.cat([-2 * centred, lengths, torch.ones_like(lengths)], 1).T.contiguous()

    @cached_property
    def _variance(self) -> Tensor:
        """[I] Σσ²: E D = ‖z − μ‖² + Σσ²."""
        return self.scale.square().sum(1)

    @cached_property
    def _spread(self) -> tuple[Tensor, Tensor]:
        """[I] each: Var D ≤ 2 Σσ⁴ + 4 max σ² · ‖z − μ‖², as the first and the second factor."""
        squares = self.scale.square()
        return 2 * squares.square().sum(1), 4 * squares.amax(1)

    def rank_means(
        self,
        profiles: Tensor,
        k: int,
        exclude: tuple[Tensor, Tensor],
        added: BatchedAdditions | None = None,
    ) -> Tensor:
        """Rank by −√(‖z − μ‖² + Σσ²), the closed form that predictions use: [R, D] -> [R, k].

        `exclude` are pairs of a profile and an item that it is not shown.
        """
        parts = []
        for rows, pairs in self._blocks(profiles, exclude):
            near = self._expected(profiles[rows], pairs)
            offsets = None
            if added is not None:
                here = added.of_rows(rows)
                offsets = here.of_items.repeat(len(near), 1)
                offsets[here.pairs] += here.offsets
                near = near.clamp(min=0).sqrt_().sub_(offsets)
            found = near.topk(min(k + _AGAIN, near.shape[1]), largest=False)
            gaps = profiles[rows, None].double() - self.mean[found.indices]
            exact = gaps.square().sum(2) + self._variance[found.indices]
            if offsets is not None:
                exact = exact.sqrt() - offsets.gather(1, found.indices)
            exact = torch.where(found.values.isfinite(), exact, torch.inf)
            parts.append(_best(exact, found.indices, k))
        return torch.cat(parts)

    def rank_draws(
        self,
        profiles: Tensor,
        k: int,
        generator: torch.Generator,
        exclude: tuple[Tensor, Tensor],
        pilot: int = PILOT,
    ) -> Tensor:
        """Rank for each profile [R, D] in a draw of all items of its own: [R, k]; −1 is no item."""
        parts = []
        for rows, pairs in self._blocks(profiles, exclude):
            parts.append(self._rank_drawn(profiles[rows], k, generator, pairs, max(pilot, k)))
        return torch.cat(parts)

    def _rank_drawn(
        self,
        profiles: Tensor,
        k: int,
        generator: torch.Generator,
        exclude: tuple[Tensor, Tensor],
        pilot: int,
    ) -> Tensor:
        near = self._expected(profiles, exclude)  # [R, I]
        values, items = _pilot(near, pilot)  # [R, P]
        drawn = self._draw(profiles, items, generator)  # [R, P] squared distances
        drawn = torch.where(values.isfinite(), drawn, torch.inf)
        least = drawn.kthvalue(min(k, drawn.shape[1]), dim=1).values  # [R] τ
        near.scatter_(1, items, torch.inf)
        row, item, distance = self._events(profiles, near, least, generator)
        # As many columns as the profile with most events needs.
        order = torch.argsort(row, stable=True)
        row, item, distance = row[order], item[order], distance[order]
        counts = torch.bincount(row, minlength=len(profiles))
        column = torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]
        width = int(counts.max()) if len(row) else 0
        late = drawn.new_full((len(profiles), width), torch.inf)
        names = items.new_zeros((len(profiles), width))
        late[row, column], names[row, column] = distance, item
        return _best(torch.cat([drawn, late], 1), torch.cat([items, names], 1), k)

    def _expected(self, profiles: Tensor, exclude: tuple[Tensor, Tensor]) -> Tensor:
        """Return E D of all items up to rounding, infinite where excluded: [R, I]."""
        centred = profiles - self._centre
        squares = centred.square().sum(1, keepdim=True)
        near = torch.cat([centred, torch.ones_like(squares), squares], 1) @ self._columns
        near[exclude] = torch.inf
        return near

    def _draw(self, profiles: Tensor, items: Tensor, generator: torch.Generator) -> Tensor:
        """Draw the vectors of items [R, P], and return their squared distances: [R, P]."""
        shape = (*items.shape, profiles.shape[1])
        noise = torch.randn(shape, generator=generator, device=profiles.device)
        gaps = profiles[:, None] - self.mean[items] - self.scale[items] * noise
        return gaps.double().square().sum(2)

    def _events(
        self, profiles: Tensor, near: Tensor, least: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Draw which items come below τ [R], and where: profiles [E], items [E], distances [E]."""
        chances = self._chances(near, least)
        coins = torch.empty_like(chances).random_(0, 1 << _BITS, generator=generator)
        row, item = torch.nonzero(coins < chances, as_tuple=True)
        chance = chances[row, item].double() / (1 << _BITS)
        limit, own = least[row].double(), self.scale[item].double().square()  # [E], [E, D]
        gaps = (profiles[row] - self.mean[item]).double()
        squared = gaps.square().sum(1)
        fourth, greatest = (part[item].double() for part in self._spread)
        expected = squared + own.sum(1)
        # The tilted draw: D is drawn by p(v) e^(−λD), of which little is rejected.
        tilt = (expected - limit).clamp(min=0) / (fourth + greatest * squared).clamp(min=1e-30)
        wider = 1 + 2 * tilt[:, None] * own
        moment = (0.5 * wider.log() + tilt[:, None] * gaps.square() / wider).sum(1)
        below = tilt * limit - moment - chance.log()
        shape = {"generator": generator, "device": row.device, "dtype": torch.float64}
        noise = torch.randn(gaps.shape, **shape)  # type: ignore[call-overload]
        distance = (gaps / wider + (own / wider).sqrt() * noise).square().sum(1)
        first, second = (torch.rand(len(row), **shape).log() for _ in range(2))  # type: ignore[call-overload]
        kept = (first < below) & (distance < limit) & (second < tilt * (distance - limit))
        return row[kept], item[kept], distance[kept]

    def _chances(self, near: Tensor, least: Tensor) -> Tensor:
        """Return 2^24 times the bounds of P(D < τ), rounded up: [R, I]."""
        bounds = _compiled_bounds() if near.device.type == "cuda" else _bounds
        return bounds(near, least.float(), self._variance, *self._spread)

    def _blocks(
        self, profiles: Tensor, exclude: tuple[Tensor, Tensor]
    ) -> list[tuple[slice, tuple[Tensor, Tensor]]]:
        """Divide profiles so that scores of all items fit; pairs are renumbered."""
        most = max(1, _CELLS[profiles.device.type] // len(self.mean))
        row, item = exclude
        blocks = []
        for start in range(0, len(profiles), most):
            here = (row >= start) & (row < start + most)
            blocks.append((slice(start, start + most), (row[here] - start, item[here])))
        return blocks


def _pilot(near: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return about the nearest items of each row [R, I], and how near they are: [R, P] each.

    Which items are in a pilot does not change the law of what comes out.
    """
    rows, size = near.shape
    blocks = size // _BLOCK
    if blocks <= count:
        found = near.topk(min(count, size), largest=False)
        return found.values, found.indices
    cut = blocks * _BLOCK  # the last few items are left to their chances
    value, inside = near[:, :cut].view(rows, blocks, _BLOCK).min(2)
    best = value.topk(count, largest=False)
    return best.values, best.indices * _BLOCK + inside.gather(1, best.indices)


def _bounds(
    near: Tensor, least: Tensor, variance: Tensor, fourth: Tensor, greatest: Tensor
) -> Tensor:
    """Return 2^24 · exp(−(m − τ)² / 2v̄), rounded up: [R, I].

    Rounding in m is allowed for on both sides, so that these stay bounds.
    """
    beyond = (near * (1 - 1e-5) - 2e-4 - least[:, None]).clamp(min=0)
    spread = ((near * (1 + 1e-5) + 2e-4 - variance).clamp(min=0) * greatest + fourth).clamp(
        min=1e-30
    )
    bound = torch.exp(-beyond * beyond / (2 * spread))
    # Infinity over infinity: what is excluded has no chance.
    return torch.where(near < torch.inf, bound * (1 << _BITS), 0.0).ceil().int()


@lru_cache(maxsize=1)
def _compiled_bounds() -> Callable[..., Tensor]:
    return torch.compile(_bounds, dynamic=True)


def _best(distances: Tensor, items: Tensor, k: int) -> Tensor:
    """Return the k items [R, C] of the least distance, nearest first, −1 where there is none."""
    found = distances.topk(min(k, distances.shape[1]), largest=False)
    best = torch.where(found.values.isfinite(), items.gather(1, found.indices), -1)
    missing = k - best.shape[1]
    return torch.nn.functional.pad(best, (0, missing), value=-1) if missing else best
