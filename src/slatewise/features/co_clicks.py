"""Features of items that other people clicked near what the user clicked lately.

Two clicks of one user that stand d ≤ 10 clicks apart count 1 / d for the pair of their items, in
either order. With t_j the count of all pairs with j, plus 5,

    share(i | j) = count(j, i) / t_j,    likeness(i, j) = count(j, i) / √(t_i t_j)

Only the neighbours of greatest likeness are kept for each j: those of greatest count would be what
is clicked most, near anything. A user's features of an item are log(1 + s / s₀), with

| feature | s | s₀ |
|---|---|---|
| `after_last` | the share after her last click | .001 |
| `after_recent` | shares after her last 20 clicks, each counting .8 of the one after it | .001 |
| `alike` | likeness to her last 50 clicks, each counting .95 of the one after it | .01 |

Only training interactions are counted. Where a user's own clicks are among them, training takes
them out again: otherwise every click would seem to be foretold by itself.

Shapes: I items, K neighbours of all items, P features, m items with a feature other than 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.data.ragged import Int64Array, offsets_of, ranges
from slatewise.features.showings import showing_starts
from slatewise.features.user_history import UserHistory

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

CO_CLICKS: Final = ("after_last", "after_recent", "alike")
"""The columns of all that this module returns."""
_WINDOW: Final = 10
"""Clicks apart up to which two clicks are a pair."""
_SMOOTHING: Final = 5.0
"""By which rare items are kept from being sure of their neighbours."""
_SMALL: Final = np.array([1e-3, 1e-3, 1e-2])
"""[P] a sum that counts as much as the step from it to twice as much."""
_AGO: Final = np.arange(50)
_RECENCY: Final = np.stack(
    [_AGO == 0, np.where(_AGO < 20, 0.8**_AGO, 0.0), 0.95**_AGO], axis=1
)  # [R, P] what the last, last but one … click counts
_BY_LIKENESS: Final = np.array([False, False, True])
"""[P] which features add up likenesses; others add up shares."""
_PAIRS: Final = 1 << 24
"""Pairs of clicks held at once while they are counted."""


@dataclass(frozen=True, eq=False)
class CoClicks:
    """The neighbours of each item."""

    starts: Int64Array
    """[I + 1] where the neighbours of each item begin"""
    neighbours: npt.NDArray[np.int32]
    """[K] items, ascending for each"""
    shares: Floats
    """[K]"""
    totals: Floats
    """[I] t"""

    @classmethod
    def count(cls, interactions: Interactions, num_items: int, most: int) -> "CoClicks":
        """Count pairs of clicks in the training part, keeping `most` neighbours of each item.

        Items are taken block by block, so that memory holds a bounded number of pairs.
        """
        from slatewise.features import _co_clicks_numba as loops  # noqa: PLC0415 (slow to load)

        offsets, items = _training_clicks(interactions)
        partners, totals = np.zeros(num_items, np.int64), np.full(num_items, _SMOOTHING)
        loops.count_partners(offsets, items, _WINDOW, partners, totals)
        ends = np.cumsum(partners)
        kept = np.empty(num_items, np.int64)
        neighbours, counts = [np.empty(0, np.int32)], [np.empty(0)]
        first = 0
        while first < num_items:
            reached = ends[first] - partners[first] + _PAIRS
            end = max(first + 1, int(np.searchsorted(ends, reached, side="right")))
            starts = offsets_of(partners[first:end])
            found, weights = np.empty(starts[-1], np.int32), np.empty(starts[-1])
            begins = starts[:-1].copy()
            loops.gather_partners(offsets, items, _WINDOW, first, end, begins, found, weights)
            loops.add_up(starts, found, weights, totals, most, kept[first:end])
            rows = ranges(starts[:-1], kept[first:end])
            neighbours.append(found[rows])
            counts.append(weights[rows])
            first = end
        shares = np.concatenate(counts) / np.repeat(totals, kept)
        return cls(
            offsets_of(kept),
            np.concatenate(neighbours),
            shares.astype(np.float32),
            totals.astype(np.float32),
        )

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All of it by name, to be saved."""
        return {
            "starts": self.starts,
            "neighbours": self.neighbours,
            "shares": self.shares,
            "totals": self.totals,
        }

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "CoClicks":
        """Take over what `arrays` returned."""
        return cls(arrays["starts"], arrays["neighbours"], arrays["shares"], arrays["totals"])

    def on_items(self, known: Int64Array) -> "CoClicks":
        """Return the neighbours of other items [J], of which item j was `known[j]`, −1 for new.

        Neighbours that are none of these are left out.
        """
        old = np.flatnonzero(known >= 0)
        numbers = np.full(len(self.totals), -1, np.int64)
        numbers[known[old]] = old
        counts, totals = np.zeros(len(known), np.int64), np.full(len(known), _SMOOTHING, np.float32)
        counts[old], totals[old] = np.diff(self.starts)[known[old]], self.totals[known[old]]
        rows = ranges(self.starts[known[old]], counts[old])  # [K'] those of old items in a row
        of_item, found = np.repeat(np.arange(len(known)), counts), numbers[self.neighbours[rows]]
        kept = np.flatnonzero(found >= 0)
        order = kept[np.lexsort((found[kept], of_item[kept]))]
        kept_counts = np.bincount(of_item[order], minlength=len(known))
        return CoClicks(
            offsets_of(kept_counts),
            found[order].astype(np.int32),
            self.shares[rows[order]],
            totals,
        )

    def features(self, interactions: Interactions, *, without_own: bool = False) -> Tensor:
        """Return the features of every item seen, from what its user clicked before: [F, P].

        Further clicks on one slate share the past of the first. With `without_own`, the user's own
        clicks are left out of the shares where she is in training.
        """
        from slatewise.features import _co_clicks_numba as loops  # noqa: PLC0415 (slow to load)

        sums = np.empty((len(interactions.slate_items), len(CO_CLICKS)))
        counted = interactions.train_end.cpu().numpy()
        loops.features(
            interactions.user_offsets.cpu().numpy(),
            showing_starts(interactions).numpy(),
            interactions.clicked_items.cpu().numpy(),
            interactions.slate_offsets.cpu().numpy(),
            interactions.slate_items.cpu().numpy(),
            counted if without_own else np.zeros_like(counted),
            _WINDOW,
            self.starts,
            self.neighbours,
            self.shares,
            self.totals,
            _RECENCY,
            _BY_LIKENESS,
            sums,
        )
        return torch.from_numpy(_scaled(sums)).to(interactions.clicks.device)

    def met(
        self, history: UserHistory, items: Int64Array | None = None
    ) -> tuple[Int64Array, Floats]:
        """Return items [m] and their features [m, P] for a user's next slate.

        Of the items given, or without any, of all neighbours of her recent clicks, ascending.
        """
        recent = history.clicked[::-1][: len(_RECENCY)]
        ago = np.flatnonzero(recent < len(self.totals))  # items may be newer than the table
        start = self.starts[recent[ago]]
        lengths = self.starts[recent[ago] + 1] - start
        rows = ranges(start, lengths)
        near, index = np.unique(self.neighbours[rows], return_inverse=True)
        found = near.astype(np.int64)
        clicked = np.repeat(recent[ago], lengths)  # [k] of which each is a neighbour
        likeness = np.sqrt(self.totals[clicked] / self.totals[self.neighbours[rows]])
        factors = np.where(_BY_LIKENESS, likeness[:, None], 1.0)
        added = _RECENCY[np.repeat(ago, lengths)] * factors * self.shares[rows, None]
        sums: Doubles = np.stack(
            [np.bincount(index, column, minlength=len(found)) for column in added.T], axis=1
        )
        if items is None:
            return found, _scaled(sums)
        out = np.zeros((len(items), len(CO_CLICKS)))
        if len(found):
            where = np.searchsorted(found, items).clip(max=len(found) - 1)
            same = found[where] == items
            out[same] = sums[where[same]]
        return items, _scaled(out)


def _scaled(sums: Doubles) -> Floats:
    out: Floats = np.log1p(sums / _SMALL).astype(np.float32)
    return out


def _training_clicks(interactions: Interactions) -> tuple[Int64Array, npt.NDArray[np.int32]]:
    """Return the items that each user clicked in training: offsets [U + 1], items [C]."""
    items = interactions.clicked_items.numpy()
    starts = interactions.user_offsets.numpy()
    users = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    index = np.arange(len(items)) - starts[users]
    kept = (items >= 0) & (index < interactions.train_end.numpy()[users])
    return offsets_of(np.bincount(users[kept], minlength=len(starts) - 1)), items[kept]
