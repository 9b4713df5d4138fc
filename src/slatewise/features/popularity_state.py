"""Popularity as serving keeps it: the present of every item, in memory that does not grow."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.data.ragged import Int64Array
from slatewise.errors import SlatewiseError
from slatewise.features.cells import positions
from slatewise.features.popularity import (
    SECOND,
    Doubles,
    Floats,
    Popularity,
    Sums,
    expected_shares,
    require_clock,
    stream,
)
from slatewise.features.showings import Showing, as_interactions, showing_starts


class CountedEvents(NamedTuple):
    """Views and clicks of single items, E of them."""

    times: Sequence[int] | Int64Array
    """[E] microseconds since 1970"""
    items: Int64Array
    """[E]"""
    views: npt.NDArray[np.bool_]
    """[E] whether the item was seen: once, however often it was clicked"""
    clicks: npt.NDArray[np.bool_]
    """[E] whether it was clicked"""
    shares: Doubles
    """[E] clicks expected of it: one over the length of the slate for a view"""

    @classmethod
    def of(cls, interactions: Interactions) -> "CountedEvents":
        """Return the events of a log in the order of their times; a further click is no view."""
        lengths = interactions.scroll_lengths
        begins = showing_starts(interactions)
        seen = torch.repeat_interleave(begins, lengths).numpy()  # [F]
        clicked = torch.repeat_interleave(interactions.clicks, lengths) == positions(interactions)
        kept = np.flatnonzero(seen | clicked.numpy())
        times = torch.repeat_interleave(interactions.times, lengths).numpy()[kept]
        order = np.argsort(times, kind="stable")
        kept = kept[order]
        items = interactions.slate_items.numpy()[kept].astype(np.int64)
        shares = np.repeat(expected_shares(interactions, begins.numpy()), lengths.numpy())[kept]
        return cls(times[order], items, seen[kept], clicked.numpy()[kept], shares)


class PopularityState:
    """Sums of all events so far; its features are those that training saw at that time."""

    def __init__(
        self, popularity: Popularity, sums: Sums, sizes: tuple[float, ...] | None = None
    ) -> None:
        self.popularity, self.sums = popularity, sums
        self.sizes = sizes
        """by which a model divides the features; None without a model"""

    @classmethod
    def empty(
        cls, popularity: Popularity, num_items: int, sizes: tuple[float, ...] | None = None
    ) -> "PopularityState":
        """Return the state before any event."""
        return cls(popularity, Sums.empty(num_items, popularity), sizes)

    @classmethod
    def of(
        cls,
        popularity: Popularity,
        dataset: SlateDataset,
        sizes: tuple[float, ...] | None = None,
    ) -> "PopularityState":
        """Return the state after everything in a dataset, whatever its split."""
        require_clock(dataset)
        state = cls.empty(popularity, dataset.num_items, sizes)
        stream(popularity, dataset, state.sums)
        return state

    def add(self, showings: Sequence[Showing]) -> None:
        """Take slates and clicks of any users into account.

        They may come in any order, also late. In time order, the numbers are the same to the last
        bit however the events are divided into calls.
        """
        stream(self.popularity, as_interactions(showings), self.sums)

    def count(self, events: CountedEvents) -> None:
        """Take events into account one after the other, as they are given.

        Later events may come first: the numbers depend on the order in the last bit, and on
        nothing else, however the events are divided into calls. That is what a replay needs.
        """
        from slatewise.features import _popularity_numba as loops  # noqa: PLC0415 (numba takes time to load)

        known, times = self.popularity, np.asarray(events.times, np.int64)
        self.grow(int(events.items.max(initial=-1)) + 1)
        loops.stream(
            np.arange(len(times)),
            known.ticks(times),
            events.views,
            events.shares,
            np.where(events.clicks, 0, -1).astype(np.int32),
            np.arange(len(times) + 1),
            events.items.astype(np.int32),
            np.full(len(times), -1),
            known.numbers,
            self.sums.arrays,
            np.empty((0, len(known.names)), dtype=np.float32),
        )

    def grow(self, num_items: int) -> None:
        """Make room for `num_items` items; new ones have had no events."""
        have = len(self.sums.tick)
        if num_items > have:
            more = Sums.empty(max(num_items, 2 * have) - have, self.popularity)
            both = zip(self.sums.arrays, more.arrays, strict=True)
            self.sums = Sums(*(np.concatenate(part) for part in both))

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The sums by name, [I, ...] each."""
        return vars(self.sums)

    @property
    def newest(self) -> int:
        """The time from which on no item has later events; 0 before the first event."""
        tick = max(0, int(self.sums.tick.max(initial=0)))
        return tick * max(1, round(self.popularity.settings.refresh * SECOND))

    def features(self, time: int, items: Int64Array | None = None) -> Floats:
        """Return the features of items [K], or of all, at a time: [K, 4 H + 1].

        The state knows no past: a time before an event that it has seen is refused.
        """
        from slatewise.features import _popularity_numba as loops  # noqa: PLC0415 (numba takes time to load)

        known = self.popularity
        items = np.arange(len(self.sums.tick)) if items is None else items
        out = np.empty((len(items), len(known.names)), dtype=np.float32)
        now = int(known.ticks(np.array([time]))[0])
        bad = loops.describe_items(items, now, known.numbers, self.sums.arrays, out)
        if bad >= 0:
            raise _refusal(int(items[bad]), len(self.sums.tick))
        if self.sizes is not None:
            out /= np.array(self.sizes, np.float32)
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
