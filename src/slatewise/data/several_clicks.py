"""Slates that were clicked several times: which interactions are further clicks on the same slate.

A slate with its clicks in order is one thing that happened. A dataset has an interaction for each
of its clicks, one after the other: of the same user, time and source, with the same items in the
same order, and a click that was not yet made. A slate shown again later is another slate.

Logs with a row and a time for each click are brought to this form: see `reductions.join_clicks`.
"""

import numpy as np
import numpy.typing as npt

from slatewise.data.ragged import Int64Array, pieces, ranges

Integers = npt.NDArray[np.integer]
Bools = npt.NDArray[np.bool_]


def further_clicks(
    user_offsets: Int64Array,
    times: Int64Array,
    sources: Integers,
    clicks: Integers,
    slate_offsets: Int64Array,
    slate_items: Integers,
    *,
    window: int = 0,
) -> npt.NDArray[np.int32] | None:
    """Count the clicks made before on the same slate: [N], None where no slate has several.

    Clicks on one slate come within `window`, in the unit of the times, of the first.
    """
    rows = _alike(user_offsets, times, sources, clicks, slate_offsets, window)
    rows = rows[_same_items(rows, slate_offsets, slate_items)]
    further = np.zeros(len(clicks), dtype=np.int32)
    last, begun, count, clicked = -1, 0, 0, set[int]()
    for row, click, time in zip(
        *(x.tolist() for x in (rows, clicks[rows], times[rows])), strict=True
    ):
        if last != row - 1:  # the row before begins a slate
            begun, count, clicked = int(times[row - 1]), 0, {int(clicks[row - 1])}
        last = row
        if click in clicked or time - begun > window:
            begun, count, clicked = time, 0, {click}
            continue
        count += 1
        further[row] = count
        clicked.add(click)
    return further if further.any() else None


def _alike(
    user_offsets: Int64Array,
    times: Int64Array,
    sources: Integers,
    clicks: Integers,
    slate_offsets: Int64Array,
    window: int,
) -> Int64Array:
    """Return interactions that may be further clicks, judging by single numbers."""
    found = [np.empty(0, np.int64)]
    for piece in pieces(max(0, len(clicks) - 1)):
        here, after = piece, slice(piece.start + 1, piece.stop + 1)
        lengths = np.diff(slate_offsets[piece.start : piece.stop + 2])
        same = (times[after] - times[here] <= window) & (sources[here] == sources[after])
        same &= (clicks[here] >= 0) & (clicks[after] >= 0) & (clicks[here] != clicks[after])
        same &= lengths[:-1] == lengths[1:]
        found.append(piece.start + 1 + np.flatnonzero(same))
    rows = np.concatenate(found)
    begins = np.zeros(len(clicks) + 1, dtype=np.bool_)  # users without a row begin with the next
    begins[user_offsets] = True
    return rows[~begins[rows]]


def _same_items(rows: Int64Array, slate_offsets: Int64Array, slate_items: Integers) -> Bools:
    """Return whether each interaction shows the items of the one before, which are as many."""
    out = np.ones(len(rows), dtype=np.bool_)
    for piece in pieces(len(rows)):
        some = rows[piece]
        lengths = slate_offsets[some + 1] - slate_offsets[some]
        own, before = (slate_items[ranges(slate_offsets[r], lengths)] for r in (some, some - 1))
        number = np.repeat(np.arange(len(some)), lengths)
        out[piece] = np.bincount(number, own != before, len(some)) == 0
    return out
