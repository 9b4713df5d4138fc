"""The loops behind means of rows that numba compiles; imported only where numba is installed."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

_njit: Any = numba.njit
_options = {"fastmath": {"contract", "nsz", "arcp"}, "error_model": "numpy", "nogil": True}


def _compile(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        kernel: Callable[..., Any] = _njit(cache=True, **_options)(function)
    except RuntimeError:  # no directory to keep the cache in
        kernel = _njit(**_options)(function)
    return kernel


@_compile
def means(table: Any, cells: Any, starts: Any, ends: Any, out: Any) -> int:
    """Fill out [K, D] from table [R, C]; return −1, or a cell that is no row of it."""
    for k in range(len(starts)):
        for d in range(out.shape[1]):
            out[k, d] = np.float32(0)
        for cell in range(starts[k], ends[k]):
            row = cells[cell]
            if row < 0 or row >= len(table):
                return cell
            for d in range(out.shape[1]):
                out[k, d] += table[row, d]
        if ends[k] - starts[k] > 1:
            share = np.float32(1) / np.float32(ends[k] - starts[k])
            for d in range(out.shape[1]):
                out[k, d] *= share
    return -1


@_compile
def spread(slopes: Any, cells: Any, starts: Any, ends: Any, gradient: Any) -> None:
    """Add the slopes [K, D] of means to the gradient [R, C] of the rows they are of."""
    for k in range(len(starts)):
        share = np.float32(1) / np.float32(max(1, ends[k] - starts[k]))
        for cell in range(starts[k], ends[k]):
            row = cells[cell]
            for d in range(slopes.shape[1]):
                gradient[row, d] += share * slopes[k, d]
