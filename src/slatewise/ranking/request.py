"""What a request asks with, and what it gets."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slatewise.errors import SlatewiseError
from slatewise.ranking.columns import Floats32
from slatewise.ranking.table import Ints, ItemTable

Floats = npt.NDArray[np.float64]


class Ranking(NamedTuple):
    """The best items, best first; of equal scores the lower item number comes first."""

    items: Ints
    """Item numbers [..., k]; -1 where there are fewer items than k."""
    scores: Floats
    """Their scores [..., k]; -inf where there is no item."""

    def renumbered(self, numbers: Ints | None) -> "Ranking":
        """Return the ranking with item i called numbers[i]."""
        if numbers is None or not len(numbers):
            return self
        return Ranking(np.where(self.items < 0, -1, numbers[self.items]), self.scores)


def sorted_ranking(scores: Floats, items: Ints, k: int) -> Ranking:
    """Put the best [..., n] in order, and fill up to k."""
    order = np.lexsort((items, -scores))
    missing = [(0, 0)] * (scores.ndim - 1) + [(0, k - scores.shape[-1])]
    return Ranking(
        np.pad(np.take_along_axis(items, order, -1), missing, constant_values=-1),
        np.pad(np.take_along_axis(scores, order, -1), missing, constant_values=-np.inf),
    )


def checked_profiles(table: ItemTable, profiles: npt.ArrayLike, k: int, axes: int) -> Floats32:
    """Return profiles [..., D] of so many axes as floats, refusing what cannot be ranked by."""
    if k < 1:
        raise SlatewiseError(f"A ranking of {k} items was asked for.", "Ask for one or more.")
    rows: npt.NDArray[Any] = np.ascontiguousarray(profiles, np.float32)
    if rows.ndim != axes or rows.shape[-1] != table.dimensions:
        raise SlatewiseError(
            f"Profiles have the shape {list(rows.shape)}.",
            f"Give {'[n, D]' if axes == 2 else '[D]'} with D = {table.dimensions}.",
        )
    if not np.isfinite(rows).all():
        raise SlatewiseError("A profile is not finite.", "Look where it was computed.")
    return rows
