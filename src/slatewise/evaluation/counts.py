"""Counts for the baselines: clicks, views and successions of clicks in training data."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.data.ragged import Int64Array, offsets_of
from slatewise.evaluation.parts import part_bounds
from slatewise.evaluation.rows import row_numbers

BATCH_USERS: Final = 4_096


def training_batches(
    dataset: SlateDataset, users: Int64Array, batch_users: int = BATCH_USERS
) -> Iterator[Interactions]:
    """Yield the training interactions of users [B], batch by batch."""
    everything = dataset.interactions()
    _, ends = part_bounds(dataset, "training")
    for start in range(0, len(users), batch_users):
        batch = torch.from_numpy(users[start : start + batch_users])
        yield everything.of_users(batch, ends[batch])


def last_clicked(interactions: Interactions) -> Int64Array:
    """Return the item that the user clicked last before each interaction, -1 for none: [N]."""
    clicked = interactions.clicked_items.numpy().astype(np.int64)
    steps = np.arange(len(clicked))
    latest = np.maximum.accumulate(np.where(clicked >= 0, steps, -1))  # at or before n
    before = np.concatenate([[-1], latest[:-1]])[: len(clicked)]
    offsets = interactions.user_offsets.numpy()
    own = before >= offsets[row_numbers(offsets)]
    return np.where(own, clicked[before], -1)


@dataclass(frozen=True)
class Successions:
    """How often a click on one item was followed by a click on another, by the same user."""

    keys: Int64Array
    """[P] earlier item * I + later item, ascending"""
    counts: Int64Array
    """[P]"""
    starts: Int64Array
    """[I + 1] where the pairs of each earlier item begin"""

    @classmethod
    def of(cls, keys: Int64Array, counts: Int64Array, num_items: int) -> "Successions":
        """Add up the counts of equal keys."""
        unique, inverse = np.unique(keys, return_inverse=True)
        summed = np.bincount(inverse, counts, len(unique)).astype(np.int64)
        starts = offsets_of(np.bincount(unique // num_items, minlength=num_items))
        return cls(unique, summed, starts)

    def lookup(self, keys: Int64Array) -> Int64Array:
        """Return the counts of any keys."""
        if not len(self.keys):
            return np.zeros(len(keys), dtype=np.int64)
        index = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[index] == keys, self.counts[index], 0)


@dataclass(frozen=True)
class Counts:
    """Clicks and views of each item, and successions of clicks."""

    clicks: Int64Array
    """[I]"""
    views: Int64Array
    """[I]"""
    successions: Successions

    @classmethod
    def of(cls, dataset: SlateDataset, users: Int64Array) -> "Counts":
        """Count in the training interactions of users [B]."""
        items = dataset.num_items
        clicks, views = np.zeros((2, items), dtype=np.int64)
        keys: list[Int64Array] = [np.zeros(0, dtype=np.int64)]
        for batch in training_batches(dataset, users):
            clicked = batch.clicked_items.numpy().astype(np.int64)
            before = last_clicked(batch)
            clicks += np.bincount(clicked[clicked >= 0], minlength=items)
            seen = batch.choices(batch.first_choices)  # each slate once
            views += np.bincount(batch.slate_items[seen].numpy(), minlength=items)
            both = (clicked >= 0) & (before >= 0)
            keys.append(before[both] * items + clicked[both])
        flat: npt.NDArray[np.int64] = np.concatenate(keys)
        return cls(clicks, views, Successions.of(flat, np.ones_like(flat), items))

    def __add__(self, other: "Counts") -> "Counts":
        """Add the counts of other users."""
        first, second = self.successions, other.successions
        return Counts(
            self.clicks + other.clicks,
            self.views + other.views,
            Successions.of(
                np.concatenate([first.keys, second.keys]),
                np.concatenate([first.counts, second.counts]),
                len(self.clicks),
            ),
        )
