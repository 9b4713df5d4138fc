"""What is known about a user before a moment: the slates that she saw, and what she clicked.

One type for every room. It is built from a log, a store, a request or lists of ids; rankings ask it
what moved the user (`moves`) and what she met how often (`counts`).

Shapes: V slates seen, L items of all of them, C clicks, E events that move a user, m items met.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.data.ragged import Int64Array, offsets_of, ranges
from slatewise.features.showings import Showing, showing_starts

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.integer[Any]]
"""Item numbers: int64, or int32 where a million users are kept."""


class ItemCounts(NamedTuple):
    """How often a user saw and clicked each of the m items in her history."""

    items: Int64Array
    """[m] ascending"""
    clicks: Int64Array
    """[m]"""
    views: Int64Array
    """[m]"""
    last: int
    """the item clicked last, −1 for none"""

    def of(self, items: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the clicks and views of some items [k]: [k] each, 0 for items she never saw."""
        if not len(self.items):
            return np.zeros(len(items), np.int64), np.zeros(len(items), np.int64)
        index = np.searchsorted(self.items, items).clip(max=len(self.items) - 1)
        found = self.items[index] == items
        return np.where(found, self.clicks[index], 0), np.where(found, self.views[index], 0)


class Moves(NamedTuple):
    """The events that move one user, oldest first; a click is a slate of one."""

    kinds: Int64Array
    """[E] −1 for a click, else the index of the slate's source in `Evidence.fractions`"""
    items: Int64Array
    """[K] items of all events"""
    offsets: Int64Array
    """[E + 1] event e has the items from `offsets[e]` to the next"""

    def averages(self, vectors: Floats) -> Floats:
        """Average the vectors [..., K, D] of each event's items: [..., E, D]."""
        lengths = np.diff(self.offsets)
        if len(self.items) == len(lengths):
            return vectors
        sums = np.add.reduceat(vectors, self.offsets[:-1], axis=-2)
        return np.divide(sums, lengths[:, None], dtype=np.float32)


@dataclass(frozen=True, eq=False)
class UserHistory:
    """The slates that a user saw before a moment, oldest first, none of them empty."""

    items: Integers
    """[L] the items seen, in shown order"""
    offsets: Integers
    """[V + 1] slate v has the items from `offsets[v]` to the next"""
    clicks: Integers
    """[C] which of the items seen were clicked, as indices into `items`, slate by slate and in the
    order of the clicks"""
    sources: Integers
    """[V] where slates came from; −1 for a source that the model does not know"""
    times: Integers
    """[V] microseconds since 1970; 0 where unknown: just before the request, see
    `interactions_with_list`"""

    @classmethod
    def of_clicks(cls, items: Integers) -> "UserHistory":
        """Take clicks [C], oldest first, each for a slate of one from an unknown source."""
        count = len(items)
        return cls(
            items,
            np.arange(count + 1),
            np.arange(count),
            np.full(count, -1),
            np.zeros(count, np.int64),
        )

    @classmethod
    def of_showings(cls, showings: Sequence[Showing]) -> "UserHistory":
        """Take slates with their clicks, oldest first; empty ones are left out."""
        showings = [showing for showing in showings if showing.items]
        offsets = np.cumsum([0, *(len(showing.items) for showing in showings)])
        clicks = [
            start + click
            for start, showing in zip(offsets.tolist(), showings, strict=False)
            for click in showing.clicks
        ]
        return cls(
            np.array([item for showing in showings for item in showing.items], np.int64),
            offsets,
            np.array(clicks, np.int64),
            np.array([showing.source for showing in showings], np.int64),
            np.array([showing.time for showing in showings], np.int64),
        )

    @classmethod
    def of_log(
        cls, interactions: Interactions, user: int, before: int | None = None
    ) -> "UserHistory":
        """Return what one of B users did in a log, or did before her interaction number `before`.

        A further click on one slate shares the past of the first: what came before the slate.
        """
        one = interactions.of_users(torch.tensor([user]))
        starts = showing_starts(one).numpy()
        first = np.flatnonzero(starts)  # [V] the interaction with which each slate begins
        lengths = one.scroll_lengths.numpy()[first]
        offsets = offsets_of(lengths)
        clicks = one.clicks.numpy()
        clicked = np.flatnonzero(clicks >= 0)
        showing = np.cumsum(starts) - 1  # [N] the slate of each interaction
        history = cls(
            one.slate_items.numpy()[ranges(one.slate_offsets.numpy()[first], lengths)],
            offsets,
            offsets[showing[clicked]] + clicks[clicked],
            one.sources.numpy()[first].astype(np.int64),
            one.times.numpy()[first],
        )
        if before is None or before == len(starts):
            return history
        return history.until(int(showing[before]))

    def until(self, slate: int) -> "UserHistory":
        """Return what came before one of her slates, by its number."""
        end = self.offsets[slate]
        return UserHistory(
            self.items[:end],
            self.offsets[: slate + 1],
            self.clicks[self.clicks < end],
            self.sources[:slate],
            self.times[:slate],
        )

    def __len__(self) -> int:
        """Return V."""
        return len(self.sources)

    def same(self, other: "UserHistory") -> bool:
        """Return whether another history holds the same."""
        mine, theirs = (
            (one.items, one.offsets, one.clicks, one.sources, one.times) for one in (self, other)
        )
        return all(map(np.array_equal, mine, theirs))

    def renumbered(self, items: Integers, sources: Integers) -> "UserHistory":
        """Return the same in the numbers of a model: items [L] and sources [V], −1 for unknown.

        Items that the model does not know are dropped, and slates of which nothing is left. A slate
        that lost its clicks becomes one of an unknown source: it is no slate without a click.
        """
        known = items >= 0
        if known.all():
            return UserHistory(items, self.offsets, self.clicks, sources, self.times)
        index = np.concatenate([[0], np.cumsum(known)])  # [L + 1] items kept before each
        offsets = index[self.offsets]
        clicks = self.clicks[known[self.clicks]]
        lost = np.setdiff1d(self.click_slates, self._slates_of(clicks))
        sources = sources.copy()
        sources[lost] = -1
        kept = np.diff(offsets) > 0
        return UserHistory(
            items[known],
            np.concatenate([offsets[:-1][kept], offsets[-1:]]),
            index[clicks],
            sources[kept],
            self.times[kept],
        )

    def clicking(self, items: Integers) -> "UserHistory":
        """Return the same with clicks [n] after it, each a slate of one from an unknown source."""
        if not len(items):
            return self
        seen, more = len(self.items), np.arange(len(items))
        return UserHistory(
            np.concatenate([self.items, items]),
            np.concatenate([self.offsets, seen + 1 + more]),
            np.concatenate([self.clicks, seen + more]),
            np.concatenate([self.sources, np.full(len(items), -1)]),
            np.concatenate([self.times, np.zeros(len(items), np.int64)]),
        )

    @cached_property
    def clicked(self) -> Int64Array:
        """[C] the items clicked, oldest first."""
        return self.items[self.clicks].astype(np.int64, copy=False)

    @cached_property
    def click_slates(self) -> Int64Array:
        """[C] the slates of the clicks."""
        return self._slates_of(self.clicks)

    @cached_property
    def counts(self) -> ItemCounts:
        """How often she met each item, seen or clicked."""
        items, index = np.unique(self.items, return_inverse=True)
        return ItemCounts(
            items.astype(np.int64, copy=False),
            np.bincount(index[self.clicks], minlength=len(items)),
            np.bincount(index, minlength=len(items)),
            int(self.clicked[-1]) if len(self.clicks) else -1,
        )

    def moves(self, evidence: Int64Array) -> Moves:
        """Return what moves her: clicks, and slates without one from sources that count.

        `evidence` [number of sources] has the index of each source in `Evidence.fractions`, −1 for
        a source whose slates do not move users.
        """
        kinds = np.full(len(self), -1)
        if (evidence >= 0).any():
            kinds = np.where(self.sources >= 0, evidence[self.sources], -1)
            kinds[self.click_slates] = -1
        slates = np.flatnonzero(kinds >= 0)
        if not len(slates):
            count = len(self.clicks)
            return Moves(np.full(count, -1), self.clicked, np.arange(count + 1))
        # No slate is both clicked and not, so ordering by slate keeps the order of events.
        order = np.argsort(np.concatenate([self.click_slates, slates]), kind="stable")
        ones = np.ones(len(self.clicks), np.int64)
        starts = np.concatenate([self.clicks, self.offsets[slates]])[order]
        lengths = np.concatenate([ones, np.diff(self.offsets)[slates]])[order]
        return Moves(
            np.concatenate([-ones, kinds[slates]])[order],
            self.items[ranges(starts, lengths)].astype(np.int64, copy=False),
            offsets_of(lengths),
        )

    def showings(self) -> list[Showing]:
        """Return the slates one by one, with the positions clicked."""
        ends = self.offsets.tolist()
        clicked: list[list[int]] = [[] for _ in range(len(self))]
        for click, slate in zip(self.clicks.tolist(), self.click_slates.tolist(), strict=True):
            clicked[slate].append(click - ends[slate])
        return [
            Showing(
                tuple(self.items[ends[slate] : ends[slate + 1]].tolist()),
                tuple(clicked[slate]),
                int(self.times[slate]),
                int(self.sources[slate]),
            )
            for slate in range(len(self))
        ]

    def _slates_of(self, clicks: Integers) -> Int64Array:
        return np.searchsorted(self.offsets, clicks, side="right") - 1


class Histories:
    """The histories of the users of some interactions, each read when it is asked for."""

    def __init__(self, interactions: Interactions) -> None:
        self._interactions = interactions
        self._read: dict[int, UserHistory] = {}

    @cached_property
    def _slates(self) -> Tensor:
        """[N] the slate of each interaction, counted over all users."""
        return showing_starts(self._interactions).long().cumsum(0) - 1

    def whole(self, users: Tensor) -> list[UserHistory]:
        """Return all that users [B] did."""
        return [self._of(user) for user in users.tolist()]

    def before(self, rows: Tensor) -> list[UserHistory]:
        """Return what was known of a user before the slate of each interaction [n]."""
        offsets = self._interactions.user_offsets
        users = torch.searchsorted(offsets, rows, right=True) - 1
        slates = self._slates[rows] - self._slates[offsets[users]]
        return [
            self._of(user).until(slate)
            for user, slate in zip(users.tolist(), slates.tolist(), strict=True)
        ]

    def _of(self, user: int) -> UserHistory:
        if user not in self._read:
            self._read[user] = UserHistory.of_log(self._interactions, user)
        return self._read[user]


NO_HISTORY = UserHistory.of_clicks(np.empty(0, np.int64))
"""Of an anonymous or new user."""
