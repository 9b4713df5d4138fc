"""What passed between a user and an item before: clicked, shown, clicked last.

| feature | value |
|---|---|
| `clicked_before` | log(1 + how often the user clicked the item before) |
| `shown_before` | log(1 + how often the user was shown it before, clicked or not) |
| `last_click` | 1 if it is what the user clicked last, else 0 |

Logarithms, because the first time says most: they tell never from once as a flag would, and still
tell once from ten times. What was shown and *not* clicked needs no feature of its own: it is a
difference of the first two.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.data.ragged import Int64Array
from slatewise.features.showings import Showing, replay, showing_starts

Floats = npt.NDArray[np.float32]

HISTORY: Final = ("clicked_before", "shown_before", "last_click")
"""The columns of all that this module returns."""


def history_features(interactions: Interactions) -> Tensor:
    """Return the features of every item seen, from what its user did before: [F, 3] float32.

    One pass over the cells of any number of users. Only the user's own earlier interactions are
    looked at; further clicks on one slate share the past of the first.
    """
    from slatewise.features import _numba  # noqa: PLC0415 (numba takes time to load)

    out = np.empty((len(interactions.slate_items), len(HISTORY)), dtype=np.float32)
    bad = _numba.history(
        interactions.user_offsets.cpu().numpy(),
        showing_starts(interactions).numpy(),
        interactions.clicks.cpu().numpy(),
        interactions.slate_offsets.cpu().numpy(),
        interactions.slate_items.cpu().numpy(),
        _logs(np.arange(_most_views(interactions) + 1)),
        out,
    )
    if bad >= 0:
        raise ValueError(f"interaction {bad} has a negative item or a click outside its slate")
    return torch.from_numpy(out).to(interactions.clicks.device)


def _most_views(interactions: Interactions) -> int:
    """Bound how often a user saw or clicked an item: by the most cells that a user has."""
    cells = interactions.slate_offsets[interactions.user_offsets].diff()
    return int(cells.max()) if len(cells) else 0


def _logs(counts: Int64Array) -> Floats:
    out: Floats = np.log1p(counts).astype(np.float32)
    return out


class CountedShowings(Sequence[Showing]):
    """Showings of one user with how often she met each item, counted beforehand.

    For serving: counts of hundreds of slates fit into two arrays, and the slates themselves are
    made only for whoever asks.
    """

    def __init__(
        self,
        items: Int64Array,
        counts: Int64Array,
        last: int,
        showings: Callable[[], tuple[Showing, ...]],
    ) -> None:
        self._met = items, counts, last
        self._make = showings

    def features(self, items: Int64Array | None = None) -> tuple[Int64Array, Floats]:
        """Return items [K] and features [K, 3], as `HistoryState.features` does."""
        met, counts, last = self._met  # [M], [M, 2] clicks and views
        if items is None:
            return met, _features(met, counts, last)
        if not len(met):
            return items, _features(items, np.zeros((len(items), 2), np.int64), last)
        places = np.searchsorted(met, items).clip(max=len(met) - 1)
        found = (met[places] == items)[:, None]
        return items, _features(items, np.where(found, counts[places], 0), last)

    @cached_property
    def _showings(self) -> tuple[Showing, ...]:
        return self._make()

    @overload
    def __getitem__(self, index: int) -> Showing: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Showing]: ...

    def __getitem__(self, index: int | slice) -> Showing | Sequence[Showing]:
        """Return a showing, or some."""
        return self._showings[index]

    def __len__(self) -> int:
        """Return how many showings there are."""
        return len(self._showings)


class HistoryState:
    """One user's history as serving keeps it, which grows with every slate shown.

    A ranking adds w · x to the utilities of the `items` alone: for all others x is 0.
    """

    def __init__(self) -> None:
        self._counts: dict[int, list[int]] = {}  # item -> clicks, views
        self._last = -1

    @classmethod
    def of(cls, interactions: Interactions, user: int) -> "HistoryState":
        """Return the state of one of the B users after all that is given."""
        state = cls()
        for showing in replay(interactions, user):
            state.add(showing)
        return state

    def add(self, showing: Showing) -> None:
        """Take a slate and its clicks into account."""
        for item in showing.items:
            self._counts.setdefault(item, [0, 0])[1] += 1
        for position in showing.clicks:
            self._last = showing.items[position]
            self._counts[self._last][0] += 1

    def features(self, items: Int64Array | None = None) -> tuple[Int64Array, Floats]:
        """Return items [K] and their features [K, 3], for the next slate.

        Of the items given, or without any, of all with a feature other than 0, ascending.
        """
        if items is None:
            items = np.array(sorted(self._counts), dtype=np.int64)
        counts = np.array([self._counts.get(int(item), (0, 0)) for item in items], dtype=np.int64)
        return items, _features(items, counts.reshape(-1, 2), self._last)


def _features(items: Int64Array, counts: Int64Array, last: int) -> Floats:
    """Return the features [K, 3] of items [K] with clicks and views [K, 2]."""
    out = np.empty((len(items), len(HISTORY)), dtype=np.float32)
    out[:, :2] = _logs(counts)
    out[:, 2] = items == last
    return out
