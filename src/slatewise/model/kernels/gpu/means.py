"""Means of item vectors, range by range, with gradients added to the rows of the table.

Shapes: K ranges of cells, C columns of a table, of which D are averaged.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from slatewise.model.kernels.gpu.parts import COPIES, RowGradient, gradient_row, width

_TILE = 16


@triton.jit
def _means_kernel(
    table, cells, starts, lengths, out, count, C: tl.constexpr, D: tl.constexpr,
    TILE: tl.constexpr, DP: tl.constexpr,
):  # fmt: skip
    number = tl.program_id(0) * TILE + tl.arange(0, TILE)
    there = number < count
    start = tl.load(starts + number, mask=there, other=0)
    length = tl.load(lengths + number, mask=there, other=0)
    column = tl.arange(0, DP)
    total = tl.zeros([TILE, DP], tl.float32)
    for position in range(tl.max(length, 0)):
        here = position < length
        item = tl.load(cells + start + position, mask=here, other=0).to(tl.int64)
        inside = here[:, None] & (column < D)[None, :]
        total += tl.load(table + item[:, None] * C + column[None, :], mask=inside, other=0.0)
    mean = total / tl.maximum(length, 1).to(tl.float32)[:, None]
    inside = there[:, None] & (column < D)[None, :]
    tl.store(out + number[:, None].to(tl.int64) * D + column[None, :], mean, mask=inside)


@triton.jit
def _spread_kernel(
    slopes, cells, starts, lengths, gradient, slots, num_items, count, C: tl.constexpr,
    D: tl.constexpr, TILE: tl.constexpr, DP: tl.constexpr, COPIES: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    number = program * TILE + tl.arange(0, TILE)
    there = number < count
    start = tl.load(starts + number, mask=there, other=0)
    length = tl.load(lengths + number, mask=there, other=0)
    column = tl.arange(0, DP)
    inside = (length > 0)[:, None] & (column < D)[None, :]
    at = number[:, None].to(tl.int64) * D + column[None, :]
    slope = tl.load(slopes + at, mask=inside, other=0.0)
    slope /= tl.maximum(length, 1).to(tl.float32)[:, None]
    for position in range(tl.max(length, 0)):
        here = position < length
        item = tl.load(cells + start + position, mask=here, other=0)
        row = gradient_row(slots, item, here, num_items, program % COPIES, COPIES)
        to = gradient + row[:, None] * C + column[None, :]
        tl.atomic_add(to, slope, mask=here[:, None] & inside, sem="relaxed")


def row_means(
    table: Tensor,
    cells: Tensor,
    starts: Tensor,
    lengths: Tensor,
    dims: int,
    gradient: RowGradient | None = None,
) -> Tensor:
    """Average rows `cells[start : start + length]` of a table: [K, D], 0 for a length of 0.

    The reference is `kernels.means.row_means`. The slope of the table is added to `gradient`.
    """
    seed = torch.zeros((), device=table.device, requires_grad=gradient is not None)
    result: Tensor = _Means.apply(seed, table, cells, starts, lengths, dims, gradient)
    return result


class _Means(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        seed: Tensor,
        table: Tensor,
        cells: Tensor,
        starts: Tensor,
        lengths: Tensor,
        dims: int,
        gradient: RowGradient | None,
    ) -> Tensor:
        out = torch.empty(len(starts), dims, device=table.device)
        ctx.shape = {"C": table.shape[1], "D": dims, "TILE": _TILE, "DP": width(dims)}
        ctx.grid = (triton.cdiv(len(starts), _TILE),)
        _means_kernel[ctx.grid](table, cells, starts, lengths, out, len(starts), **ctx.shape)
        ctx.ranges, ctx.gradient = (cells, starts, lengths), gradient
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        gradient: RowGradient = ctx.gradient
        _spread_kernel[ctx.grid](
            slopes.contiguous(), *ctx.ranges, gradient.buffer, gradient.slots, gradient.rows,
            len(slopes), **ctx.shape, COPIES=COPIES,
        )  # fmt: skip
        return (slopes.new_zeros(()), *[None] * 6)
