"""Rows of different lengths, stored as one flat array and offsets."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]

_PIECE = 1 << 22


def pieces(length: int) -> Iterator[slice]:
    """Divide `length` values into slices small enough to be held in memory."""
    return (slice(start, min(start + _PIECE, length)) for start in range(0, length, _PIECE))


def offsets_of(lengths: npt.NDArray[np.integer]) -> Int64Array:
    """Return where each row starts, and the end of the last: lengths [N] -> offsets [N + 1]."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def ranges(starts: npt.NDArray[np.integer], lengths: npt.NDArray[np.integer]) -> Int64Array:
    """Concatenate `arange(start, start + length)` over all rows, without a loop."""
    ends = np.cumsum(lengths, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - lengths), lengths)


def row_sums(values: npt.NDArray[np.uint64], offsets: Int64Array) -> npt.NDArray[np.uint64]:
    """Sum each row, modulo 2**64; an empty row sums to zero."""
    sums = np.zeros(len(offsets) - 1, dtype=np.uint64)
    filled = offsets[1:] > offsets[:-1]
    if filled.any():
        sums[filled] = np.add.reduceat(values, offsets[:-1][filled], dtype=np.uint64)
    return sums
