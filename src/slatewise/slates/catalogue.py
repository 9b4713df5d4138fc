"""The items on offer now: those of the model, and what came and went since it was trained."""

from collections.abc import Iterable, Sequence

import numpy as np

from slatewise.errors import SlatewiseError
from slatewise.features.item_values import Columns
from slatewise.model.fitted import ItemId, SlateModel
from slatewise.ranking import ItemTable
from slatewise.slates.predictive import Predictive
from slatewise.slates.users import Ints


class Catalogue:
    """Ids, groups and views of the items of a table; a number once given stays with its item."""

    def __init__(self, model: SlateModel, table: ItemTable) -> None:
        self._predictive = Predictive(model)
        self._table = table
        self.ids: list[ItemId] = list(model.item_ids)
        self.group_names = list(model.group_names)
        self._numbers = {item: number for number, item in enumerate(self.ids)}
        self._views = model.views.cpu().numpy().astype(np.int64)
        self._removed: set[int] = set()

    def __len__(self) -> int:
        """Return how many items there are, with the hidden and the removed."""
        return len(self.ids)

    def find(self, item: ItemId) -> int | None:
        """Return the number of an item, None if it is not known."""
        return self._numbers.get(item)

    def known(self, ids: Iterable[ItemId]) -> tuple[Ints, list[ItemId]]:
        """Return the numbers of the ids that are known, in order, and the ids that are not."""
        numbers: list[int] = []
        unknown: list[ItemId] = []
        for item in ids:
            number = self._numbers.get(item)
            if number is None:
                unknown.append(item)
            else:
                numbers.append(number)
        return np.array(numbers, dtype=np.int64), unknown

    def numbers(self, ids: Iterable[ItemId]) -> Ints:
        """Return the numbers of items, refusing any that is not known."""
        numbers, unknown = self.known(ids)
        if unknown:
            example = self.ids[0] if self.ids else None
            raise SlatewiseError(
                f"there is no item {unknown[0]!r}.",
                f"Item ids are {type(example).__name__}, such as {example!r}; add it first.",
            )
        return numbers

    def group(self, name: str) -> int:
        """Return the number of a group, refusing one that is not known."""
        if name not in self.group_names:
            raise SlatewiseError(
                f"there is no group '{name}'.",
                f"The {len(self.group_names)} groups include '{self.group_names[0]}'.",
            )
        return self.group_names.index(name)

    def groups_of(self, numbers: Ints) -> list[str]:
        """Return the groups of items by name."""
        return [self.group_names[group] for group in self._table.groups[numbers]]

    def views_of(self, numbers: Ints) -> Ints:
        """Return how often items were seen in training; 0 for those added since."""
        inside = numbers < len(self._views)
        return np.where(inside, self._views[np.where(inside, numbers, 0)], 0)

    def add(
        self, ids: Sequence[ItemId], groups: Sequence[str], features: Columns | None = None
    ) -> None:
        """Offer new items, each with what group and features predict of it (`Predictive`).

        An id that was removed comes back as a new item.
        """
        self._refuse_odd(ids, groups)
        said = None if features is None else self._predictive.read(features, len(ids))
        fresh = [name for name in dict.fromkeys(groups) if name not in self.group_names]
        self.group_names += fresh
        place = {name: number for number, name in enumerate(self.group_names)}
        numbers = np.array([place[name] for name in groups], dtype=np.int32)
        means, scales, biases, unsure = self._predictive(numbers, said)
        self._table.append(means, scales, biases, numbers, unsure)
        self._numbers |= {item: len(self.ids) + row for row, item in enumerate(ids)}
        self.ids += ids

    def hide(self, ids: Iterable[ItemId]) -> None:
        """Stop showing items, until they are shown again."""
        self._table.set_available(self.numbers(ids), False)

    def show(self, ids: Iterable[ItemId]) -> None:
        """Show items again that were hidden."""
        numbers = self.numbers(ids)
        for number in numbers.tolist():
            if number in self._removed:
                raise SlatewiseError(
                    f"item {self.ids[number]!r} was removed.", "Add it again, as a new item."
                )
        self._table.set_available(numbers, True)

    def remove(self, ids: Iterable[ItemId]) -> None:
        """Take items off for good; as past clicks they still tell of the users who made them."""
        numbers = self.numbers(ids)
        self._table.set_available(numbers, False)
        self._removed |= set(numbers.tolist())

    def _refuse_odd(self, ids: Sequence[ItemId], groups: Sequence[str]) -> None:
        """Refuse what would leave an id with two items, before anything changes."""
        if len(ids) != len(groups):
            raise SlatewiseError(
                f"{len(ids):,} items have {len(groups):,} groups.", "Give one group to each item."
            )
        if len(set(ids)) < len(ids):
            raise SlatewiseError("an item is added twice.", "Give each id once.")
        for item in ids:
            number = self._numbers.get(item)
            if number is not None and number not in self._removed:
                raise SlatewiseError(
                    f"item {item!r} is there already.", "Leave it out, or remove it first."
                )
