"""Means of rows, and their gradient.

Shapes as in `kernels.means`: a table [R, C], F cells, K ranges of cells, D columns to average.
"""

import functools
from typing import Any

import numpy as np

from slatewise.compiled.compilation import Kernel, reordered
from slatewise.compiled.vectors import AHEAD, add, load, prefetch, store, times, zeros


@functools.cache
def means_kernel(dims: int) -> Kernel:
    """Return the loop that fills out [K, D]; it returns -1, or a cell that is no row."""

    @reordered
    def kernel(table: Any, cells: Any, starts: Any, ends: Any, out: Any) -> Any:
        for k in range(len(starts)):
            total = zeros(dims)
            for cell in range(starts[k], ends[k]):
                if cell + AHEAD < len(cells):
                    prefetch(table, np.int64(cells[cell + AHEAD]), dims)
                row = np.int64(cells[cell])
                if row < 0 or row >= len(table):
                    return cell
                total = add(total, load(table, row, dims))
            # An empty range has mean zero.
            count = max(np.int64(1), ends[k] - starts[k])
            store(out, np.int64(k), times(total, np.float32(1) / np.float32(count)))
        return np.int64(-1)

    return kernel


@functools.cache
def spread_kernel(dims: int) -> Kernel:
    """Return the loop that adds slopes [K, D] of means to the gradient [R, C] of their rows."""

    @reordered
    def kernel(slopes: Any, cells: Any, starts: Any, ends: Any, gradient: Any) -> None:
        for k in range(len(starts)):
            count = max(np.int64(1), ends[k] - starts[k])
            part = times(load(slopes, np.int64(k), dims), np.float32(1) / np.float32(count))
            for cell in range(starts[k], ends[k]):
                row = np.int64(cells[cell])
                store(gradient, row, add(load(gradient, row, dims), part))

    return kernel
