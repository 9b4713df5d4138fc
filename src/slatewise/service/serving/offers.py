"""The items that a model may show now: rows of its table for places of the `ItemLog`.

Items that the model was trained with have the first rows. Others get the next rows in the order of
the changes that brought them, and are where their groups say and, if the model reads any, their
features: so the rows depend on the model and on the changes alone, and a slate can be made again
from the log. (Random numbers go by rows.)
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from slatewise.features.user_history import UserHistory
from slatewise.ranking import ItemTable
from slatewise.service.serving.described import Told
from slatewise.service.serving.growing import Growing
from slatewise.service.serving.items import Changes, ItemLog, Places
from slatewise.slates.predictive import Said

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
NewRows = tuple[Floats, Floats, Floats, Floats]
"""means and scales [R, D], biases and their scales [R]"""
NewItems = Callable[[Ints, Said | None], NewRows]
"""What is believed of new items of groups [R], as numbers of the model, by what their features say
where it reads any."""


class Offers:
    """Which items stand in which rows, and which of them are shown."""

    def __init__(
        self,
        log: ItemLog,
        table: ItemTable,
        ids: Iterable[str],
        group_names: Sequence[str],
        source_names: Sequence[str],
        new_items: NewItems,
    ) -> None:
        self.log = log
        self.table = table
        self.applied = 0
        """the number of the last change that is taken into account"""
        self.shown = 0
        """how many items may be shown"""
        self.renumbered = 0
        """how often an item got a row, or another one"""
        self.group_names = list(group_names)
        self._groups = {name: number for number, name in enumerate(group_names)}
        self._sources = {name: number for number, name in enumerate(source_names)}
        self._new_items = new_items
        self._rows = Growing(np.int32, fill=-1)  # by place
        self._on = Growing(np.bool_)  # by place
        self._described = Growing(np.int64)  # by place
        self._places = Growing(np.int32)  # by row
        self._trained = table.num_items
        self._features: Floats = np.zeros((0, table.num_features), np.float32)
        trained = log.places(ids)
        self._places.extend(trained)
        self._fit()
        self._rows.values[trained] = np.arange(len(trained))
        table.set_available(np.arange(table.num_items), False)

    def described(self, until: int) -> Ints:
        """Return which changes told the features of items that `apply` may have to place."""
        changes = self.log.changes(self.applied, until)
        rows = self.rows(changes.places)
        return np.unique(changes.described[(rows < 0) | (rows >= self._trained)])

    def apply(self, until: int, told: Told | None = None) -> None:
        """Take changes into account up to a number that the log has read.

        For a model that reads features, `told` is what those that are `described` say.
        """
        if until <= self.applied:
            return
        changes = self.log.changes(self.applied, until)
        if told is None:  # to a model that does not read them, other features are no change
            changes = changes._replace(described=np.zeros_like(changes.described))
        self._fit()
        groups = self._numbers_of_groups(changes)
        before = self._rows.values[changes.places].copy()
        self._add_rows(changes, groups, told)
        self._show(changes, groups, before)
        self.applied = until

    def rows(self, places: Places) -> Ints:
        """Return the rows of places [n], −1 where the model knows no such item."""
        known = self._rows.values
        inside = (places >= 0) & (places < len(known))
        return np.where(inside, known[np.where(inside, places, 0)], -1) if len(known) else places

    def find(self, ids: Sequence[str]) -> tuple[Ints, list[str]]:
        """Return the rows of ids that are known, in order, and the ids that are not."""
        if not ids:
            return np.empty(0, np.int64), []
        rows = self.rows(self.log.find(ids))
        unknown = [item for item, row in zip(ids, rows.tolist(), strict=True) if row < 0]
        return rows[rows >= 0], unknown

    def history(self, history: UserHistory) -> tuple[UserHistory, list[str]]:
        """Return a history in the model's rows and sources, and clicked ids that it does not know.

        `history` is in the numbers of the log.
        """
        items = self.rows(history.items.astype(np.int64))
        known = [self._sources.get(name, -1) for name in self.log.sources]
        sources = np.array(known, np.int64)[history.sources] if known else history.sources
        lost = history.clicked[items[history.clicks] < 0]
        unknown = list(dict.fromkeys(self.ids_of_places(lost)))
        return history.renumbered(items, sources), unknown

    def ids_of(self, rows: Ints) -> list[str]:
        """Return the ids of items in rows [n]."""
        return self.ids_of_places(self._places.values[rows])

    def ids_of_places(self, places: npt.NDArray[np.integer]) -> list[str]:
        """Return the ids of places [n]."""
        return [self.log.ids[place] for place in places.tolist()]

    def groups_of(self, rows: Ints) -> list[str]:
        """Return the groups of items in rows [n]."""
        return [self.group_names[group] for group in self.table.groups[rows].tolist()]

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

    def set_features(self, features: Floats) -> None:
        """Give items features [P, F] by place; 0 beyond. Rows to come have them too."""
        self._features = features
        self.table.set_features(self._features_of(self._places.values))

    def _features_of(self, places: npt.NDArray[np.integer]) -> Floats:
        """Return the features of places [n]: [n, F]."""
        result = np.zeros((len(places), self._features.shape[1]), np.float32)
        inside = places < len(self._features)
        result[inside] = self._features[places[inside]]
        return result

    def _fit(self) -> None:
        """Make room for all places there are."""
        self._rows.resize(len(self.log.ids))
        self._on.resize(len(self.log.ids))
        self._described.resize(len(self.log.ids))

    def _numbers_of_groups(self, changes: Changes) -> Ints:
        """Return the groups of changes [C] as numbers of the model, after new names got one."""
        seen, first = np.unique(changes.groups, return_index=True)
        numbers = np.full(len(self.log.groups), -1, np.int64)
        for group in seen[np.argsort(first)].tolist():
            name = self.log.groups[group]
            if name not in self._groups:
                self._groups[name] = len(self.group_names)
                self.group_names.append(name)
            numbers[group] = self._groups[name]
        return numbers[changes.groups]

    def _needing_rows(self, changes: Changes, groups: Ints) -> Ints:
        """Return the changes after which an item has no row yet, or another group or features.

        An item that training knew keeps what was learned of it.
        """
        order = np.argsort(changes.places, kind="stable")
        places = changes.places[order]
        now = np.stack([groups[order], changes.described[order]])
        rows = self._rows.values[places]
        old = np.stack([np.full(len(places), -1, np.int64), self._described.values[places]])
        old[0, rows >= 0] = self.table.groups[rows[rows >= 0]]
        again = np.flatnonzero(places[1:] == places[:-1]) + 1
        old[:, again] = now[:, again - 1]
        self._described.values[places] = now[1]  # of an item that is named twice, the last
        learned = (rows >= 0) & (rows < self._trained)
        return np.sort(order[(now != old).any(axis=0) & ~learned])

    def _add_rows(self, changes: Changes, groups: Ints, told: Told | None) -> None:
        """Give rows to the items that need one."""
        needed = self._needing_rows(changes, groups)
        if not len(needed):
            return
        start = self.table.num_items
        said = None if told is None else told.of(changes.described[needed])
        means, scales, biases, unsure = self._new_items(groups[needed], said)
        features = self._features_of(changes.places[needed])
        self.table.append(means, scales, biases, groups[needed], unsure, features)
        self._places.extend(changes.places[needed])
        # Of an item that is named twice, the last row counts; earlier ones are never shown.
        self._rows.values[changes.places[needed]] = np.arange(start, start + len(needed))
        self.table.set_available(np.arange(start, start + len(needed)), False)
        self.renumbered += 1

    def _show(self, changes: Changes, groups: Ints, before: npt.NDArray[np.int32]) -> None:
        """Show and hide what the changes say in the end."""
        places, last = np.unique(changes.places[::-1], return_index=True)
        last = len(changes.places) - 1 - last
        rows, on = self._rows.values[places].astype(np.int64), changes.shown[last]
        # Only what differs: a page that is written to is no longer shared with other workers.
        other = (rows < self._trained) & (self.table.groups[rows] != groups[last])
        self.table.set_groups(rows[other], groups[last[other]])
        self.table.set_available(before[before >= 0].astype(np.int64), False)
        self.table.set_available(rows[on], True)
        self.shown += int(on.sum()) - int(self._on.values[places].sum())
        self._on.values[places] = on
