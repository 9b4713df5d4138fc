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


def no_ranking(*shape: int) -> Ranking:
    """Return places without items."""
    return Ranking(np.full(shape, -1), np.full(shape, -np.inf))


def whole_ranking(scores: Floats, items: Ints, k: int, numbers: Ints | None) -> Ranking:
    """Fill the best [..., n] up to k; item i is numbers[i] of the whole table (None: i)."""
    if numbers is not None:
        items = numbers[items]
    found = items.shape[-1]
    if found == k:
        return Ranking(items, scores)
    shape = (*items.shape[:-1], k)
    ranking = no_ranking(*shape)
    ranking.items[..., :found] = items
    ranking.scores[..., :found] = scores
    return ranking


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
