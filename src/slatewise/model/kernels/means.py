"""Means of item vectors, range by range: a slate as one vector.

Shapes: R rows of a table, C columns, of which D are averaged, F cells, K ranges of cells.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from slatewise.model.kernels.backend import Backend, loops, plain, takes_numba


def row_means(
    table: Tensor,
    cells: Tensor,
    starts: Tensor,
    ends: Tensor,
    dims: int,
    *,
    backend: Backend = "auto",
) -> Tensor:
    """Average the first `dims` columns of the rows `cells[start:end]`, range by range: [K, D].

    Args:
        table: [R, C], of which gradients are wanted; J tables in front only by torch.
        cells: [F] int32 or int64, rows of the table.
        starts: [K] int64.
        ends: [K] int64, each beyond its start.
        dims: D, at most C.
        backend: `numba` is one loop in float32 on the CPU, and one for the gradient; `torch` is
            the reference, for any device and dtype; `auto` takes numba where it can.

    """
    if backend != "numba" and table.ndim > 2:
        return _reference(table, cells, starts, ends, dims)
    if takes_numba(backend, dims, [table]):
        result: Tensor = _Fused.apply(table, cells, starts, ends, dims)  # type: ignore[no-untyped-call]
        return result
    return _reference(table, cells, starts, ends, dims)


def _reference(table: Tensor, cells: Tensor, starts: Tensor, ends: Tensor, dims: int) -> Tensor:
    lengths = ends - starts
    range_of = torch.repeat_interleave(lengths)  # [L]
    first = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))[:-1]
    cell = torch.arange(len(range_of), device=cells.device) + (starts - first)[range_of]
    rows = table.index_select(-2, cells[cell])[..., :dims]  # [L, D]
    sums = rows.new_zeros(*rows.shape[:-2], len(starts), dims).index_add(-2, range_of, rows)
    return sums / lengths.clamp(min=1)[:, None]


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, table: Tensor, cells: Tensor, starts: Tensor, ends: Tensor, dims: int
    ) -> Tensor:
        ranges = cells.contiguous(), starts.contiguous(), ends.contiguous()
        out = table.new_empty(len(starts), dims)
        arrays = (part.numpy() for part in (plain(table), *ranges, out))
        fault = loops("means").means_kernel(dims)(*arrays)
        if fault >= 0:
            raise IndexError(f"cell {fault} is not one of the {len(table):,} rows")
        ctx.save_for_backward(*ranges)
        ctx.shape = table.shape
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        gradient = slopes.new_zeros(ctx.shape)
        arrays = (part.numpy() for part in (plain(slopes), *ctx.saved_tensors, gradient))
        loops("means").spread_kernel(slopes.shape[1])(*arrays)
        return gradient, None, None, None, None
