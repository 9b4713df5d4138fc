"""The distinct rows of a batch, and their update by Adam.

Shapes as in `kernels.rows`: I table rows, D dimensions, F cells, R distinct rows among them.
"""

import functools
import math
from typing import Any

import numpy as np

from slatewise.compiled.compilation import Kernel, exact, reordered
from slatewise.compiled.vectors import (
    AHEAD,
    add,
    load,
    prefetch,
    squared_norm,
    store,
    subtract,
    times,
)


@exact
def first_appearances(cells: Any, scratch: Any, rows: Any, local: Any, counts: Any) -> Any:
    """Fill in the distinct cells; return how many, or -1 if one is out of range."""
    found = np.int64(0)
    valid = True
    # `scratch` holds each row's index among those found, -1 for none: no sorting, no hashing.
    for j in range(len(cells)):
        cell = np.int64(cells[j])
        if cell < 0 or cell >= len(scratch):
            valid = False
            break
        index = scratch[cell]
        if index < 0:
            index = np.int32(found)
            scratch[cell] = index
            rows[found] = cell
            counts[found] = 0
            found += 1
        local[j] = index
        counts[index] += 1
    for r in range(found):  # only what was touched, so that the table's size costs nothing
        scratch[rows[r]] = -1
    return found if valid else np.int64(-1)


@functools.cache
def adam_kernel(dims: int) -> Kernel:
    """Return the update of rows of D dimensions; see `rows.RowAdam`.

    It returns False, with nothing changed, where a row is out of range.
    """

    @reordered
    def kernel(
        table: Any,
        momentum: Any,
        second: Any,
        steps: Any,
        rows: Any,
        gradient: Any,
        lr: Any,
        keep: Any,
        take: Any,
        keep_second: Any,
        take_second: Any,
        eps: Any,
        corrections: Any,
    ) -> Any:
        # Before the first update: half a step could not be taken back.
        for r in range(len(rows)):
            if rows[r] < 0 or rows[r] >= len(table):
                return False
        for r in range(len(rows)):
            if r + AHEAD < len(rows):
                prefetch(table, rows[r + AHEAD], dims)
                prefetch(momentum, rows[r + AHEAD], dims)
            row = rows[r]
            slope = load(gradient, r, dims)
            count = steps[row] + 1
            steps[row] = count
            mean_square = squared_norm(slope) / np.float32(dims)
            spread = keep_second * second[row] + take_second * mean_square
            second[row] = spread
            average = add(times(load(momentum, row, dims), keep), times(slope, take))
            store(momentum, row, average)
            size = lr * corrections[count, 0] / (math.sqrt(spread) * corrections[count, 1] + eps)
            store(table, row, subtract(load(table, row, dims), times(average, size)))
        return True

    return kernel
