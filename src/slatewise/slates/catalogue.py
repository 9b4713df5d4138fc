"""The items that a model may show now: rows of its table for items by id.

Items that the model was trained with have the first rows. Others get the next rows in the order of
the changes that brought them, and are where their groups say and, if the model reads any, their
features: so the rows depend on the model and on the changes alone, and a slate can be made again
from a log of changes. (Random numbers go by rows.)
"""

import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from slatewise.errors import SlatewiseError
from slatewise.model.fitted import ItemId
from slatewise.ranking import ItemTable
from slatewise.slates.arrays import GrowingArray, rows_or_zero

if TYPE_CHECKING:
    from slatewise.slates.item_reader import Descriptions

T = TypeVar("T", bound=Hashable)
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
NewRows = tuple[Floats, Floats, Floats, Floats]
"""means and scales [R, D], biases and their scales [R]"""
NewItems = Callable[[Ints, "Descriptions | None"], NewRows]
"""What is believed of new items of groups [R], as numbers of the model, by what their features say
where it reads any; called in the order of their rows."""
OfRows = Callable[[Floats, Ints], Floats]
"""Returns features [R, P] of rows [R], from what is known of their items [R, S]."""
Predict = Callable[[Ints], "Descriptions"]
"""Returns what features say, by their numbers in `Changes.features` [R]: [R, C]."""


class IdIndex(Generic[T]):
    """Ids by index; catalogues may share those of items, since a million ids are much memory.

    A number finds the text that spells it, and the reverse: a CSV has made text of all its ids.
    Indices are given as ids come up, by any thread, and mean nothing elsewhere.
    """

    def __init__(self) -> None:
        self.ids: list[T] = []
        self._indices: dict[T, int] = {}
        self._adding = threading.Lock()

    def __len__(self) -> int:
        """Return how many indices there are."""
        return len(self.ids)

    def index(self, item: T) -> int | None:
        """Return the index of an id, None if it is unknown."""
        index = self._indices.get(item)
        return self._indices.get(_other_spelling(item)) if index is None else index

    def find(self, ids: Iterable[T]) -> Ints:
        """Return the indices of ids [n], −1 for unknown ones."""
        ids = list(ids)
        found = np.array([self._indices.get(item, -1) for item in ids], dtype=np.int64)
        for number in np.flatnonzero(found < 0).tolist():
            found[number] = self._indices.get(_other_spelling(ids[number]), -1)
        return found

    def indices(self, ids: Iterable[T]) -> Ints:
        """Return the indices of ids [n]; new ones get one."""
        return np.array([self._index(item) for item in ids], dtype=np.int64)

    def renew(self, ids: Iterable[T]) -> Ints:
        """Give ids [n] new indices, whatever they had before."""
        with self._adding:
            return np.array([self._append(item) for item in ids], dtype=np.int64)

    def at(self, indices: npt.NDArray[np.integer]) -> list[T]:
        """Return the ids at indices [n]."""
        return [self.ids[index] for index in indices.tolist()]

    def _index(self, item: T) -> int:
        index = self._indices.get(item)
        if index is not None:
            return index
        with self._adding:
            return self._indices[item] if item in self._indices else self._append(item)

    def _append(self, item: T) -> int:
        self.ids.append(item)
        self._indices[item] = len(self.ids) - 1
        return self._indices[item]


def _other_spelling(item: Any) -> Any:
    """Return a number as text, and text that spells a number as that number."""
    if isinstance(item, str):
        return int(item) if item.removeprefix("-").isdecimal() else item
    return str(item)


class Changes(NamedTuple):
    """Changes of items, in order: C of them."""

    items: Ints
    """[C] by index"""
    groups: Ints
    """[C] into `group_names`"""
    group_names: Sequence[str]
    shown: npt.NDArray[np.bool_]
    """[C] whether the item may be shown from here on"""
    features: Ints
    """[C] the number of what is known of the item's features; 0 for nothing"""


class Catalogue:
    """Which items are in which rows of a table, and which of them are shown."""

    def __init__(
        self,
        table: ItemTable,
        trained: Iterable[ItemId],
        group_names: Sequence[str],
        new_items: NewItems,
        ids: IdIndex[ItemId] | None = None,
        *,
        shown: bool = True,
        views: Ints | None = None,
    ) -> None:
        """Begin with the items that the model was trained with, shown or not.

        `views` [I] are how often training saw them.
        """
        self.table = table
        self.renumbered = 0
        """how often an item got a row, or another one"""
        self.group_names = list(group_names)
        self._groups = {name: number for number, name in enumerate(group_names)}
        self._new_items = new_items
        self.views = np.empty(0, np.int64) if views is None else views
        """[I] how often training saw its items, as far as that is known"""
        self._removed: set[int] = set()
        self._ids = IdIndex[ItemId]() if ids is None else ids
        self._rows = GrowingArray(np.int32, fill=-1)  # by index
        self._on = GrowingArray(np.bool_)  # by index
        self._described = GrowingArray(np.int64)  # by index
        self._items = GrowingArray(np.int32)  # by row
        self._trained = table.num_items
        self._known: Floats = np.zeros((0, table.num_features), np.float32)  # by index
        self._of_rows: OfRows = lambda known, rows: known
        items = self._ids.indices(trained)
        self._items.extend(items)
        self._fit()
        self._rows.values[items] = np.arange(len(items))
        if not shown:
            table.set_available(np.arange(table.num_items), False)
        self._on.values[items] = table.available[: len(items)]
        self.shown = int(self._on.values.sum())
        """how many items may be shown"""

    def __len__(self) -> int:
        """Return how many rows there are, with those that are not shown."""
        return len(self._items)

    @property
    def ids(self) -> list[ItemId]:
        """The ids of all rows."""
        return self._ids.at(self._items.values)

    def ids_of(self, rows: Ints) -> list[ItemId]:
        """Return the ids of rows [n]."""
        return self._ids.at(self._items.values[rows])

    def indices_of(self, rows: Ints) -> Ints:
        """Return the indices of rows [n]."""
        return np.asarray(self._items.values[rows], np.int64)

    def ids_at(self, items: npt.NDArray[np.integer]) -> list[ItemId]:
        """Return the ids of items [n] by index."""
        return self._ids.at(items)

    def groups_of(self, rows: Ints) -> list[str]:
        """Return the groups of rows [n] by name."""
        return [self.group_names[group] for group in self.table.groups[rows].tolist()]

    def views_of(self, rows: Ints) -> Ints:
        """Return how often items were seen in training; 0 for those added since."""
        views, inside = np.zeros(len(rows), np.int64), rows < len(self.views)
        views[inside] = self.views[rows[inside]]
        return views

    def rows(self, items: Ints) -> Ints:
        """Return the rows of items [n] by index, −1 where the model knows no such item."""
        known = self._rows.values
        inside = (items >= 0) & (items < len(known))
        return np.where(inside, known[np.where(inside, items, 0)], -1) if len(known) else items

    def find(self, item: ItemId) -> int | None:
        """Return the row of an item, None if it is not known."""
        index, rows = self._ids.index(item), self._rows.values
        row = -1 if index is None or index >= len(rows) else int(rows[index])
        return None if row < 0 else row

    def known(self, ids: Iterable[ItemId]) -> tuple[Ints, list[ItemId]]:
        """Return the rows of the ids that are known, in order, and the ids that are not."""
        ids = list(ids)
        if not ids:
            return np.empty(0, np.int64), []
        rows = self.rows(self._ids.find(ids))
        unknown = [item for item, row in zip(ids, rows.tolist(), strict=True) if row < 0]
        return rows[rows >= 0], unknown

    def numbers(self, ids: Iterable[ItemId]) -> Ints:
        """Return the rows of items, refusing any that is not known."""
        rows, unknown = self.known(ids)
        if unknown:
            example = self._ids.ids[0] if self._ids.ids else None
            raise SlatewiseError(
                f"there is no item {unknown[0]!r}.",
                f"Item ids are {type(example).__name__}, such as {example!r}; add it first.",
            )
        return rows

    def caps(self, groups: Mapping[str, int] | int) -> tuple[Ints, list[str]]:
        """Return the most items of each group [G], −1 for any, and the names that are unknown."""
        if isinstance(groups, int):
            return np.full(len(self.group_names), groups, np.int64), []
        caps, unknown = np.full(len(self.group_names), -1, np.int64), []
        for name, most in groups.items():
            if name in self._groups:
                caps[self._groups[name]] = most
            else:
                unknown.append(name)
        return caps, unknown

    def set_features(self, known: Floats, of_rows: OfRows | None = None) -> None:
        """Give items what is known of them [n, S] by index, 0 beyond; rows to come have it too.

        It is their features, or what `of_rows` makes these of.
        """
        self._known = known
        self._of_rows = of_rows or (lambda known, rows: known)
        rows = np.arange(len(self._items))
        self.table.set_features(self._features(self._items.values, rows))

    def _features(self, items: npt.NDArray[np.integer], rows: Ints) -> Floats:
        """Return the features [R, P] of items [R], by index, in rows [R]."""
        return self._of_rows(rows_or_zero(self._known, items), rows)

    def add(
        self,
        ids: Sequence[ItemId],
        groups: Sequence[str],
        described: "Descriptions | None" = None,
    ) -> None:
        """Offer new items, by what groups and features say of them: [R, C].

        An id that was removed comes back as a new item.
        """
        self._refuse_known(ids, groups)
        names = list(dict.fromkeys(groups))
        number = {name: index for index, name in enumerate(names)}
        changes = Changes(
            self._ids.renew(ids),
            np.array([number[name] for name in groups], dtype=np.int64),
            names,
            np.ones(len(ids), np.bool_),
            np.arange(len(ids)),
        )
        self.apply(changes, None if described is None else described.of)

    def hide(self, ids: Iterable[ItemId]) -> None:
        """Stop showing items, until they are shown again."""
        self._show(self._items.values[self.numbers(ids)], on=False)

    def show(self, ids: Iterable[ItemId]) -> None:
        """Show items again that were hidden."""
        items = self._items.values[self.numbers(ids)]
        for item in items.tolist():
            if item in self._removed:
                raise SlatewiseError(
                    f"item {self._ids.ids[item]!r} was removed.", "Add it again, as a new item."
                )
        self._show(items, on=True)

    def remove(self, ids: Iterable[ItemId]) -> None:
        """Remove items for good; past clicks on them still count for users."""
        items = self._items.values[self.numbers(ids)]
        self._show(items, on=False)
        self._removed |= set(items.tolist())

    def untrained(self, items: Ints) -> npt.NDArray[np.bool_]:
        """Return which items [n] training did not know: `apply` may ask for their features."""
        rows = self.rows(items)
        return (rows < 0) | (rows >= self._trained)

    def apply(self, changes: Changes, predict: Predict | None = None) -> None:
        """Take changes into account, with what features say if the model reads any."""
        if predict is None:  # to a model that does not read them, other features are no change
            changes = changes._replace(features=np.zeros_like(changes.features))
        self._fit()
        groups = self._numbers_of_groups(changes)
        before = self._rows.values[changes.items].astype(np.int64)
        self._add_rows(changes, groups, predict)
        items, last = np.unique(changes.items[::-1], return_index=True)
        last = len(changes.items) - 1 - last
        rows, on = self._rows.values[items].astype(np.int64), changes.shown[last]
        # Only what differs: a page that is written to is no longer shared with other workers.
        other = (rows < self._trained) & (self.table.groups[rows] != groups[last])
        self.table.set_groups(rows[other], groups[last[other]])
        self.table.set_available(before[before >= 0], False)
        self._show(items[on], on=True)
        self._show(items[~on], on=False)

    def _fit(self) -> None:
        """Make room for all items there are."""
        for by_index in (self._rows, self._on, self._described):
            by_index.resize(len(self._ids))

    def _numbers_of_groups(self, changes: Changes) -> Ints:
        """Return the groups of changes [C] as numbers of the model, after new names got one."""
        seen, first = np.unique(changes.groups, return_index=True)
        numbers = np.full(len(changes.group_names), -1, np.int64)
        for group in seen[np.argsort(first)].tolist():
            name = changes.group_names[group]
            if name not in self._groups:
                self._groups[name] = len(self.group_names)
                self.group_names.append(name)
            numbers[group] = self._groups[name]
        return numbers[changes.groups]

    def _needing_rows(self, changes: Changes, groups: Ints) -> Ints:
        """Return the changes after which an item has no row yet, or another group or features.

        An item that training knew keeps what was learned of it.
        """
        order = np.argsort(changes.items, kind="stable")
        items = changes.items[order]
        now = np.stack([groups[order], changes.features[order]])
        rows = self._rows.values[items]
        old = np.stack([np.full(len(items), -1, np.int64), self._described.values[items]])
        old[0, rows >= 0] = self.table.groups[rows[rows >= 0]]
        again = np.flatnonzero(items[1:] == items[:-1]) + 1
        old[:, again] = now[:, again - 1]
        self._described.values[items] = now[1]  # of an item that is named twice, the last
        learned = (rows >= 0) & (rows < self._trained)
        return np.sort(order[(now != old).any(axis=0) & ~learned])

    def _add_rows(self, changes: Changes, groups: Ints, predict: Predict | None) -> None:
        """Give rows to the items that need one."""
        needed = self._needing_rows(changes, groups)
        if not len(needed):
            return
        items = changes.items[needed]
        rows = np.arange(self.table.num_items, self.table.num_items + len(needed))
        described = None if predict is None else predict(changes.features[needed])
        means, scales, biases, bias_scales = self._new_items(groups[needed], described)
        features = self._features(items, rows)
        self.table.append(means, scales, biases, groups[needed], bias_scales, features)
        self._items.extend(items)
        # Of an item that is named twice, the last row counts; earlier ones are never shown.
        self._rows.values[items] = rows
        self.table.set_available(rows, False)
        self.renumbered += 1

    def _show(self, items: npt.NDArray[np.integer], *, on: bool) -> None:
        """Show items by index, or hide them."""
        items = np.unique(items)
        self.table.set_available(self._rows.values[items].astype(np.int64), on)
        self.shown += int(on) * len(items) - int(self._on.values[items].sum())
        self._on.values[items] = on

    def _refuse_known(self, ids: Sequence[ItemId], groups: Sequence[str]) -> None:
        """Refuse what would leave an id with two items, before anything changes."""
        if len(ids) != len(groups):
            raise SlatewiseError(
                f"{len(ids):,} items have {len(groups):,} groups.", "Give one group to each item."
            )
        if len(set(ids)) < len(ids):
            raise SlatewiseError("an item is added twice.", "Give each id once.")
        for item, index in zip(ids, self._ids.find(ids).tolist(), strict=True):
            if index >= 0 and index not in self._removed:
                raise SlatewiseError(
                    f"item {item!r} is there already.", "Leave it out, or remove it first."
                )
