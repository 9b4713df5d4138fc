"""Sums, maxima and softmaxes over rows of different lengths, stored flat with offsets."""

from typing import Any

import numpy as np
import numpy.typing as npt

from slatewise.data.ragged import Int64Array

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.integer[Any]]


def row_numbers(offsets: Int64Array) -> Int64Array:
    """Return the row of each cell: offsets [N + 1] -> [F]."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def sum_rows(values: Floats, offsets: Int64Array) -> Floats:
    """Sum the rows of values [F] or [F, P]; an empty row sums to zero."""
    return _reduce(np.add, values, offsets, 0.0)


def max_rows(values: Floats, offsets: Int64Array) -> Floats:
    """Return the greatest value of each row [N]; an empty row has -inf."""
    return _reduce(np.maximum, values, offsets, -np.inf)


def _reduce(ufunc: np.ufunc, values: Floats, offsets: Int64Array, empty: float) -> Floats:
    out = np.full((len(offsets) - 1, *values.shape[1:]), empty)
    filled = offsets[1:] > offsets[:-1]
    if filled.any():
        out[filled] = ufunc.reduceat(values, offsets[:-1][filled], axis=0)
    return out


def log_normaliser(utilities: Floats, no_click: Floats, offsets: Int64Array) -> Floats:
    """Return log(exp(no_click) + Σ exp(utilities)) of each row: [F], [N] -> [N]."""
    top = np.maximum(max_rows(utilities, offsets), no_click)
    items = sum_rows(np.exp(utilities - np.repeat(top, np.diff(offsets))), offsets)
    out: Floats = top + np.log(items + np.exp(no_click - top))
    return out
