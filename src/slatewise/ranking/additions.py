"""What one request adds to the scores of items, beside their biases and relevance.

J profiles of a request, P features of an item, m items with an offset of their own.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slatewise.errors import SlatewiseError
from slatewise.ranking.table import Ints, ItemTable

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Additions:
    """Weights of the features that all items have, and offsets of a few items.

    With several profiles each has its own, in one more axis in front.
    """

    weights: npt.ArrayLike | None = None
    """Of the features in the table [P]; None adds nothing."""
    items: npt.ArrayLike = ()
    """Numbers of items [m], each once."""
    offsets: npt.ArrayLike | None = None
    """What is added to their scores [m]."""


NO_ADDITIONS = Additions()
"""Bias and relevance alone."""


class AdditionArrays(NamedTuple):
    """Additions as the loops read them; nothing is added where P or m is 0."""

    weights: Floats  # [J, P]
    items: Ints  # [m], in order
    offsets: Floats  # [J, m]

    def only(self, kept: npt.NDArray[np.bool_]) -> "AdditionArrays":
        """Return them with some of the items [m]."""
        if not len(kept) or kept.all():
            return self
        # In this order of the axes: for another one the loops would be compiled again.
        offsets = np.ascontiguousarray(self.offsets[:, kept])
        return self._replace(items=self.items[kept], offsets=offsets)

    def without(self, items: Ints) -> "AdditionArrays":
        """Return them without some items [n]."""
        return self.only(~np.isin(self.items, items)) if len(self.items) else self

    def within(self, numbers: Ints | None) -> "AdditionArrays":
        """Return them for a table of the items `numbers` of the whole; None leaves them."""
        if numbers is None:
            return self
        part = self.only(np.isin(self.items, numbers))
        return part._replace(items=np.searchsorted(numbers, part.items))

    def offsets_of(self, items: Ints) -> Floats:
        """Return the offsets of items [n], 0 for those without: [J, n]."""
        result = np.zeros((len(self.offsets), len(items)))
        if len(self.items):
            indices = np.searchsorted(self.items, items).clip(max=len(self.items) - 1)
            found = self.items[indices] == items
            result[:, found] = self.offsets[:, indices[found]]
        return result


def arrays_of(table: ItemTable, given: Additions, count: int | None) -> AdditionArrays:
    """Check additions against a table: of `count` profiles, or of one without that axis."""
    if given is NO_ADDITIONS:
        nothing = np.zeros((1 if count is None else count, 0))
        return AdditionArrays(nothing, np.empty(0, np.int64), nothing)
    items, front = table.checked(given.items), () if count is None else (count,)
    weights = _values(given.weights, (*front, table.num_features), "Weights", "P")
    offsets = _values(given.offsets, (*front, len(items)), "Offsets", "m")
    if given.offsets is None and len(items):
        raise SlatewiseError(f"{len(items)} items have no offsets.", "Give offsets [..., m].")
    if given.weights is None:
        weights = weights[:, :0]
    order = np.argsort(items)
    if (np.diff(items[order]) == 0).any():
        raise SlatewiseError("An item has two offsets.", "Give each once.")
    return AdditionArrays(weights, items[order], np.ascontiguousarray(offsets[:, order]))


def _values(given: npt.ArrayLike | None, wanted: tuple[int, ...], name: str, letter: str) -> Floats:
    values = np.zeros(wanted) if given is None else np.ascontiguousarray(given, np.float64)
    if values.shape != wanted:
        raise SlatewiseError(
            f"{name} have the shape {list(values.shape)}.",
            f"Give [..., {letter}], here {list(wanted)}.",
        )
    if not np.isfinite(values).all():
        raise SlatewiseError(f"{name} are not finite.", "Look where they were computed.")
    return values if len(wanted) == 2 else values[None]
