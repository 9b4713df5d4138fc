"""Recommenders that count in training interactions, without a model.

Each gives the items of a slate a score; the utility of an item is `scale · log score`, that of no
click `offset[source] + growth · log(scroll length)`, and a softmax makes probabilities of them. The
scale and the no-click numbers maximise the likelihood of users whom the scores were not counted
from (one fifth, then counted in as well): counted and scored on the same clicks, a rare item that
was clicked once would look sure.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, Final, Self

import numpy as np
import torch
from torch import Tensor

from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.data.ragged import Int64Array
from slatewise.errors import SlatewiseError
from slatewise.evaluation.baselines.held_out import HeldOut
from slatewise.evaluation.counts import Counts, last_clicked
from slatewise.evaluation.predictions import Predictions, Slates
from slatewise.evaluation.rows import Floats
from slatewise.features.item_rates import beta_by_moments
from slatewise.features.linear_choice import LinearChoice
from slatewise.features.threads import in_threads, thread_limit
from slatewise.words import counted

_ROWS: Final = 1_024
"""Rows that are worth a thread: each may have thousands of followers."""


@dataclass(frozen=True)
class Choice:
    """How scores become probabilities."""

    scale: float
    growth: float
    offsets: Floats
    """[sources]"""

    def predict(self, slates: Slates, log_scores: Floats) -> Predictions:
        """Turn the log scores [F] of the items seen into predictions."""
        growth = self.growth * np.log(np.maximum(slates.scroll_lengths, 1))
        no_click = self.offsets[slates.sources] + growth
        return Predictions.from_utilities(slates, self.scale * log_scores, no_click)

    @classmethod
    def fit(cls, slates: Slates, log_scores: Floats, num_sources: int) -> "Choice":
        """Find the numbers of greatest likelihood, the scale at least 0."""
        size = 2 + num_sources
        items, no_click = np.zeros((len(slates.items), size)), np.zeros((len(slates), size))
        items[:, 0] = log_scores
        no_click[:, 1] = np.log(np.maximum(slates.scroll_lengths, 1))
        no_click[np.arange(len(slates)), 2 + slates.sources.astype(np.int64)] = 1
        choice = LinearChoice.with_no_click(slates.offsets, slates.clicks, items, no_click)
        theta = choice.fit(least=0.0)
        return cls(float(theta[0]), float(theta[1]), theta[2:])


class Baseline(ABC):
    """A recommender that counts."""

    name: ClassVar[str]

    def __init__(self, counts: Counts, choice: Choice) -> None:
        self.counts, self.choice = counts, choice
        self.scores = self.item_scores()
        """[I] when nothing is known of the user"""

    @cached_property
    def order(self) -> Int64Array:
        """[I] items, best first, before any click."""
        # Equal scores in a fixed random order: item numbers may follow popularity or age.
        shuffled = np.random.default_rng(0).permutation(len(self.scores))
        return np.lexsort((shuffled, -self.scores))

    @cached_property
    def rank_of(self) -> Int64Array:
        """[I] index of each item in `order`."""
        out = np.empty(len(self.order), dtype=np.int64)
        out[self.order] = np.arange(len(out))
        return out

    @abstractmethod
    def item_scores(self) -> Floats:
        """Return the score of every item when nothing is known of the user: [I], positive."""

    def slate_scores(self, slates: Slates, last: Int64Array) -> Floats:
        """Return the scores [F] of the items seen, given the last click [N] before (-1: none)."""
        out: Floats = self.scores[slates.items]
        return out

    @classmethod
    def fit(cls, dataset: SlateDataset, *, seed: int = 0) -> Self:
        """Count in the training part and fit the choice."""
        return cls.fit_on(dataset, HeldOut.of(dataset, seed))

    @classmethod
    def fit_on(cls, dataset: SlateDataset, held: HeldOut) -> Self:
        """Do the same with users held out already: several baselines share the counting."""
        sources = len(dataset.source_names)
        draft = cls(held.others, Choice(1.0, 0.0, np.zeros(sources)))
        log_scores = np.log(
            draft.slate_scores(held.slates, last_clicked(held.batch)[held.everything.numpy()])
        )
        return cls(held.everybody, Choice.fit(held.slates, log_scores, sources))

    def predict(self, interactions: Interactions, scored: Tensor) -> Predictions:
        """Predict the scored interactions; see `Predictor`."""
        slates = Slates.of(interactions, scored)
        last = last_clicked(interactions)[scored.numpy()]
        return self.choice.predict(slates, np.log(self.slate_scores(slates, last)))

    def rank(
        self,
        interactions: Interactions,
        k: int,
        *,
        exclude: Tensor | None = None,
        times: Tensor | None = None,
    ) -> Tensor:
        """Return the k best items, the same for everybody: [B, k]; see `Ranker`."""
        return torch.from_numpy(self._best(k, exclude)).expand(interactions.num_users, k)

    def _best(self, k: int, exclude: Tensor | None) -> Int64Array:
        left = self.order if exclude is None else self.order[~exclude.numpy()[self.order]]
        if k > len(left):
            raise SlatewiseError(
                f"{counted(k, 'item')} asked for, {len(left):,} available.", "Ask for fewer."
            )
        return left[:k]

    def target_ranks(self, interactions: Interactions, scored: Tensor) -> Tensor:
        """Return the rank of each next click: [M]; see `Ranker`."""
        targets = interactions.clicked_items[scored & (interactions.clicks >= 0)]
        return torch.from_numpy(1 + self.rank_of[targets.numpy()])


class BaseRate(Baseline):
    """All items alike: only the click rate by source and scroll length is known. Score 1."""

    name = "base rate"

    def item_scores(self) -> Floats:
        """Return ones."""
        return np.ones(len(self.counts.clicks))


class Popularity(Baseline):
    """What was clicked most. Score: clicks + 1."""

    name = "popularity"

    def item_scores(self) -> Floats:
        """Return clicks + 1."""
        return self.counts.clicks.astype(np.float64) + 1


class SmoothedCTR(Baseline):
    """What was clicked most per view. Score: (clicks + s·m) / (views + s).

    The mean m and strength s of the Beta prior are fitted by moments.
    """

    name = "smoothed CTR"

    def item_scores(self) -> Floats:
        """Return the posterior mean of each click-through rate."""
        mean, strength = beta_by_moments(self.counts.clicks, self.counts.views)
        out: Floats = (self.counts.clicks + strength * mean) / (self.counts.views + strength)
        return out


class CoClick(Baseline):
    """What was clicked right after the user's last click.

    Score: (successions + s · share of all clicks) / (successions of the last click in all + s),
    with strength s = 10; before the first click, the share of all clicks.
    """

    name = "co-click"
    strength: ClassVar[float] = 10.0

    def __init__(self, counts: Counts, choice: Choice) -> None:
        super().__init__(counts, choice)
        self._prior = self.strength * self.scores
        sums = np.concatenate([[0], np.cumsum(counts.successions.counts)])
        self._followed = np.diff(sums[counts.successions.starts])  # [I]

    @cached_property
    def _falling(self) -> Floats:
        out: Floats = -self._prior[self.order]
        return out

    @property
    def _followers(self) -> tuple[Int64Array | Floats, ...]:
        """What the loops take: starts, keys and counts of successions, priors and ranks."""
        found = self.counts.successions
        return found.starts, found.keys, found.counts, self._prior, self.rank_of

    def item_scores(self) -> Floats:
        """Return the share of all clicks, each item with one more."""
        clicks = self.counts.clicks + 1.0
        out: Floats = clicks / clicks.sum()
        return out

    def slate_scores(self, slates: Slates, last: Int64Array) -> Floats:
        """Mix successions with popularity."""
        last = np.repeat(last, slates.scroll_lengths)
        joint = self._joint(last, slates.items.astype(np.int64))
        followed = np.where(last >= 0, self._followed[last], 0)
        out: Floats = joint / (followed + self.strength)
        return out

    def _joint(self, last: Int64Array, items: Int64Array) -> Floats:
        """Return successions + s · share, which orders the items after each last click."""
        return self.counts.successions.lookup(last, items) + self._prior[items]

    def rank(
        self,
        interactions: Interactions,
        k: int,
        *,
        exclude: Tensor | None = None,
        times: Tensor | None = None,
    ) -> Tensor:
        """Return the k best items after each user's last click: [B, k]; see `Ranker`."""
        from slatewise.evaluation import _counts_numba as loops  # noqa: PLC0415 (numba takes time to load)

        allowed = np.ones(len(self.scores), np.bool_) if exclude is None else ~exclude.numpy()
        best, last = self._best(k, exclude), _final_clicks(interactions)
        out = np.empty((len(last), k), dtype=np.int64)

        def find(rows: slice) -> None:
            loops.best_after(last[rows], best, allowed, *self._followers, out[rows])

        in_threads(find, _parts(len(last)))
        return torch.from_numpy(out)

    def target_ranks(self, interactions: Interactions, scored: Tensor) -> Tensor:
        """Return the rank of each next click after the click before it: [M]; see `Ranker`."""
        clicked = scored & (interactions.clicks >= 0)
        targets = interactions.clicked_items[clicked].numpy().astype(np.int64)
        last = last_clicked(interactions)[clicked.numpy()]
        return torch.from_numpy(self._ranks(last, targets))

    def _ranks(self, last: Int64Array, targets: Int64Array) -> Int64Array:
        """Rank targets [M] among all items without scoring all: only followers move.

        Items before the target = those whose prior alone is before it, less the followers among
        them, plus the followers before it by their own score.
        """
        from slatewise.evaluation import _counts_numba as loops  # noqa: PLC0415 (numba takes time to load)

        own = self._joint(last, targets)
        strictly = np.searchsorted(self._falling, -own, side="left")
        # Equal scores go by rank; the first rank with a smaller prior bounds them.
        up_to = np.searchsorted(self._falling, -own, side="right")
        ahead = np.clip(self.rank_of[targets], strictly, up_to)
        moved = np.empty(len(targets), dtype=np.int64)

        def count(rows: slice) -> None:
            given = (part[rows] for part in (last, targets, own, ahead))
            loops.followers_before(*given, *self._followers, moved[rows])

        in_threads(count, _parts(len(targets)))
        return 1 + ahead + moved


def _parts(rows: int) -> list[slice]:
    """Divide rows among threads."""
    count = min(thread_limit(), 1 + rows // _ROWS)
    bounds = np.linspace(0, rows, count + 1).astype(int).tolist()
    return [slice(*ends) for ends in pairwise(bounds) if ends[0] < ends[1]]


def _final_clicks(interactions: Interactions) -> Int64Array:
    """Return the last item that each user clicked, -1 for none: [B]."""
    clicked = interactions.clicked_items.numpy().astype(np.int64)
    out = np.full(interactions.num_users, -1, dtype=np.int64)
    users = np.repeat(np.arange(len(out)), np.diff(interactions.user_offsets.numpy()))
    out[users[clicked >= 0]] = clicked[clicked >= 0]  # the last assignment stays
    return out


COUNTING: Final[tuple[type[Baseline], ...]] = (BaseRate, Popularity, SmoothedCTR, CoClick)
