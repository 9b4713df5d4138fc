"""Passes over all items for many profiles on a GPU, in Triton, without the matrix in between.

Each pass works the expected squared distances m = ‖z − μ‖² + Σσ² out anew, tile by tile, and keeps
what little is asked of it: the nearest item of every block, how many items are nearer than one, or
the items whose coins say that they may come below τ. Written to memory, the R x I matrix of one
file of users would be terabytes.

Products are of three tf32 parts, nearly as exact as float32; bounds allow for their rounding, and
distances are worked out again in double precision.

Shapes: R profiles, I items, D dimensions, DP columns of a packed row, B blocks of items, P items of
the pilot, E events, S slots in which events are written down.
"""

from dataclasses import dataclass
from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad

from slatewise.compiled.gpu_noise import log_uniform, mixed, normal
from slatewise.ranking.passes_plain import BLOCK, Late, Spread

_ROWS: Final = 64
"""Profiles of a tile."""
_TILES: Final = 32
"""Tiles of items that a program goes through with its profiles."""
_SAMPLED: Final = 1_024
"""Blocks of items, of all, whose events say how many slots a profile takes."""
_SLOTS_OF_PROGRAM: Final = 32
_COMPARED: Final = 1 << 22
"""Pairs of profiles and items that are compared in double precision together."""
FAR: Final = 1e15
"""The expected squared distance of an item that is not there."""


@triton.jit
def _tile(profiles, squares, rows, lengths, row, item, R, DP: tl.constexpr):
    """Return m of a tile of profiles and items: [BM, BN]."""
    column = tl.arange(0, DP)
    there = row < R
    z = tl.load(profiles + row[:, None] * DP + column[None, :], mask=there[:, None], other=0.0)
    own = tl.load(squares + row, mask=there, other=0.0)
    vectors = tl.load(rows + item[:, None] * DP + column[None, :])
    products = tl.dot(z, tl.trans(vectors), input_precision="tf32x3")
    return products + (own[:, None] + tl.load(lengths + item)[None, :])


@triton.jit
def _nearest_kernel(
    profiles, squares, rows, lengths, values, inside, R, blocks, TILES: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, DP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    first = tl.program_id(1) * TILES
    for block in range(first, min(first + TILES, blocks)):
        item = block * BN + tl.arange(0, BN)
        m = _tile(profiles, squares, rows, lengths, row, item, R, DP)
        value, index = tl.min(m, 1, return_indices=True)
        at = (tl.zeros([BM], tl.int64) + block) * R + row  # past 2³¹ cells
        tl.store(values + at, value, mask=row < R)
        tl.store(inside + at, index.to(tl.int8), mask=row < R)


@triton.jit
def _ahead_kernel(
    profiles, squares, rows, lengths, limits, starts, items, counts, close, R, I, blocks,
    TILES: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, DP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    limit = tl.load(limits + row, mask=row < R, other=0.0)[:, None]
    start = tl.load(starts + row, mask=row < R, other=0)
    end = tl.load(starts + row + 1, mask=row < R, other=0)
    first = tl.program_id(1) * TILES
    count = tl.zeros([BM], tl.int32)
    for block in range(first, min(first + TILES, blocks)):
        item = block * BN + tl.arange(0, BN)
        m = _tile(profiles, squares, rows, lengths, row, item, R, DP)
        less = m * (1 + 1e-5) + 2e-4 < limit
        count += tl.sum(less.to(tl.int32), 1)
        found = (m * (1 - 1e-5) - 2e-4 <= limit) & (~less) & (item < I)[None, :]
        _write_down(found & (row < R)[:, None], row, item, start, end, items, close, R)
    tl.atomic_add(counts + row, count, mask=row < R, sem="relaxed")


@triton.jit
def _write_down(found, row, item, start, end, items, counts, R):
    """Write items that were found into slots of their profiles; return slots, and which fit.

    They are counted also where no slot is left: that says how many it takes.
    """
    ones = found.to(tl.int32)
    many = tl.sum(ones, 1)
    at = start[:, None] + tl.cumsum(ones, 1) - 1
    fits = found & (at < 0)
    if tl.sum(many) > 0:
        base = tl.atomic_add(counts + row, many, mask=(many > 0) & (row < R), sem="relaxed")
        at += base[:, None]
        fits = found & (at < end[:, None])
        tl.store(items + at, tl.broadcast_to(item[None, :], found.shape), mask=fits)
    return at, fits


@triton.jit
def _coins_kernel(
    profiles, squares, rows, lengths, variance, fourth, greatest, limits, keys, starts, items,
    chances, counts, R, I, blocks, stride, TILES: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, DP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    limit = tl.load(limits + row, mask=row < R, other=0.0)
    start = tl.load(starts + row, mask=row < R, other=0)
    end = tl.load(starts + row + 1, mask=row < R, other=0)
    key = tl.load(keys)
    first = tl.program_id(1) * TILES
    for block in range(first, min(first + TILES, blocks)):
        item = block * stride * BN + tl.arange(0, BN)
        m = _tile(profiles, squares, rows, lengths, row, item, R, DP)
        beyond = tl.maximum(m * (1 - 1e-5) - 2e-4 - limit[:, None], 0.0)
        off = tl.maximum(m * (1 + 1e-5) + 2e-4 - tl.load(variance + item)[None, :], 0.0)
        spread = off * tl.load(greatest + item)[None, :] + tl.load(fourth + item)[None, :]
        ratio = tl.minimum(beyond * tl.rsqrt(2.0 * tl.maximum(spread, 1e-30)), 100.0)
        bound = tl.exp(-ratio * ratio)
        chance = tl.ceil(bound * 16777216.0).to(tl.int32)
        pair = row[:, None].to(tl.int64) * I + item[None, :]
        coin = (mixed(key, pair) >> 40).to(tl.int32)
        found = (coin < chance) & (row < R)[:, None] & (item < I)[None, :]
        at, fits = _write_down(found, row, item, start, end, items, counts, R)
        tl.store(chances + at, chance, mask=fits)


@triton.jit
def _times(a, b):
    return a * b


@triton.jit
def _distances_kernel(
    profiles, means, scales, fourth, greatest, limits, keys, starts, counts, items, chances,
    distances, I, D: tl.constexpr, DP: tl.constexpr, BE: tl.constexpr, TILTED: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1) * BE
    count = tl.load(counts + row)
    if first < count:
        slot = first + tl.arange(0, BE)
        there = slot < count
        at = tl.load(starts + row) + slot
        item = tl.load(items + at, mask=there, other=0).to(tl.int64)
        column = tl.arange(0, DP)
        inside = there[:, None] & (column < D)[None, :]
        cell = item[:, None] * D + column[None, :]
        z = tl.load(profiles + row * D + column, mask=column < D, other=0.0)
        gaps = tl.where(inside, z[None, :] - tl.load(means + cell, mask=inside, other=0.0), 0.0)
        gaps = gaps.to(tl.float64)
        scale = tl.load(scales + cell, mask=inside, other=0.0).to(tl.float64)
        pair = row * I + item
        noise = normal(tl.load(keys + 1), pair[:, None] * D + column[None, :]).to(tl.float64)
        if TILTED:
            limit = tl.load(limits + row).to(tl.float64)
            own = scale * scale
            squared = tl.sum(gaps * gaps, 1)
            least = tl.load(fourth + item, mask=there, other=0.0).to(tl.float64)
            spread = least + tl.load(greatest + item, mask=there, other=0.0) * squared
            beyond = tl.maximum(squared + tl.sum(own, 1) - limit, 0.0)
            tilt = beyond / tl.maximum(spread, 1e-30)
            # The product stays finite: no factor is above 1 + D, and D is at most 128. Divisions
            # and logarithms of 64 bits are what this kernel would spend its time on.
            wider = 1.0 + 2.0 * tilt[:, None] * own
            narrow = 1.0 / wider
            product = tl.reduce(wider, 1, _times)
            moment = 0.5 * tl.log(product) + tilt * tl.sum(gaps * gaps * narrow, 1)
            chance = tl.load(chances + at, mask=there, other=1).to(tl.float64)
            below = tilt * limit - moment - tl.log(chance / 16777216.0)
            drawn = gaps * narrow + tl.sqrt(own * narrow) * noise
            distance = tl.sum(drawn * drawn, 1)
            kept = (log_uniform(tl.load(keys + 2), pair) < below) & (distance < limit)
            second = log_uniform(tl.load(keys + 3), pair)
            kept = kept & (second < tilt * (distance - limit))
            distance = tl.where(kept, distance, float("inf"))
        else:
            drawn = tl.where(inside, gaps - scale * noise, 0.0)
            distance = tl.sum(drawn * drawn, 1)
        tl.store(distances + at, distance, mask=there)


@dataclass(frozen=True)
class PackedTable:
    """A posterior of all items as the passes read it, filled up to whole tiles of a block."""

    mean: Tensor
    """[I, D]"""
    scale: Tensor
    """[I, D]"""
    centre: Tensor
    """[D] around which products lose the fewest digits"""
    rows: Tensor
    """[BN·B, DP] −2 (μ − centre)"""
    lengths: Tensor
    """[BN·B] ‖μ − centre‖² + Σσ²"""
    spread: Spread
    """of BN·B items"""

    @classmethod
    def of(cls, mean: Tensor, scale: Tensor, spread: Spread) -> "PackedTable":
        """Pack means and scales [I, D]."""
        size, dims = mean.shape
        centre, more = mean.mean(0), -size % BLOCK
        centred = mean - centre
        rows = mean.new_zeros(size + more, _columns(dims))
        rows[:size, :dims] = -2 * centred
        lengths = centred.square().sum(1) + spread.variance
        return cls(
            mean.contiguous(),
            scale.contiguous(),
            centre,
            rows,
            pad(lengths, (0, more), value=FAR),
            Spread(*(pad(part, (0, more)) for part in spread)),
        )

    @property
    def blocks(self) -> int:
        """B, the number of blocks."""
        return len(self.rows) // BLOCK


class GpuPasses:
    """Passes of R profiles [R, D] over a packed table; those of `passes_plain` say what they do."""

    def __init__(self, table: PackedTable, profiles: Tensor) -> None:
        dims = profiles.shape[1]
        centred = pad(profiles - table.centre, (0, table.rows.shape[1] - dims)).contiguous()
        self._table, self._profiles = table, profiles.contiguous()
        self._tiles = centred, centred.square().sum(1), table.rows, table.lengths
        self._shape = {"TILES": _TILES, "BM": _ROWS, "BN": BLOCK, "DP": table.rows.shape[1]}

    def nearest(self, count: int) -> Tensor:
        """Return about the nearest items of each profile, of no more than one a block: [R, P]."""
        rows, blocks = len(self._profiles), self._table.blocks
        values = self._profiles.new_empty(blocks, rows)
        inside = torch.empty(blocks, rows, dtype=torch.int8, device=values.device)
        _nearest_kernel[self._grid(blocks)](
            *self._tiles, values, inside, rows, blocks, **self._shape
        )
        best = values.T.contiguous().topk(count, largest=False, sorted=False).indices
        return best * BLOCK + inside.T.gather(1, best)

    def ahead(self, targets: Tensor) -> Tensor:
        """Return how many items are nearer to each profile than its target [R]: [R].

        Of two that are alike it is the one of the lower number. Those that floats cannot tell from
        the target are compared in double precision.
        """
        own = self._exact(torch.arange(len(targets), device=targets.device), targets)
        starts = torch.zeros(len(targets) + 1, dtype=torch.int64, device=targets.device)
        _, nearer, close = self._closer(own, starts)
        starts = pad(close.cumsum(0), (1, 0))
        items, _, _ = self._closer(own, starts)
        row = torch.repeat_interleave(close)
        for some in torch.arange(len(row), device=row.device).split(_COMPARED):
            at, item = row[some], items[some].long()
            gap, least = self._exact(at, item) - own[at], 1e-12 * own[at]
            alike = (gap.abs() <= least) & (item < targets[at])
            nearer.index_add_(0, at, ((gap < -least) | alike).int())
        return nearer.long()

    def _closer(self, own: Tensor, starts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Find what is closer than `own` [R]: items that may be [S]; how many are, and may be."""
        items = torch.empty(int(starts[-1]), dtype=torch.int32, device=own.device)
        nearer, close = torch.zeros(2, len(own), dtype=torch.int32, device=own.device)
        blocks = self._table.blocks
        _ahead_kernel[self._grid(blocks)](
            *self._tiles, own.float(), starts, items, nearer, close, len(own),
            len(self._table.mean), blocks, **self._shape,
        )  # fmt: skip
        return items, nearer, close

    def _exact(self, row: Tensor, item: Tensor) -> Tensor:
        """Return E D of pairs of profiles and items [E] in double precision: [E]."""
        gaps = self._profiles[row].double() - self._table.mean[item]
        return gaps.square().sum(1) + self._table.spread.variance[item]

    def draws(self, items: Tensor, keys: Tensor) -> Tensor:
        """Draw the vectors of items [R, P], and return their squared distances: [R, P]."""
        rows, width = items.shape
        starts = torch.arange(rows + 1, device=items.device) * width
        counts = torch.full((rows,), width, dtype=torch.int32, device=items.device)
        flat = items.int().flatten()
        limits = self._tiles[1]  # none is looked at
        distances = self._distances(starts, counts, flat, flat, limits, keys, tilted=False)
        return distances.view(rows, width)

    def late(self, limits: Tensor, keys: Tensor) -> Late:
        """Draw which items come below τ [R], and where."""
        limits = limits.float().contiguous()
        starts = self._rooms(limits, keys)
        items, chances, counts = self._coins(starts, limits, keys)
        if bool((counts > starts.diff()).any()):
            starts = pad(counts.cumsum(0), (1, 0))
            items, chances, counts = self._coins(starts, limits, keys)
        distances = self._distances(starts, counts, items, chances, limits, keys, tilted=True)
        slots = distances.isfinite().nonzero()[:, 0]
        row = torch.searchsorted(starts, slots, right=True) - 1
        return Late(row, items[slots].long(), distances[slots])

    def _rooms(self, limits: Tensor, keys: Tensor) -> Tensor:
        """Return where the slots of each profile begin, by the events of some blocks: [R + 1]."""
        stride = max(1, self._table.blocks // _SAMPLED)
        none = torch.zeros(len(limits) + 1, dtype=torch.int64, device=limits.device)
        counted = self._coins(none, limits, keys, stride)[2].double()
        spread = 6 * counted.sqrt() + 8 if stride > 1 else 0
        return pad(((counted + spread) * stride).long().cumsum(0), (1, 0))

    def _coins(
        self, starts: Tensor, limits: Tensor, keys: Tensor, stride: int = 1
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Write events into slots; return items [S], chances [S], and how many there are [R].

        Of every `stride` blocks one is looked at.
        """
        items = torch.empty(int(starts[-1]), dtype=torch.int32, device=starts.device)
        chances = torch.empty_like(items)
        counts = torch.zeros(len(limits), dtype=torch.int32, device=starts.device)
        blocks = self._table.blocks // stride
        _coins_kernel[self._grid(blocks)](
            *self._tiles, *self._table.spread, limits, keys, starts, items, chances, counts,
            len(limits), len(self._table.mean), blocks, stride, **self._shape,
        )  # fmt: skip
        return items, chances, counts

    def _grid(self, blocks: int) -> tuple[int, int]:
        return triton.cdiv(len(self._profiles), _ROWS), triton.cdiv(blocks, _TILES)

    def _distances(
        self,
        starts: Tensor,
        counts: Tensor,
        items: Tensor,
        chances: Tensor,
        limits: Tensor,
        keys: Tensor,
        *,
        tilted: bool,
    ) -> Tensor:
        """Return the squared distances of what slots hold [S], infinite where nothing is kept."""
        distances = torch.full(items.shape, torch.inf, dtype=torch.float64, device=items.device)
        table, most = self._table, int(counts.max())
        grid = len(counts), max(1, triton.cdiv(most, _SLOTS_OF_PROGRAM))
        _distances_kernel[grid](
            self._profiles, table.mean, table.scale, *table.spread[1:], limits, keys, starts,
            counts, items, chances, distances, len(table.mean), D=self._profiles.shape[1],
            DP=table.rows.shape[1], BE=_SLOTS_OF_PROGRAM, TILTED=tilted,
        )  # fmt: skip
        return distances


def _columns(dims: int) -> int:
    return max(16, 1 << (dims - 1).bit_length())
