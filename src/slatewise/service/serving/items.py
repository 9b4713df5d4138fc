"""Every item the service has heard of, and every change of those it offers, in few bytes.

Items are known by their place in one list, which all models of a worker share: ids are text, and a
million of them in every model would be most of the memory. Places are given as ids come up and mean
nothing elsewhere; what a slate depends on is the order of the changes, which the store has.
"""

import threading
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from slatewise.service.serving.growing import Growing
from slatewise.service.store.records import Item, ItemState

Places = npt.NDArray[np.int64]

_PAGE: Final = 20_000


class ItemSource(Protocol):
    """What is asked of the store."""

    def item_seq(self) -> int:
        """Return the number of the last change."""

    def item_changes(self, since: int, until: int | None = None) -> list[Item]:
        """Return the changes after a number, up to and with another, in order."""


class Changes(NamedTuple):
    """Changes of items, in order: C of them."""

    places: Places
    """[C]"""
    groups: Places
    """[C] into `ItemLog.groups`"""
    shown: npt.NDArray[np.bool_]
    """[C] whether the item may be shown from here on"""
    described: Places
    """[C] the number of the change that told the item's features; 0 if none did"""


class ItemLog:
    """The items and their changes, as far as they have been read."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        """by place"""
        self.groups: list[str] = []
        self.sources: list[str] = []
        """where slates came from, by number"""
        self.number = 0
        """of the last change that was read"""
        self._places: dict[str, int] = {}
        self._group_places: dict[str, int] = {}
        self._source_numbers: dict[str, int] = {}
        self._numbers = Growing(np.int64)
        self._changed = Growing(np.int32)
        self._to_group = Growing(np.int32)
        self._shown = Growing(np.bool_)
        self._described = Growing(np.int64)
        self._reading, self._naming = threading.Lock(), threading.Lock()

    def read(self, store: ItemSource, until: int | None = None) -> None:
        """Read what is new in the store, or what was new up to a number."""
        last = store.item_seq() if until is None else until
        with self._reading:
            while self.number < last:
                end = min(self.number + _PAGE, last)
                self._take(store.item_changes(self.number, end))
                self.number = end

    def changes(self, since: int, until: int) -> Changes:
        """Return the changes after a number, up to and with another."""
        first, last = np.searchsorted(self._numbers.values, [since, until], side="right")
        part = slice(int(first), int(last))
        return Changes(
            self._changed.values[part].astype(np.int64),
            self._to_group.values[part].astype(np.int64),
            self._shown.values[part],
            self._described.values[part],
        )

    def places(self, ids: Iterable[str]) -> Places:
        """Return the places of ids [n]; one that is new gets a place."""
        return np.array([self._place(item) for item in ids], dtype=np.int64)

    def find(self, ids: Iterable[str]) -> Places:
        """Return the places of ids [n], −1 for what nobody has heard of."""
        return np.array([self._places.get(item, -1) for item in ids], dtype=np.int64)

    def source_numbers(self, names: Iterable[str]) -> Places:
        """Return the numbers of sources [n]; one that is new gets a number."""
        return np.array([self._source(name) for name in names], dtype=np.int64)

    def _take(self, items: Sequence[Item]) -> None:
        self._changed.extend(self.places(item.item_id for item in items))
        self._to_group.extend([self._group(item.group) for item in items])
        self._shown.extend([item.state is ItemState.SHOWN for item in items])
        self._described.extend([item.described for item in items])
        self._numbers.extend([item.seq for item in items])

    def _place(self, item: str) -> int:
        place = self._places.get(item)
        if place is not None:
            return place
        with self._naming:
            if item not in self._places:
                self.ids.append(item)
                self._places[item] = len(self.ids) - 1
            return self._places[item]

    def _source(self, name: str) -> int:
        with self._naming:
            if name not in self._source_numbers:
                self.sources.append(name)
                self._source_numbers[name] = len(self.sources) - 1
            return self._source_numbers[name]

    def _group(self, name: str) -> int:
        if name not in self._group_places:
            self._group_places[name] = len(self.groups)
            self.groups.append(name)
        return self._group_places[name]
