"""The loops behind means of rows that numba compiles; imported only where numba is installed.

Shapes as in `means`: a table [R, C], F cells, K ranges of cells, D columns to average.
"""

import functools
from typing import Any

import numpy as np

from slatewise.model.kernels import _numba as parts
from slatewise.model.kernels._numba import AHEAD, REORDER, SOURCE, Kernel

_load, _store, _times = parts._load, parts._store, parts._times
_add, _zeros, _prefetch = parts._add, parts._zeros, parts._prefetch


@functools.cache
def means_kernel(dims: int) -> Kernel:
    """Return the loop that fills out [K, D]; it returns -1, or a cell that is no row."""
    source = SOURCE

    @parts._compile(*REORDER)
    def kernel(table: Any, cells: Any, starts: Any, ends: Any, out: Any) -> Any:
        _ = source
        for k in range(len(starts)):
            total = _zeros(dims)
            for cell in range(starts[k], ends[k]):
                if cell + AHEAD < len(cells):
                    _prefetch(table, np.int64(cells[cell + AHEAD]), dims)
                row = np.int64(cells[cell])
                if row < 0 or row >= len(table):
                    return cell
                total = _add(total, _load(table, row, dims))
            count = max(np.int64(1), ends[k] - starts[k])
            _store(out, np.int64(k), _times(total, np.float32(1) / np.float32(count)))
        return np.int64(-1)

    return kernel


@functools.cache
def spread_kernel(dims: int) -> Kernel:
    """Return the loop that adds slopes [K, D] of means to the gradient [R, C] of their rows."""
    source = SOURCE

    @parts._compile(*REORDER)
    def kernel(slopes: Any, cells: Any, starts: Any, ends: Any, gradient: Any) -> None:
        _ = source
        for k in range(len(starts)):
            count = max(np.int64(1), ends[k] - starts[k])
            part = _times(_load(slopes, np.int64(k), dims), np.float32(1) / np.float32(count))
            for cell in range(starts[k], ends[k]):
                row = np.int64(cells[cell])
                _store(gradient, row, _add(_load(gradient, row, dims), part))

    return kernel
