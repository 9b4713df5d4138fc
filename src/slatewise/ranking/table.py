"""The table of items that requests are ranked from."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from slatewise.errors import SlatewiseError
from slatewise.ranking import columns as layout
from slatewise.ranking.columns import Floats32, TableColumns

Ints = npt.NDArray[np.int64]


class ItemTable:
    """Means, scales and biases of all items, laid out for streaming.

    An item has the vector v_i ~ N(mean_i, diag scale_i²), the bias b_i ~ N(bias_i, bias_scale_i²)
    and features x_i, on which weights w of a request act: its score for a profile z is
    b_i + w · x_i − ‖z − v_i‖ or, by dot product, b_i + w · x_i + z · v_i.
    A table on disk is memory-mapped, so that processes share it; changes (`append`, `put`,
    `set_features`, `set_available`, `set_groups`) are private to the process and hold
    for requests that begin later.
    """

    def __init__(self, columns: TableColumns, num_items: int) -> None:
        self._columns = columns
        self._num_items = num_items
        self._num_groups = int(columns.groups[:num_items].max(initial=-1)) + 1
        self._changing = threading.Lock()
        self._spare: list[Floats32] = []
        self.moves = 0
        """how often `put` was called"""
        self._moved: Ints | None = None  # [C] the last of those calls that moved an item

    @classmethod
    def create(
        cls,
        means: npt.ArrayLike,
        scales: npt.ArrayLike,
        biases: npt.ArrayLike,
        groups: npt.ArrayLike,
        path: str | Path | None = None,
        bias_scales: npt.ArrayLike | None = None,
    ) -> "ItemTable":
        """Make a table of means and scales [I, D], biases, groups and scales of biases [I].

        Without scales biases are certain. With a path the table is written there and mapped;
        without, it lives in memory.
        """
        rows = _checked(means, scales, biases, groups, bias_scales)
        num_items, dimensions = rows[0].shape
        if path is None:
            return cls(_in_memory(rows), num_items)
        directory, spreads = Path(path), _spreads(rows)
        layout.write(
            directory, num_items, dimensions, spreads, lambda made: layout.fill(made, 0, *rows)
        )
        return cls.open(directory)

    @classmethod
    def open(cls, path: str | Path) -> "ItemTable":
        """Map the table in a directory that `create` wrote."""
        return cls(*layout.read(Path(path)))

    def snapshot(self) -> tuple[int, TableColumns]:
        """Return the number of items, and arrays that hold at least these."""
        num_items = self._num_items  # first: the arrays may be replaced by longer ones meanwhile
        return num_items, self._columns

    @contextmanager
    def scratch(self, size: int) -> Iterator[Floats32]:
        """Lend an array of at least `size` floats; fresh memory would cost a quarter of a pass."""
        try:
            array = self._spare.pop()
        except IndexError:
            array = np.empty(0, np.float32)
        if len(array) < size:
            array = np.empty(size, np.float32)
        yield array
        self._spare.append(array)

    def take(self, items: npt.ArrayLike) -> "ItemTable":
        """Return a table in memory of the items [n] alone, in that order."""
        rows = self.checked(items)
        values = self.means_of(rows), self.scales_of(rows), self.biases_of(rows), self.groups[rows]
        columns = _in_memory((*values, self.bias_scales_of(rows)))
        columns.offers[: len(rows)] = self._columns.offers[rows]
        features = layout.in_blocks(self.features_of(rows), columns.capacity)
        return ItemTable(columns._replace(features=features), len(rows))

    @property
    def num_items(self) -> int:
        """Count the items, available or not."""
        return self._num_items

    @property
    def num_groups(self) -> int:
        """The greatest group number that has been seen, plus one."""
        return self._num_groups

    @property
    def dimensions(self) -> int:
        """The length D of an item vector."""
        return int(self._columns.rows.shape[2])

    @property
    def num_features(self) -> int:
        """The number P of features that an item has."""
        return int(self._columns.features.shape[1])

    @property
    def groups(self) -> npt.NDArray[np.int32]:
        """The group of every item [I]."""
        return self._columns.groups[: self._num_items]

    @property
    def available(self) -> npt.NDArray[np.bool_]:
        """Whether each item may be ranked [I], as a copy."""
        available: npt.NDArray[np.bool_] = self._columns.offers[: self._num_items] > -np.inf
        return available

    def means_of(self, items: npt.ArrayLike) -> Floats32:
        """Return the means [n, D] of items [n]."""
        means: Floats32 = self._columns.rows[self.checked(items), 0]
        return means

    def scales_of(self, items: npt.ArrayLike) -> Floats32:
        """Return the scales [n, D] of items [n]."""
        scales: Floats32 = self._columns.rows[self.checked(items), 1]
        return scales

    def variances_of(self, items: npt.ArrayLike) -> Floats32:
        """Return the variances [n] of items [n], summed over dimensions."""
        variances: Floats32 = self._columns.spreads[0, self.checked(items)]
        return variances

    def biases_of(self, items: npt.ArrayLike) -> Floats32:
        """Return the biases [n] of items [n]."""
        return self._columns.biases[self.checked(items)]

    def bias_scales_of(self, items: npt.ArrayLike) -> Floats32:
        """Return the scales of the biases [n] of items [n]."""
        indices, spreads = self.checked(items), self._columns.spreads
        return spreads[2, indices] if len(spreads) > 2 else np.zeros(len(indices), np.float32)

    def features_of(self, items: npt.ArrayLike) -> Floats32:
        """Return the features [n, P] of items [n]."""
        indices = self.checked(items)
        features: Floats32 = self._columns.features[
            indices // layout.LANES, :, indices % layout.LANES
        ]
        return features

    def append(
        self,
        means: npt.ArrayLike,
        scales: npt.ArrayLike,
        biases: npt.ArrayLike,
        groups: npt.ArrayLike,
        bias_scales: npt.ArrayLike | None = None,
        features: npt.ArrayLike | None = None,
    ) -> None:
        """Add items at the end, numbered on from the last; the table is copied only when full.

        Their features [R, P] are 0 unless they are given.
        """
        rows = _checked(means, scales, biases, groups, bias_scales, self.dimensions)
        given = None if features is None else np.asarray(features, np.float32)
        if given is not None:
            _require_finite("a feature", given)
            if given.shape != (len(rows[0]), self.num_features):
                raise SlatewiseError(
                    f"Features have the shape {list(given.shape)}.", "Give [R, P] of the new items."
                )
        with self._changing:
            end, columns = self._num_items + len(rows[0]), self._columns
            spreads = max(len(columns.spreads), _spreads(rows))
            if end > columns.capacity or spreads > len(columns.spreads):
                capacity = max(columns.capacity, layout.capacity_for(end))
                self._columns = layout.grown(columns, capacity, spreads)
            layout.fill(self._columns, self._num_items, *rows)
            if given is not None:
                indices = np.arange(self._num_items, end)
                self._columns.features[indices // layout.LANES, :, indices % layout.LANES] = given
            self._num_groups = max(self._num_groups, int(rows[3].max(initial=-1)) + 1)
            self._num_items = end

    def put(
        self,
        items: npt.ArrayLike,
        means: npt.ArrayLike,
        scales: npt.ArrayLike,
        biases: npt.ArrayLike,
        bias_scales: npt.ArrayLike | None = None,
    ) -> None:
        """Replace what is believed of items [n]: means and scales [n, D], biases and theirs [n].

        Groups and availability stay. Where the table has no scales of biases, none can be given.
        """
        indices = self.checked(items)
        groups = self._columns.groups[indices]
        rows = _checked(means, scales, biases, groups, bias_scales, self.dimensions)
        if len(rows[0]) != len(indices):
            raise SlatewiseError("There are more or fewer rows than items.", "Give one for each.")
        with self._changing:
            columns = self._columns
            if rows[4].any() and len(columns.spreads) < _spreads(rows):
                raise SlatewiseError(
                    "The biases of this table are certain.", "Leave out bias_scales."
                )
            layout.put(columns, indices, rows[0], rows[1], rows[2], rows[4])
            on = columns.offers[indices] > -np.inf
            columns.offers[indices] = np.where(on, rows[2], -np.inf)
            if self._moved is None or len(self._moved) < columns.capacity:
                larger = np.zeros(columns.capacity, np.int64)
                if self._moved is not None:
                    larger[: len(self._moved)] = self._moved
                self._moved = larger
            self.moves += 1
            self._moved[indices] = self.moves

    def moved_since(self, items: npt.NDArray[np.integer[Any]], moves: int) -> bool:
        """Return whether any of items [n] has got other means since `moves` was this number."""
        moved = self._moved
        if moved is None or self.moves == moves:
            return False
        known = items[items < len(moved)]
        return int(moved[known].max(initial=0)) > moves

    def set_features(self, values: npt.ArrayLike, items: npt.ArrayLike | None = None) -> None:
        """Give all items features [I, P], or only some of them [n] others [n, P].

        They are laid out aside and replace the old ones all at once.
        """
        rows = np.asarray(values, np.float32)
        _require_finite("a feature", rows)
        indices = None if items is None else self.checked(items)
        with self._changing:
            columns = self._columns
            wanted = (self._num_items, -1) if indices is None else (len(indices), self.num_features)
            if rows.ndim != 2 or rows.shape[0] != wanted[0] or wanted[1] not in (-1, rows.shape[1]):
                raise SlatewiseError(
                    f"Features have the shape {list(rows.shape)}.",
                    "Give [I, P] for all items, or [n, P] for some with the P there is.",
                )
            if indices is None:
                features = layout.in_blocks(rows, columns.capacity)
            else:
                features = columns.features.copy()
                features[indices // layout.LANES, :, indices % layout.LANES] = rows
            self._columns = columns._replace(features=features)

    def set_available(self, items: npt.ArrayLike, on: bool) -> None:
        """Switch items [n] on or off, from the next request on."""
        indices = self.checked(items)
        with self._changing:
            columns = self._columns
            columns.offers[indices] = columns.biases[indices] if on else -np.inf

    def set_groups(self, items: npt.ArrayLike, groups: npt.ArrayLike) -> None:
        """Put items [n] into other groups [n], from the next request on."""
        indices, numbers = self.checked(items), np.asarray(groups, np.int32)
        if numbers.min(initial=0) < 0 or numbers.shape != indices.shape:
            raise SlatewiseError("Groups do not fit the items.", "Give each a number from 0 on.")
        with self._changing:
            self._columns.groups[indices] = numbers
            self._num_groups = max(self._num_groups, int(numbers.max(initial=-1)) + 1)

    def checked(self, items: npt.ArrayLike) -> Ints:
        """Return item numbers as an array [n], refusing those that are not in the table."""
        numbers = np.asarray(items)
        if numbers.size == 0:
            return np.empty(0, np.int64)
        if numbers.dtype.kind not in "iu" or numbers.ndim != 1:
            raise SlatewiseError("Items must be a list of whole numbers.", "Give item numbers.")
        numbers = numbers.astype(np.int64, copy=False)
        # One pass for both ends, since a slate asks five times: seen so, negative ones are huge.
        if np.maximum.reduce(numbers.view(np.uint64)) >= self._num_items:
            wrong = numbers[(numbers < 0) | (numbers >= self._num_items)][0]
            raise SlatewiseError(
                f"There is no item {wrong} in a table of {self._num_items:,} items.",
                "Give numbers from 0 on, below the number of items.",
            )
        return numbers


Rows = tuple[Floats32, Floats32, Floats32, npt.NDArray[np.int32], Floats32]


def _spreads(rows: Rows) -> int:
    """Count the numbers that a pass reads of an item's spread: scales of biases if there are."""
    return 3 if rows[4].any() else 2


def _in_memory(rows: Rows) -> TableColumns:
    capacity = layout.capacity_for(len(rows[0]))
    columns = layout.allocate(capacity, rows[0].shape[1], _spreads(rows))
    columns.offers[:] = -np.inf
    layout.fill(columns, 0, *rows)
    return columns


def _checked(
    means: npt.ArrayLike,
    scales: npt.ArrayLike,
    biases: npt.ArrayLike,
    groups: npt.ArrayLike,
    bias_scales: npt.ArrayLike | None,
    dimensions: int | None = None,
) -> Rows:
    rows = np.asarray(means, np.float32), np.asarray(scales, np.float32)
    spread = np.zeros(rows[0].shape[:1]) if bias_scales is None else bias_scales
    more = (
        np.asarray(biases, np.float32),
        np.asarray(groups, np.int32),
        np.asarray(spread, np.float32),
    )
    wanted = rows[0].shape
    if len(wanted) != 2 or wanted[1] == 0 or (dimensions and wanted[1] != dimensions):
        kind = f"[I, {dimensions}]" if dimensions else "[I, D]"
        raise SlatewiseError(f"Means have the shape {list(wanted)}.", f"Give an array {kind}.")
    if rows[1].shape != wanted or any(values.shape != wanted[:1] for values in more):
        raise SlatewiseError(
            "Means, scales, biases and groups are not of the same items.",
            "Give means and scales [I, D], biases and groups [I], scales of biases too.",
        )
    named = ("a mean", rows[0]), ("a scale", rows[1]), ("a bias", more[0]), ("a scale", more[2])
    for name, values in named:
        _require_finite(name, values)
    if min(values.min(initial=0) for values in (rows[1], more[1], more[2])) < 0:
        raise SlatewiseError("A scale or a group is negative.", "Give numbers from 0 on.")
    return *rows, *more


def _require_finite(name: str, values: npt.NDArray[Any]) -> None:
    # The sum is finite only if all are, and takes no second array.
    if not np.isfinite(values.sum(dtype=np.float64)):
        raise SlatewiseError(f"There is {name} that is not a finite number.", "Correct it.")
