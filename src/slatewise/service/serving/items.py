"""Every item the service knows and every change of those it offers, in few bytes.

Indices of items mean nothing outside a worker; what a slate depends on is the order of the changes,
which the store has.
"""

import threading
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from slatewise.model.fitted import ItemId
from slatewise.service.store.records import Item, ItemState
from slatewise.slates.arrays import GrowingArray
from slatewise.slates.catalogue import Changes, IdIndex

SOURCES: Final = 10_000
"""names of sources that are told apart"""
_PAGE: Final = 20_000


class ItemSource(Protocol):
    """What is asked of the store."""

    def item_seq(self) -> int:
        """Return the number of the last change."""

    def item_changes(self, since: int, until: int | None = None) -> list[Item]:
        """Return the changes after a number, up to and with another, in order."""


class ItemLog:
    """The items and their changes, as far as they have been read."""

    def __init__(self) -> None:
        self.items = IdIndex[ItemId]()
        """shared by the catalogues of all models of a worker"""
        self.groups = IdIndex[str]()
        self.sources = IdIndex[str]()
        """where slates came from"""
        self.number = 0
        """of the last change that was read"""
        self._numbers = GrowingArray(np.int64)
        self._changed = GrowingArray(np.int32)
        self._to_group = GrowingArray(np.int32)
        self._shown = GrowingArray(np.bool_)
        self._described = GrowingArray(np.int64)
        self._reading = threading.Lock()

    def source_indices(self, names: Iterable[str]) -> npt.NDArray[np.int64]:
        """Return the indices of sources [n]; once there are SOURCES, new ones share one.

        Whoever sends slates names their sources, and models know some of them.
        """
        return np.array([self._source(name) for name in names], np.int64)

    def _source(self, name: str) -> int:
        index = self.sources.index(name)
        if index is not None:
            return index
        return int(self.sources.indices([name if len(self.sources) < SOURCES else ""])[0])

    def read(self, store: ItemSource, until: int | None = None) -> None:
        """Read what is new in the store, or what was new up to a number."""
        last = store.item_seq() if until is None else until
        with self._reading:
            while self.number < last:
                end = min(self.number + _PAGE, last)
                self._take(store.item_changes(self.number, end))
                self.number = end

    def changes(self, since: int, until: int, settled: int = 0) -> Changes:
        """Return the changes after a number, up to and with another.

        Of those up to the number `settled`, the last of each item: how it came to that is left out.
        """
        first, last = np.searchsorted(self._numbers.values, [since, until], side="right")
        part = np.arange(int(first), int(last))
        if settled > since:
            old = part[self._numbers.values[part] <= settled]
            _, newest = np.unique(self._changed.values[old][::-1], return_index=True)
            kept = np.sort(old[len(old) - 1 - newest])
            part = np.concatenate([kept, part[len(old) :]])
        return Changes(
            self._changed.values[part].astype(np.int64),
            self._to_group.values[part].astype(np.int64),
            self.groups.ids,
            self._shown.values[part],
            self._described.values[part],
        )

    def _take(self, items: Sequence[Item]) -> None:
        self._changed.extend(self.items.indices(item.item_id for item in items))
        self._to_group.extend(self.groups.indices(item.group for item in items))
        self._shown.extend([item.state is ItemState.SHOWN for item in items])
        self._described.extend([item.described for item in items])
        self._numbers.extend([item.seq for item in items])
