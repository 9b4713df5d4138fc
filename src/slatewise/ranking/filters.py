"""What one request may be answered with."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slatewise.errors import SlatewiseError
from slatewise.ranking.table import Ints, ItemTable


@dataclass(frozen=True)
class Filter:
    """Which items one request may be answered with, beside those that are not available."""

    exclude: npt.ArrayLike = ()
    """Item numbers [n] that must not be ranked."""
    allow: npt.ArrayLike | None = None
    """Item numbers [n] outside which nothing may be ranked; None allows all."""
    caps: npt.ArrayLike | None = None
    """The most items of each group [G] in one ranking; -1 sets no limit."""


NO_FILTER = Filter()
"""Everything that is available may be ranked."""


class Rules(NamedTuple):
    """A filter as the loops read it; an empty array sets no rule."""

    excluded: Ints  # [n], in order
    allowed: npt.NDArray[np.bool_]  # [I] or [0]
    caps: Ints  # [G] or [0]

    def passing(self, items: Ints) -> npt.NDArray[np.bool_]:
        """Return which of the items [n] the filter lets pass."""
        if not len(items):  # most requests; NumPy takes 20 µs to find that out
            return np.empty(0, np.bool_)
        passing = ~np.isin(items, self.excluded)
        return passing & self.allowed[items] if len(self.allowed) else passing

    def without(self, items: Ints) -> "Rules":
        """Return rules that exclude some items [n] too."""
        if not len(items):
            return self
        # Twice in it does no harm, here either.
        return self._replace(excluded=np.sort(np.concatenate([self.excluded, items])))


FEW = 64
"""An allow list below this share of all items is ranked as a table of its own: gathering an item
costs about as much as passing by this many."""


def narrowed(table: ItemTable, filter: Filter) -> tuple[ItemTable, Filter, Ints | None]:
    """Return a table, a filter of it, and which items of the whole they are (None: all)."""
    if filter.allow is None:
        return table, filter, None
    allowed = np.unique(table.checked(filter.allow))
    if len(allowed) * FEW > table.num_items:
        return table, filter, None
    numbers = np.setdiff1d(allowed, table.checked(filter.exclude), assume_unique=False)
    return table.take(numbers), Filter(caps=filter.caps), numbers


def rules(table: ItemTable, filter: Filter) -> Rules:
    """Check a filter against a table, and lay it out."""
    allowed = np.zeros(0, np.bool_)
    if filter.allow is not None:
        allowed = np.zeros(table.num_items, np.bool_)
        allowed[table.checked(filter.allow)] = True
    # Twice in it does no harm, and to look for that costs three times as much.
    return Rules(np.sort(table.checked(filter.exclude)), allowed, _caps(table, filter))


def _caps(table: ItemTable, filter: Filter) -> Ints:
    if filter.caps is None:
        return np.empty(0, np.int64)
    caps = np.asarray(filter.caps)
    if caps.ndim != 1 or caps.dtype.kind not in "iu" or caps.min(initial=0) < -1:
        raise SlatewiseError("Caps must be a list of whole numbers.", "Use -1 for no limit.")
    if len(caps) < table.num_groups:
        raise SlatewiseError(
            f"There are caps for {len(caps)} groups of {table.num_groups}.",
            "Give one for every group.",
        )
    return caps.astype(np.int64)
