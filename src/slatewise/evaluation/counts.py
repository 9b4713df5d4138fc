"""Counts for the baselines: clicks, views and successions of clicks in training data."""

from dataclasses import dataclass

import numpy as np

from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.data.ragged import Int64Array, offsets_of
from slatewise.evaluation.rows import row_numbers
from slatewise.features.showings import showing_starts
from slatewise.features.threads import ROWS, in_threads, thread_count


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
    def of(cls, keys: Int64Array, num_items: int) -> "Successions":
        """Count equal keys, in any order."""
        ordered = np.sort(keys)
        firsts = np.flatnonzero(np.diff(ordered, prepend=-1))
        return cls._of_counts(ordered[firsts], np.diff(firsts, append=len(keys)), num_items)

    @classmethod
    def _of_counts(cls, keys: Int64Array, counts: Int64Array, num_items: int) -> "Successions":
        starts = offsets_of(np.bincount(keys // num_items, minlength=num_items))
        return cls(keys, counts, starts)

    def __sub__(self, other: "Successions") -> "Successions":
        """Take away successions, all of which are among these."""
        counts = self.counts.copy()
        counts[np.searchsorted(self.keys, other.keys)] -= other.counts
        left = counts > 0
        return self._of_counts(self.keys[left], counts[left], len(self.starts) - 1)

    def lookup(self, last: Int64Array, items: Int64Array) -> Int64Array:
        """Return how often items [K] followed those of `last` [K], 0 where that is -1: [K]."""
        from slatewise.evaluation import _counts_numba as loops  # noqa: PLC0415 (numba takes time to load)

        out = np.empty(len(items), dtype=np.int64)
        loops.successions(last, items, self.starts, self.keys, self.counts, out)
        return out


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
        """Count in the training interactions of users [B], in one pass that threads divide."""
        from slatewise.evaluation import _counts_numba as loops  # noqa: PLC0415 (numba takes time to load)

        items, begins = dataset.num_items, showing_starts(dataset).numpy()
        lengths = np.diff(dataset.user_offsets)

        def count(some: Int64Array) -> tuple[Int64Array, Int64Array]:
            counts = np.zeros((2, items), dtype=np.int64)
            # Room for one a slate; what is not written takes no memory.
            keys = np.empty(int(lengths[some].sum()), dtype=np.int64)
            log = (dataset.clicks, dataset.slate_offsets, dataset.slate_items)
            rows = (some, dataset.user_offsets, dataset.train_end, begins)
            return counts, keys[: loops.count_users(*rows, *log, *counts, keys)].copy()

        threads = 1 + len(dataset.slate_items) // max(4 * items, ROWS)  # with 16 bytes an item each
        threads = min(threads, thread_count(len(dataset.slate_items)))
        found = in_threads(count, np.array_split(users, threads))
        clicks, views = np.sum([counts for counts, _ in found], axis=0)
        return cls(clicks, views, Successions.of(np.concatenate([one for _, one in found]), items))

    def __sub__(self, other: "Counts") -> "Counts":
        """Take away the counts of some of the users."""
        return Counts(
            self.clicks - other.clicks,
            self.views - other.views,
            self.successions - other.successions,
        )
