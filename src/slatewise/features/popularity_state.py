"""Popularity as serving keeps it: the present of every item, in memory that does not grow."""

from collections.abc import Sequence

import numpy as np

from slatewise.data import SlateDataset
from slatewise.data.ragged import Int64Array
from slatewise.errors import SlatewiseError
from slatewise.features.popularity import Floats, Popularity, Sums, require_clock, stream
from slatewise.features.showings import Showing, as_interactions


class PopularityState:
    """Sums of all events so far; what it says is what training saw at that time."""

    def __init__(self, popularity: Popularity, sums: Sums) -> None:
        self.popularity, self.sums = popularity, sums

    @classmethod
    def empty(cls, popularity: Popularity, num_items: int) -> "PopularityState":
        """Return the state before any event."""
        return cls(popularity, Sums.empty(num_items, popularity))

    @classmethod
    def of(cls, popularity: Popularity, dataset: SlateDataset) -> "PopularityState":
        """Return the state after everything in a dataset, whatever its split."""
        require_clock(dataset)
        state = cls.empty(popularity, dataset.num_items)
        stream(popularity, dataset.interactions(), state.sums)
        return state

    def add(self, showings: Sequence[Showing]) -> None:
        """Take slates and clicks of any users into account.

        They may come in any order, also late. In time order, the numbers are the same to the last
        bit however the events are divided into calls.
        """
        stream(self.popularity, as_interactions(showings), self.sums)

    def features(self, time: int, items: Int64Array | None = None) -> Floats:
        """Return the features of items [K], or of all, at a time: [K, 2 H].

        The state knows no past: a time before an event that it has seen is refused.
        """
        from slatewise.features import _popularity_numba as loops  # noqa: PLC0415 (numba takes time to load)

        known = self.popularity
        items = np.arange(len(self.sums.tick)) if items is None else items
        out = np.empty((len(items), len(known.names)), dtype=np.float32)
        now = int(known.ticks(np.array([time]))[0])
        bad = loops.describe_items(
            items, now, known.steps, known.rate, known.settings.strength, *self.sums.arrays, out
        )
        if bad >= 0:
            raise _refusal(int(items[bad]), len(self.sums.tick))
        return out


def _refusal(item: int, num_items: int) -> SlatewiseError:
    if not 0 <= item < num_items:
        return SlatewiseError(
            f"there is no item {item}: {num_items:,} are known.", "Items are numbered from 0."
        )
    return SlatewiseError(
        f"item {item} has events after the time asked for.",
        "Ask for a time after all events, or ask a PopularityIndex.",
    )
