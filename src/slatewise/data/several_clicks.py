"""Slates that were clicked several times: which interactions are further clicks on the same slate.

A slate with its clicks in order is one thing that happened. A dataset has an interaction for each
of its clicks, one after the other: of the same user, time and source, with the same items in the
same order, and a click that was not yet made. A slate shown again later is another slate.
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
) -> npt.NDArray[np.int32] | None:
    """Count the clicks made before on the same slate: [N], None where no slate has several."""
    rows = _alike(user_offsets, times, sources, clicks, slate_offsets)
    rows = rows[_same_items(rows, slate_offsets, slate_items)]
    goes_on = np.zeros(len(clicks), dtype=np.bool_)
    goes_on[rows] = True
    while len(rows):
        number = np.arange(len(clicks), dtype=np.int64)
        first = np.maximum.accumulate(np.where(goes_on, 0, number))  # [N] where its slate begins
        chain = np.union1d(rows, rows - 1)
        key = np.stack([first[chain], clicks[chain]])
        again = np.ones(len(chain), dtype=np.bool_)
        again[np.unique(key, axis=1, return_index=True)[1]] = False
        again &= goes_on[chain]
        if not again.any():
            return (number - first).astype(np.int32)
        # A second click on the same item begins another slate: the first such of each, then again.
        _, earliest = np.unique(first[chain[again]], return_index=True)
        goes_on[chain[again][earliest]] = False
        rows = np.flatnonzero(goes_on)
    return None


def _alike(
    user_offsets: Int64Array,
    times: Int64Array,
    sources: Integers,
    clicks: Integers,
    slate_offsets: Int64Array,
) -> Int64Array:
    """Return interactions that may be further clicks, as far as single numbers tell."""
    found = [np.empty(0, np.int64)]
    for piece in pieces(max(0, len(clicks) - 1)):
        here, after = piece, slice(piece.start + 1, piece.stop + 1)
        lengths = np.diff(slate_offsets[piece.start : piece.stop + 2])
        same = (times[here] == times[after]) & (sources[here] == sources[after])
        same &= (clicks[here] >= 0) & (clicks[after] >= 0) & (clicks[here] != clicks[after])
        same &= lengths[:-1] == lengths[1:]
        found.append(piece.start + 1 + np.flatnonzero(same))
    rows = np.concatenate(found)
    return rows[~np.isin(rows, user_offsets[:-1])]


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
