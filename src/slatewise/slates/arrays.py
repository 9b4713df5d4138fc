"""Arrays of items: such as grow at the end, and rows of those that know only some items."""

from typing import Any

import numpy as np
import numpy.typing as npt


def rows_or_zero(
    table: npt.NDArray[np.float32], rows: npt.NDArray[np.integer]
) -> npt.NDArray[np.float32]:
    """Return rows [n] of a table [I, F], 0 for those beyond it: [n, F]."""
    result = np.zeros((len(rows), table.shape[1]), np.float32)
    inside = rows < len(table)
    result[inside] = table[rows[inside]]
    return result


class GrowingArray:
    """A one-dimensional array with room to spare, copied only now and then."""

    def __init__(self, dtype: type, fill: int = 0) -> None:
        self._array: npt.NDArray[Any] = np.full(64, fill, dtype)
        self._fill = fill
        self._size = 0

    def __len__(self) -> int:
        """Return how many values there are."""
        return self._size

    @property
    def values(self) -> npt.NDArray[Any]:
        """The values, without a copy; what is changed in it is changed."""
        return self._array[: self._size]

    def extend(self, values: npt.ArrayLike) -> None:
        """Put values at the end."""
        added = np.asarray(values, self._array.dtype)
        start = self._size
        self.resize(start + len(added))
        self._array[start : start + len(added)] = added

    def resize(self, size: int) -> None:
        """Grow to at least `size` values; new ones are the fill value."""
        if size > len(self._array):
            larger = np.full(max(size, 2 * len(self._array)), self._fill, self._array.dtype)
            larger[: self._size] = self._array[: self._size]
            self._array = larger
        self._size = max(self._size, size)
