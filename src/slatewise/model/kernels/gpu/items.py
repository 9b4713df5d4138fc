"""All items in one pass: drawn at the start of a step, moved by Adam at its end.

Shapes: I items, C numbers of an item, G groups.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from slatewise.compiled.gpu_noise import normal
from slatewise.model.kernels.gpu.parts import RowGradient, width

_TILE = 32
"""Items of a program that draws; they are of one group, or few."""
_BLOCK = 1_024
"""Numbers of a program that moves them."""


@triton.jit
def _draw_kernel(
    key, mean, raw, vectors, order, groups, weights, centres, offsets, squares, firsts, log_scale,
    num_items, sigma_max, C: tl.constexpr, TILE: tl.constexpr, CP: tl.constexpr,
    OFFSETS: tl.constexpr, SUMS: tl.constexpr,
):  # fmt: skip
    number = tl.program_id(0) * TILE + tl.arange(0, TILE)
    there = number < num_items
    item = tl.load(order + number, mask=there, other=0).to(tl.int64)
    column = tl.arange(0, CP)
    inside = there[:, None] & (column < C)[None, :]
    at = item[:, None] * C + column[None, :]
    middle = tl.load(mean + at, mask=inside, other=0.0)
    scale = sigma_max * tl.sigmoid(tl.load(raw + at, mask=inside, other=0.0))
    noise = normal(tl.load(key), at + 1)
    tl.store(vectors + at, middle + scale * noise, mask=inside)
    if SUMS:
        group = tl.load(groups + item, mask=there, other=0)
        weight = tl.load(weights + item, mask=there, other=0.0)
        of_group = group[:, None] * C + column[None, :]
        gap = middle - tl.load(centres + of_group, mask=inside, other=0.0)
        if OFFSETS:
            gap -= tl.load(offsets + at, mask=inside, other=0.0)
        first = tl.where(inside, weight[:, None] * gap, 0.0)
        square = tl.where(inside, weight[:, None] * (scale * scale + gap * gap), 0.0)
        logs = tl.where(inside, weight[:, None] * tl.log(scale), 0.0)
        tl.atomic_add(log_scale, tl.sum(tl.sum(logs, 1), 0), sem="relaxed")
        lowest = tl.min(tl.where(there, group, 2147483647), 0)
        highest = tl.max(tl.where(there, group, -1), 0)
        if lowest == highest:
            to = lowest * C + column
            tl.atomic_add(squares + to, tl.sum(square, 0), mask=column < C, sem="relaxed")
            tl.atomic_add(firsts + to, tl.sum(first, 0), mask=column < C, sem="relaxed")
        else:
            tl.atomic_add(squares + of_group, square, mask=inside, sem="relaxed")
            tl.atomic_add(firsts + of_group, first, mask=inside, sem="relaxed")


@triton.jit
def _offset_kernel(
    mean, groups, weights, centres, offsets, slopes, out, num_items, C: tl.constexpr,
    TILE: tl.constexpr, CP: tl.constexpr,
):  # fmt: skip
    item = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    there = item < num_items
    column = tl.arange(0, CP)
    inside = there[:, None] & (column < C)[None, :]
    at = item[:, None] * C + column[None, :]
    group = tl.load(groups + item, mask=there, other=0)
    of_group = group[:, None] * C + column[None, :]
    weight = tl.load(weights + item, mask=there, other=0.0)
    gap = tl.load(mean + at, mask=inside, other=0.0)
    gap -= tl.load(centres + of_group, mask=inside, other=0.0)
    gap -= tl.load(offsets + at, mask=inside, other=0.0)
    slope = tl.load(slopes + of_group, mask=inside, other=0.0)
    tl.store(out + at, -2.0 * slope * weight[:, None] * gap, mask=inside)


@triton.jit
def _adam(at, inside, slope, value, first, second, rate, correction, root, BETA1, BETA2, EPSILON):
    one = BETA1 * tl.load(first + at, mask=inside, other=0.0) + (1 - BETA1) * slope
    two = BETA2 * tl.load(second + at, mask=inside, other=0.0) + (1 - BETA2) * slope * slope
    tl.store(first + at, one, mask=inside)
    tl.store(second + at, two, mask=inside)
    return value - rate / correction * one / (tl.sqrt(two) / root + EPSILON)


@triton.jit
def _update_kernel(
    key, mean, raw, gradient, groups, weights, centres, offsets, slopes, log_slope, taken,
    mean_first, mean_second, raw_first, raw_second, count, sigma_max, faster,
    BETA1: tl.constexpr, BETA2: tl.constexpr, EPSILON: tl.constexpr,
    C: tl.constexpr, BLOCK: tl.constexpr, OFFSETS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    # Number after number, whosever it is: nothing is summed here, and memory is read in order.
    program = tl.program_id(0)
    if WIDE:
        program = program.to(tl.int64)
    at = program * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    from_likelihood = tl.load(gradient + at, mask=inside, other=0.0)
    tl.store(gradient + at, tl.zeros_like(from_likelihood), mask=inside)
    if tl.load(taken) > 0:
        rate, correction, root = tl.load(taken + 1), tl.load(taken + 2), tl.load(taken + 3)
        item = at // C
        middle = tl.load(mean + at, mask=inside, other=0.0)
        free = tl.load(raw + at, mask=inside, other=0.0)
        share = tl.sigmoid(free)
        scale = sigma_max * share
        of_group = tl.load(groups + item, mask=inside, other=0) * C + (at - item * C)
        weight = tl.load(weights + item, mask=inside, other=0.0)
        gap = middle - tl.load(centres + of_group, mask=inside, other=0.0)
        if OFFSETS:
            gap -= tl.load(offsets + at, mask=inside, other=0.0)
        pull = 2.0 * weight * tl.load(slopes + of_group, mask=inside, other=0.0)
        of_mean = from_likelihood + pull * gap
        of_scale = from_likelihood * normal(tl.load(key), at + 1)
        of_scale += pull * scale + tl.load(log_slope) * weight / scale
        of_raw = tl.where(inside, of_scale * scale * (1.0 - share), 0.0)
        middle = _adam(
            at, inside, of_mean, middle, mean_first, mean_second, rate, correction, root,
            BETA1, BETA2, EPSILON,
        )  # fmt: skip
        free = _adam(
            at, inside, of_raw, free, raw_first, raw_second, faster * rate, correction, root,
            BETA1, BETA2, EPSILON,
        )  # fmt: skip
        tl.store(mean + at, middle, mask=inside)
        tl.store(raw + at, free, mask=inside)


class ItemTable:
    """The posterior of all items, drawn and moved in whole passes."""

    def __init__(
        self, mean: Tensor, raw: Tensor, sigma_max: float, groups: Tensor, weights: Tensor
    ) -> None:
        self.mean, self.raw, self.sigma_max = mean, raw, sigma_max
        self.groups, self.weights = groups.int(), weights.float()
        # Items of a group lie together, so that a tile adds its sum up before it adds to others.
        self.order = torch.argsort(groups, stable=True).int()
        self.vectors = torch.empty_like(mean)
        self.shape = {"C": mean.shape[1], "TILE": _TILE, "CP": width(mean.shape[1])}
        self.grid = (triton.cdiv(len(mean), _TILE),)
        self.slopes: tuple[Tensor, Tensor] | None = None
        """of the loss: in `squares` [G, C] and in `log_scale` [], after the backward pass"""
        self.around: tuple[Tensor, Tensor | None] | None = None
        """centres and offsets of the draw"""

    def draw(
        self, key: Tensor, centres: Tensor, offsets: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return vectors [I, C], without gradient, and the sums of `draw_items`, with."""
        # Of centres that are not learned, the slopes in the sums are wanted all the same.
        seed = torch.zeros((), device=key.device, requires_grad=True)
        squares, log_scale = _Sums.apply(centres, offsets, seed, key, self)
        return self.vectors, squares, log_scale

    def update(
        self,
        key: Tensor,
        gradient: RowGradient,
        moments: dict[str, Tensor],
        taken: Tensor,
        *,
        faster: float,
        betas: tuple[float, float],
        epsilon: float,
    ) -> None:
        """Move means and scales, and clear the gradient.

        `taken` [4] has whether to move at all, the rate and the two corrections of Adam.
        """
        assert self.slopes is not None
        assert self.around is not None
        gradient.collect()
        centres, offsets = self.around
        count = self.mean.numel()
        _update_kernel[(triton.cdiv(count, _BLOCK),)](
            key, self.mean, self.raw, gradient.buffer, self.groups, self.weights,
            centres, self.mean if offsets is None else offsets, *self.slopes, taken,
            moments["mean.exp_avg"], moments["mean.exp_avg_sq"],
            moments["raw.exp_avg"], moments["raw.exp_avg_sq"],
            count, self.sigma_max, faster, *betas, epsilon,
            C=self.mean.shape[1], BLOCK=_BLOCK, OFFSETS=offsets is not None, WIDE=count >= 1 << 31,
        )  # fmt: skip


class _Sums(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        centres: Tensor,
        offsets: Tensor | None,
        seed: Tensor,
        key: Tensor,
        table: ItemTable,
    ) -> tuple[Tensor, Tensor]:
        centres = centres.detach().float().contiguous()
        offsets = None if offsets is None else offsets.detach().contiguous()
        squares, firsts = torch.zeros_like(centres), torch.zeros_like(centres)
        log_scale = centres.new_zeros(())
        table.around = centres, offsets
        _draw_kernel[table.grid](
            key, table.mean, table.raw, table.vectors, table.order, table.groups, table.weights,
            centres, table.mean if offsets is None else offsets, squares, firsts, log_scale,
            len(table.mean), table.sigma_max, **table.shape,
            OFFSETS=offsets is not None, SUMS=True,
        )  # fmt: skip
        ctx.table, ctx.firsts = table, firsts
        return squares, log_scale

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_squares: Tensor, of_log: Tensor) -> tuple[Tensor | None, ...]:
        table: ItemTable = ctx.table
        of_squares = of_squares.contiguous()
        table.slopes = of_squares, of_log.contiguous()
        assert table.around is not None
        centres, offsets = table.around
        of_offsets = None
        if offsets is not None and ctx.needs_input_grad[1]:
            of_offsets = torch.empty_like(offsets)
            _offset_kernel[table.grid](
                table.mean, table.groups, table.weights, centres, offsets, of_squares, of_offsets,
                len(table.mean), **table.shape,
            )  # fmt: skip
        return -2 * of_squares * ctx.firsts, of_offsets, torch.zeros_like(of_log), None, None
