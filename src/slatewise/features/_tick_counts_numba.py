"""The loops that count a log by item and tick, for numba.

In time order one item seen is any item, and what is known of a million items fits into no cache: a
single pass would wait for memory at each of them. So they are first divided into parts of items,
in time order within a part, and then counted part by part.

Shapes: N interactions, F cells (an item seen in one), I items, P parts of 2^shift items each.
"""

from typing import Any

import numpy as np

from slatewise.compiled.compilation import exact
from slatewise.compiled.lanes import prefetch

AHEAD = 16
"""Interactions by which memory is asked for ahead: in time order each lies anywhere."""


@exact
def _ask_ahead(m: Any, order: Any, slate_offsets: Any, slate_items: Any) -> None:
    """Prefetch the slate of an interaction that comes soon, and where that of a later one lies."""
    if m + 2 * AHEAD < len(order):
        prefetch(slate_offsets, order[m + 2 * AHEAD])
        start = slate_offsets[order[m + AHEAD]]
        prefetch(slate_items, start)
        prefetch(slate_items, start + 16)


@exact
def part_sizes(
    first: Any, end: Any, order: Any, slate_offsets: Any, slate_items: Any, num_items: Any,
    shift: Any, sizes: Any,
) -> Any:  # fmt: skip
    """Count the cells of each part [P] from one position of `order` [N] to another.

    Returns -1, or the first interaction with an unknown item.
    """
    for m in range(first, end):
        _ask_ahead(m, order, slate_offsets, slate_items)
        n = order[m]
        for j in range(slate_offsets[n], slate_offsets[n + 1]):
            item = np.int64(slate_items[j])
            if item < 0 or item >= num_items:
                return n
            sizes[item >> shift] += 1
    return np.int64(-1)


@exact
def divide(
    first: Any, end: Any, order: Any, slate_offsets: Any, slate_items: Any, shift: Any,
    ticks: Any, clicks: Any, begins: Any, ends: Any, cells: Any,
) -> None:  # fmt: skip
    """Write each cell to the end [P] of its part, which moves on.

    Of interactions in `order` there are `ticks`, `clicks` and `begins` [N]. Of cells there are the
    item within its part, twice and one more if it was clicked; the tick; and the length of a slate
    that begins, else 0.
    """
    codes, cell_ticks, lengths = cells
    mask = (np.int64(1) << shift) - 1
    for m in range(first, end):
        _ask_ahead(m, order, slate_offsets, slate_items)
        start, stop = slate_offsets[order[m]], slate_offsets[order[m] + 1]
        length = (stop - start) * np.int64(begins[m])
        for j in range(start, stop):
            item = np.int64(slate_items[j])
            at = ends[item >> shift]
            ends[item >> shift] = at + 1
            codes[at] = 2 * (item & mask) + np.int64(j - start == clicks[m])
            cell_ticks[at] = ticks[m]
            lengths[at] = length


@exact
def count_rows(first: Any, end: Any, starts: Any, cells: Any, shift: Any, counts: Any) -> None:
    """Count the ticks with events of each item [I] of the parts from `first` to `end`.

    The cells of a part begin at its `starts` [P + 1].
    """
    codes, cell_ticks, _ = cells
    latest = np.empty(1 << shift, np.int64)
    for part in range(first, end):
        latest[:] = -1
        for cell in range(starts[part], starts[part + 1]):
            item = np.int64(codes[cell]) >> 1
            if latest[item] != cell_ticks[cell]:
                latest[item] = cell_ticks[cell]
                counts[(part << shift) + item] += 1


@exact
def fill_rows(
    first: Any, end: Any, starts: Any, cells: Any, shift: Any, row_starts: Any, row_ticks: Any,
    row_counts: Any,
) -> None:  # fmt: skip
    """Write a row for every item and tick with events of some parts: the tick and the counts [3].

    Those are clicks, views and expected clicks, added up in doubles, in time order, and rounded
    once, as one pass over the log would.
    """
    codes, cell_ticks, lengths = cells
    sums = np.empty((1 << shift, 3))
    rows = np.empty(1 << shift, np.int64)  # the row at hand of each item
    for part in range(first, end):
        base = part << shift
        for own in range(min(1 << shift, len(row_starts) - 1 - base)):
            rows[own] = row_starts[base + own] - 1
        for cell in range(starts[part], starts[part + 1]):
            item, tick, length = np.int64(codes[cell]) >> 1, cell_ticks[cell], lengths[cell]
            row = rows[item]
            if row < row_starts[base + item] or row_ticks[row] != tick:
                row += 1
                rows[item], row_ticks[row] = row, tick
                sums[item, 0] = sums[item, 1] = sums[item, 2] = 0
            sums[item, 0] += np.int64(codes[cell]) & 1
            if length > 0:
                sums[item, 1] += 1
                sums[item, 2] += 1.0 / length  # as `expected_shares` has it
            for e in range(3):
                row_counts[row, e] = np.float32(sums[item, e])
