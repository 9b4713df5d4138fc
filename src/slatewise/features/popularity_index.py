"""Popularity at any time of a log: for evaluation, which goes by users, not by time.

Items know nothing of each other, so their past is kept item by item, and built by all threads that
torch may use. Shapes: N interactions, I items, R rows (an item and a tick with events), H
half-lives, C checkpoints, K questions.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.data.ragged import Int64Array, offsets_of
from slatewise.features.popularity import (
    Floats,
    Popularity,
    PopularityConfig,
    require_clock,
    time_order,
)
from slatewise.features.showings import showing_starts
from slatewise.features.threads import in_threads, thread_count

USUAL_TICK: Final = PopularityConfig().tick
PART: Final = 12
"""At most 2^12 items are counted together: what is known of them stays near a processor."""
EVERY: Final = 16
"""Rows from one checkpoint to the next: as long to go through as a description takes."""


@dataclass(frozen=True, eq=False)
class Checkpoints:
    """The decayed sums of items at regular rows of each; an item with few rows has none."""

    starts: Int64Array
    """[I + 1] where the checkpoints of each item begin"""
    sums: Floats
    """[C, H, 3] clicks, views and expected clicks"""


@dataclass(frozen=True, eq=False)
class TickCounts:
    """What happened to every item in every tick: 16 bytes a row in logs of less than 2^31 ticks."""

    log: tuple[npt.NDArray[Any], ...]
    """times, clicks and items it was counted from: while these exist, it can be shared"""
    begin: int
    """the first tick of the log, from which others are counted"""
    starts: Int64Array
    """[I + 1] where the rows of each item begin"""
    ticks: npt.NDArray[np.integer]
    """[R] ascending within an item"""
    counts: Floats
    """[R, 3] clicks, views and expected clicks"""
    made: "WeakValueDictionary[bytes, Checkpoints]"
    """checkpoints in use, by half-lives per tick"""

    @classmethod
    def of(cls, dataset: SlateDataset, tick: int = USUAL_TICK) -> "TickCounts":
        """Count in a whole dataset by ticks of `tick` microseconds.

        Returns the same object as long as anything holds it: whoever is about to read a log several
        times keeps it meanwhile.
        """
        key = (id(dataset.times), id(dataset.clicks), id(dataset.slate_items), tick)
        found = _in_use.get(key)
        if found is None:
            begins = showing_starts(dataset).numpy()
            # An id stands for an array as long as that exists.
            arrays = (dataset.times, dataset.clicks, dataset.slate_items)
            everything = dataset.interactions()
            found = cls.of_events(everything, dataset.num_items, tick, begins, arrays)
            _in_use[key] = found
        return found

    @classmethod
    def of_events(
        cls,
        events: Interactions,
        num_items: int,
        tick: int,
        begins: npt.NDArray[np.bool_],
        log: tuple[npt.NDArray[Any], ...] = (),
    ) -> "TickCounts":
        """Count the interactions of any users: the rows first, then what is in them.

        Threads divide the log by time to sort what was seen by parts of the items, and then the
        parts between them. Meanwhile that takes 10 bytes for each item seen.
        """
        from slatewise.features import _tick_counts_numba as loops  # noqa: PLC0415 (numba takes time to load)

        ticks = events.times.cpu().numpy() // tick
        begin, span = (int(ticks.min()), int(np.ptp(ticks))) if len(ticks) else (0, 0)
        order = time_order(ticks)
        ticks = (ticks - begin).astype(np.int32 if span < 2**31 else np.int64)
        slates = (order, events.slate_offsets.cpu().numpy(), events.slate_items.cpu().numpy())
        in_order = (ticks[order], events.clicks.cpu().numpy()[order], begins[order])
        threads = thread_count(len(events.slate_items))
        shift = min(PART, (num_items // (4 * threads)).bit_length())
        edges = np.linspace(0, len(order), 1 + threads, dtype=np.int64)
        periods = list(pairwise(edges.tolist()))

        def sizes_of(period: tuple[int, int]) -> Int64Array:
            sizes = np.zeros(1 + (num_items >> shift), np.int64)
            bad = loops.part_sizes(*period, *slates, num_items, shift, sizes)
            if bad >= 0:
                raise ValueError(f"interaction {bad} has an unknown item")
            return sizes

        sizes = np.stack(in_threads(sizes_of, periods))  # [periods, P]
        parts = offsets_of(sizes.sum(axis=0))  # [P + 1]
        ends = parts[:-1] + np.cumsum(sizes, axis=0) - sizes  # of the periods before: none yet
        cells = (
            np.empty(parts[-1], np.uint16),
            np.empty(parts[-1], ticks.dtype),
            np.empty(parts[-1], np.int32),
        )

        def divide(number: int) -> None:
            loops.divide(*periods[number], *slates, shift, *in_order, ends[number], cells)

        in_threads(divide, range(len(periods)))
        counts, shares = np.zeros(num_items, np.int64), _shares(parts)
        in_threads(lambda some: loops.count_rows(*some, parts, cells, shift, counts), shares)
        starts = offsets_of(counts)
        rows = (np.empty(starts[-1], ticks.dtype), np.empty((starts[-1], 3), np.float32))
        in_threads(lambda some: loops.fill_rows(*some, parts, cells, shift, starts, *rows), shares)
        return cls(log, begin, starts, *rows, WeakValueDictionary())

    def checkpoints(self, steps: npt.NDArray[np.float64]) -> Checkpoints:
        """Return the checkpoints for half-lives per tick [H], or those that are in use."""
        from slatewise.features import _popularity_numba as loops  # noqa: PLC0415 (numba takes time to load)

        found = self.made.get(steps.tobytes())
        if found is None:
            marks = offsets_of(np.maximum(np.diff(self.starts) - 1, 0) // EVERY)
            sums = np.empty((marks[-1], len(steps), 3), dtype=np.float32)
            rows = (EVERY, self.starts, self.ticks, self.counts, steps, marks, sums)
            in_threads(lambda some: loops.write_checkpoints(*some, *rows), _shares(self.starts))
            found = self.made[steps.tobytes()] = Checkpoints(marks, sums)
        return found


def _shares(starts: Int64Array) -> list[tuple[int, int]]:
    """Divide items, or parts of them, between threads: from and to, with about as many rows."""
    cuts = np.linspace(0, starts[-1], 1 + thread_count(int(starts[-1])) * 4)
    edges = np.searchsorted(starts, cuts)
    edges[0], edges[-1] = 0, len(starts) - 1
    return list(pairwise(edges.tolist()))


_in_use: WeakValueDictionary[tuple[int, ...], TickCounts] = WeakValueDictionary()


@dataclass(frozen=True)
class PopularityIndex:
    """The events of every item by tick, with the sums at regular checkpoints.

    What is asked goes on from the sums before: R rows of 16 bytes instead of 12 H + 8.
    """

    popularity: Popularity
    counts: TickCounts
    checkpoints: Checkpoints

    @classmethod
    def of(cls, popularity: Popularity, dataset: SlateDataset) -> "PopularityIndex":
        """Read a whole dataset in time order.

        Everybody's events are in it, whatever the split: what is known at a time is what happened
        before, to anyone. Indices of the same log in use at the same time share what they can.
        """
        require_clock(dataset)
        return cls.of_counts(popularity, TickCounts.of(dataset, popularity.settings.tick))

    @classmethod
    def of_events(
        cls, popularity: Popularity, events: Interactions, num_items: int
    ) -> "PopularityIndex":
        """Index the interactions of any users."""
        begins = showing_starts(events).numpy()
        counts = TickCounts.of_events(events, num_items, popularity.settings.tick, begins)
        return cls.of_counts(popularity, counts)

    @classmethod
    def of_counts(cls, popularity: Popularity, counts: TickCounts) -> "PopularityIndex":
        """Index what was counted."""
        return cls(popularity, counts, counts.checkpoints(popularity.steps))

    @classmethod
    def for_one_question(cls, popularity: Popularity, dataset: SlateDataset) -> "PopularityIndex":
        """Index a dataset without checkpoints: each call reads the whole past of what is asked."""
        require_clock(dataset)
        counts = TickCounts.of(dataset, popularity.settings.tick)
        marks = np.zeros_like(counts.starts)
        none = np.empty((0, len(popularity.steps), 3), dtype=np.float32)
        return cls(popularity, counts, Checkpoints(marks, none))

    def features(self, items: npt.NDArray[np.integer], times: Int64Array) -> Floats:
        """Return the features of items [K] at times [K], of what happened before: [K, 4 H + 1]."""
        from slatewise.features import _popularity_numba as loops  # noqa: PLC0415 (numba takes time to load)

        known, counts, marks = self.popularity, self.counts, self.checkpoints
        out = np.empty((len(items), len(known.names)), dtype=np.float32)
        if len(items) and (items.min() < 0 or items.max() >= len(counts.starts) - 1):
            bad = int(np.flatnonzero((items < 0) | (items >= len(counts.starts) - 1))[0])
            raise ValueError(f"question {bad} is about an unknown item")
        ticks = known.ticks(times) - counts.begin
        # By item and then by tick: much of what one asks has then been read for the one before.
        order = np.lexsort((ticks, items))
        rows = (EVERY, counts.starts, counts.ticks, counts.counts, marks.starts, marks.sums)
        pieces = np.array_split(order, thread_count(len(order)))
        in_threads(
            lambda some: loops.look_up(some, items, ticks, *rows, known.numbers, out), pieces
        )
        return out

    def cells(self, interactions: Interactions) -> Tensor:
        """Return the features of every item seen, at its time: [F, 4 H + 1] float32."""
        lengths = interactions.scroll_lengths
        times = torch.repeat_interleave(interactions.times, lengths)
        out = self.features(interactions.slate_items.cpu().numpy(), times.cpu().numpy())
        return torch.from_numpy(out).to(interactions.clicks.device)
