"""Exact rankings of posterior draws for many profiles at once, in plain torch or on a GPU.

The law is that of drawing every item for every profile; how few are drawn, and why that suffices,
is in docs/thompson-proofs.md: a pilot of near items is drawn, its k-th best distance τ bounds what
can still come in, and any other item i is drawn only in an event of a probability above that of
D_i < τ. Here one product gives the expected squared distances m of all items, and events are
decided for all items side by side: by `passes_plain` in a matrix of profiles and items, by
`passes_gpu` tile by tile.

Shapes: R profiles, I items, D dimensions, P items of the pilot, E events, or offsets, X excluded.
"""

from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import TYPE_CHECKING, Final, NamedTuple, Union

import torch
from torch import Tensor
from torch.nn.functional import pad

from slatewise.compiled.gpu import takes_triton
from slatewise.ranking.passes_plain import BLOCK, PlainPasses, Spread

if TYPE_CHECKING:
    from slatewise.ranking.passes_gpu import GpuPasses, PackedTable

PILOT: Final = 256
"""Items that are drawn for every profile, at least."""
_CELLS: Final = {"cpu": 1 << 24, "cuda": 1 << 28}
"""Profiles x items at once."""
_BLOCKS: Final = 1 << 28
"""Profiles x blocks of items at once, where the matrix of profiles and items is not kept."""
_MOST_DIMENSIONS: Final = 128
"""Dimensions of which tiles fit a GPU's shared memory."""
_AGAIN: Final = 32
"""Further items that are looked at in double precision where floats say what the best are."""
_TOGETHER: Final = 512
"""Profiles whose best blocks are looked at together."""
_ROWS: Final = 1 << 16
"""Profiles whose targets are ranked together, tile by tile."""


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
        lengths = centred.square().sum(1, keepdim=True) + self._spread.variance[:, None]
        return torch.cat([-2 * centred, lengths, torch.ones_like(lengths)], 1).T.contiguous()

    @cached_property
    def _spread(self) -> Spread:
        return Spread.of(self.scale)

    @cached_property
    def _packed(self) -> "PackedTable":
        from slatewise.ranking.passes_gpu import PackedTable  # noqa: PLC0415 (asks for Triton)

        return PackedTable.of(self.mean, self.scale, self._spread)

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
        near = k + _most_pairs(exclude, len(profiles)) + _AGAIN
        if added is None and self._tiles(near):
            return self._rank_blocks(profiles, k, exclude, near)
        parts = []
        for rows, pairs in _pieces(profiles, exclude, self._matrix_rows()):
            scores = self._expected(profiles[rows])
            scores[pairs] = torch.inf
            offsets = None
            if added is not None:
                here = added.of_rows(rows)
                offsets = here.of_items.repeat(len(scores), 1)
                offsets[here.pairs] += here.offsets
                scores = scores.clamp(min=0).sqrt_().sub_(offsets)
            found = scores.topk(min(k + _AGAIN, scores.shape[1]), largest=False)
            exact = self._exact(profiles[rows], found.indices)
            if offsets is not None:
                exact = exact.sqrt() - offsets.gather(1, found.indices)
            exact = torch.where(found.values.isfinite(), exact, torch.inf)
            parts.append(_best(exact, found.indices, k))
        return torch.cat(parts)

    def _rank_blocks(
        self, profiles: Tensor, k: int, exclude: tuple[Tensor, Tensor], near: int
    ) -> Tensor:
        """Rank all items of the `near` best blocks, among which those of the k best items are."""
        parts, inside = [], torch.arange(BLOCK, device=profiles.device)
        for rows, pairs in _pieces(profiles, exclude, _TOGETHER):
            passes = self._passes(profiles[rows], tiled=True)
            blocks = (passes.nearest(near) // BLOCK).sort(1).values
            items = (blocks[:, :, None] * BLOCK + inside).flatten(1)
            known = items < len(self.mean)
            items = items.clamp(max=len(self.mean) - 1)
            never = _by_row(pairs, len(items), len(self.mean))
            exact = self._exact(profiles[rows], items)
            exact = exact.masked_fill(~known | _among(items, never), torch.inf)
            # Of items that are alike the lower number comes first, as in `ranks`.
            order = exact.sort(dim=1, stable=True)
            best = items.gather(1, order.indices[:, :k])
            parts.append(best.masked_fill(order.values[:, :k].isinf(), -1))
        return torch.cat(parts)

    def _exact(self, profiles: Tensor, items: Tensor) -> Tensor:
        """Return E D of some items [R, C] in double precision: [R, C]."""
        gaps = profiles[:, None].double() - self.mean[items]
        return gaps.square().sum(2) + self._spread.variance[items]

    def ranks(self, profiles: Tensor, targets: Tensor) -> Tensor:
        """Return where targets [R] stand among all items by the closed form, 1 the nearest: [R].

        Of items that are alike the lower number comes first.
        """
        tiled = self.takes_tiles
        most = _ROWS if tiled else self._matrix_rows()
        ranks = torch.empty_like(targets)
        for start in range(0, len(targets), most):
            rows = slice(start, start + most)
            ranks[rows] = 1 + self._passes(profiles[rows], tiled=tiled).ahead(targets[rows])
        return ranks

    def rank_draws(
        self,
        profiles: Tensor,
        k: int,
        generator: torch.Generator,
        exclude: tuple[Tensor, Tensor],
        pilot: int | None = None,
    ) -> Tensor:
        """Rank for each profile [R, D] in a draw of all items of its own: [R, k]; −1 is no item.

        Of items that are all alike, a pilot of P leaves kI/P to come below its k-th best: by
        default it has as many items as it leaves.
        """
        wanted = pilot or max(PILOT, isqrt(k * len(self.mean)))
        pilot = max(wanted, k + _most_pairs(exclude, len(profiles)))
        tiled = self._tiles(pilot)
        most = max(1, _BLOCKS // self._blocks) if tiled else self._matrix_rows()
        parts = []
        for rows, pairs in _pieces(profiles, exclude, most):
            passes = self._passes(profiles[rows], tiled=tiled)
            never = _by_row(pairs, len(profiles[rows]), len(self.mean))
            parts.append(_rank_drawn(passes, k, generator, never, pilot))
        return torch.cat(parts)

    @property
    def takes_tiles(self) -> bool:
        """Whether passes may go tile by tile, on a GPU and without the matrix of all scores."""
        few = self.mean.shape[1] <= _MOST_DIMENSIONS
        return few and takes_triton(self.mean, self.scale)

    def _tiles(self, wanted: int) -> bool:
        """Return whether passes go tile by tile, of which so many blocks are wanted.

        Of a block they find one item. Where there are too few blocks, the matrix is small.
        """
        return wanted <= self._blocks and self.takes_tiles

    @property
    def _blocks(self) -> int:
        return -(-len(self.mean) // BLOCK)

    def _passes(self, profiles: Tensor, *, tiled: bool) -> "Passes":
        if not tiled:
            near = self._expected(profiles)
            return PlainPasses(self.mean, self.scale, self._spread, profiles, near)
        from slatewise.ranking.passes_gpu import GpuPasses  # noqa: PLC0415 (asks for Triton)

        return GpuPasses(self._packed, profiles)

    def _expected(self, profiles: Tensor) -> Tensor:
        """Return E D of all items up to rounding: [R, I]."""
        centred = profiles - self._centre
        squares = centred.square().sum(1, keepdim=True)
        return torch.cat([centred, torch.ones_like(squares), squares], 1) @ self._columns

    def _matrix_rows(self) -> int:
        """Return for how many profiles scores of all items fit."""
        return max(1, _CELLS[self.mean.device.type] // len(self.mean))


Passes = Union[PlainPasses, "GpuPasses"]


def _rank_drawn(
    passes: Passes, k: int, generator: torch.Generator, never: Tensor, pilot: int
) -> Tensor:
    """Rank a draw of all items for each profile, but those it is never shown [R, X]: [R, k]."""
    keys = torch.empty(4, dtype=torch.int64, device=never.device)
    keys.random_(-(1 << 63), None, generator=generator)
    items = passes.nearest(pilot)  # [R, P]
    drawn = passes.draws(items, keys)  # [R, P] squared distances
    drawn = drawn.masked_fill(_among(items, never), torch.inf)
    limits = drawn.kthvalue(min(k, drawn.shape[1]), dim=1).values  # [R] τ
    late = passes.late(limits, keys)
    counts = torch.bincount(late.row, minlength=len(items))
    slots = torch.arange(len(late.row), device=items.device)
    cell = late.row, slots - (counts.cumsum(0) - counts)[late.row]
    shape = len(items), int(counts.max()) if len(late.row) else 0
    numbers, distances = items.new_zeros(shape), drawn.new_full(shape, torch.inf)
    numbers[cell], distances[cell] = late.item, late.distance
    known = torch.cat([items, never], 1).sort(1).values
    distances = distances.masked_fill(_among(numbers, known), torch.inf)
    return _best(torch.cat([drawn, distances], 1), torch.cat([items, numbers], 1), k)


def _pieces(
    profiles: Tensor, exclude: tuple[Tensor, Tensor], most: int
) -> list[tuple[slice, tuple[Tensor, Tensor]]]:
    """Divide profiles into pieces of no more than `most`; pairs are renumbered."""
    row, item = exclude
    pieces = []
    for start in range(0, len(profiles), most):
        here = (row >= start) & (row < start + most)
        pieces.append((slice(start, start + most), (row[here] - start, item[here])))
    return pieces


def _most_pairs(pairs: tuple[Tensor, Tensor], rows: int) -> int:
    """Return X, how many pairs the profile with the most of them has."""
    return int(torch.bincount(pairs[0], minlength=rows).max()) if len(pairs[0]) else 0


def _by_row(pairs: tuple[Tensor, Tensor], rows: int, num_items: int) -> Tensor:
    """Return the items of each profile in rising order, filled up with `num_items`: [R, X]."""
    order = torch.argsort(pairs[0] * num_items + pairs[1])
    row, item = (part[order] for part in pairs)
    counts = torch.bincount(row, minlength=rows)
    column = torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]
    found = item.new_full((rows, _most_pairs(pairs, rows)), num_items)
    found[row, column] = item
    return found


def _among(items: Tensor, known: Tensor) -> Tensor:
    """Return which items [R, W] are among those known [R, X], which rise: [R, W] bool."""
    if not known.shape[1]:
        return torch.zeros_like(items, dtype=torch.bool)
    at = torch.searchsorted(known, items).clamp(max=known.shape[1] - 1)
    return known.gather(1, at) == items


def _best(distances: Tensor, items: Tensor, k: int) -> Tensor:
    """Return the k items [R, C] of the least distance, nearest first, −1 where there is none."""
    found = distances.topk(min(k, distances.shape[1]), largest=False)
    best = torch.where(found.values.isfinite(), items.gather(1, found.indices), -1)
    missing = k - best.shape[1]
    return pad(best, (0, missing), value=-1) if missing else best
