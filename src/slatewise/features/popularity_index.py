"""Popularity at any time of a log: for evaluation, which goes by users, not by time."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.data.ragged import Int64Array, offsets_of
from slatewise.features.popularity import (
    Floats,
    Popularity,
    Sums,
    expected_shares,
    require_clock,
)
from slatewise.features.showings import showing_starts


@dataclass(frozen=True)
class PopularityIndex:
    """The sums of every item after every tick in which it had events: R rows of 8 + 12 H bytes."""

    popularity: Popularity
    starts: Int64Array
    """[I + 1] where the rows of each item begin"""
    ticks: Int64Array
    """[R] ascending within an item"""
    sums: Floats
    """[R, H, 3] decayed clicks, views and expected clicks, those in the tick included"""

    @classmethod
    def of(cls, popularity: Popularity, dataset: SlateDataset) -> "PopularityIndex":
        """Read a whole dataset in time order, twice: to count the rows and to fill them.

        Everybody's events are in it, whatever the split: what is known at a time is what happened
        before, to anyone.
        """
        require_clock(dataset)
        return cls.of_events(popularity, dataset.interactions(), dataset.num_items)

    @classmethod
    def of_events(
        cls, popularity: Popularity, events: Interactions, num_items: int
    ) -> "PopularityIndex":
        """Index the interactions of any users."""
        from slatewise.features import _popularity_numba as loops  # noqa: PLC0415 (numba takes time to load)

        when = popularity.ticks(events.times.cpu().numpy())
        order, clicks = np.argsort(when, kind="stable"), events.clicks.cpu().numpy()
        cells = (events.slate_offsets.cpu().numpy(), events.slate_items.cpu().numpy())
        sums, counts = Sums.empty(num_items, popularity), np.zeros(num_items, dtype=np.int64)
        bad = loops.count_rows(order, when, *cells, sums.tick.copy(), counts)
        if bad >= 0:
            raise ValueError(f"interaction {bad} has an unknown item")
        starts = offsets_of(counts)
        ticks = np.empty(starts[-1], dtype=np.int64)
        rows = np.empty((len(ticks), *sums.closed.shape[1:]), dtype=np.float32)
        begins = showing_starts(events).numpy()
        shares = expected_shares(events, begins)
        changed = (sums.arrays, starts[:-1].copy(), ticks, rows)
        loops.fill_rows(order, when, begins, shares, clicks, *cells, popularity.steps, *changed)
        return cls(popularity, starts, ticks, rows)

    def features(self, items: Int64Array, times: Int64Array) -> Floats:
        """Return the features of items [K] at times [K], of what happened before: [K, 4 H + 1]."""
        return self._look_up(items, times, np.arange(len(items) + 1))

    def cells(self, interactions: Interactions) -> Tensor:
        """Return the features of every item seen, at its time: [F, 4 H + 1] float32."""
        out = self._look_up(
            interactions.slate_items.cpu().numpy(),
            interactions.times.cpu().numpy(),
            interactions.slate_offsets.cpu().numpy(),
        )
        return torch.from_numpy(out).to(interactions.clicks.device)

    def _look_up(self, items: Int64Array, times: Int64Array, offsets: Int64Array) -> Floats:
        from slatewise.features import _popularity_numba as loops  # noqa: PLC0415 (numba takes time to load)

        known = self.popularity
        out = np.empty((len(items), len(known.names)), dtype=np.float32)
        rows = (self.starts, self.ticks, self.sums)
        bad = loops.look_up(known.ticks(times), offsets, items, *rows, known.numbers, out)
        if bad >= 0:
            raise ValueError(f"slate {bad} has an unknown item")
        return out
