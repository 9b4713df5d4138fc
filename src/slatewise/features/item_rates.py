"""The click rate of every item in the training part: what is known of it whatever the time.

A learner that is trained on rates which count its own clicks believes them too much. So users are
dealt into folds, and where the training part of a user is learned from, the rates are those of the
other folds.

It is a fact about the past only where items stay: what an article had by the end of its life says
in training what was unknown while it was new. On simulated news trees that had it scored
−1.172 on later slates, and −1.075 without.

Shapes: I items, U users, F items seen.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.data.ragged import Int64Array
from slatewise.features.showings import showing_starts
from slatewise.features.turnover import items_stay

Floats = npt.NDArray[np.float32]

FOLDS: Final = 5
_BATCH: Final = 4_096


@dataclass(frozen=True)
class ItemRates:
    """The logarithm of the smoothed click rate of every item."""

    rates: Floats
    """[I] by all users"""
    by_others: Floats
    """[folds, I] by the users of other folds"""
    folds: Int64Array
    """[U] the fold of each user"""

    @classmethod
    def fit(cls, dataset: SlateDataset, seed: int = 0) -> "ItemRates | None":
        """Count clicks and views of the training part; None where items come and go."""
        if not items_stay(dataset):
            return None
        folds = np.random.default_rng(seed).permutation(dataset.num_users) % FOLDS
        counts = np.stack([_counts(dataset, np.flatnonzero(folds == n)) for n in range(FOLDS)])
        everybody = counts.sum(0)  # [2, I]
        by_others = np.stack([_log_rates(everybody - own) for own in counts])
        return cls(_log_rates(everybody), by_others, folds)

    def in_training(self, interactions: Interactions, users: Int64Array) -> Floats:
        """Return the rate of every item seen by users [B], whose clicks will be learned from: [F].

        Of their training part by other folds; after it, where nothing is learned, by all users.
        """
        cells = interactions.scroll_lengths.numpy()
        counts = interactions.user_offsets.diff().numpy()
        index = np.arange(len(cells)) - np.repeat(interactions.user_offsets[:-1].numpy(), counts)
        training = index < np.repeat(interactions.train_end.numpy(), counts)
        folds = np.repeat(np.repeat(self.folds[users], counts), cells)
        items = interactions.slate_items.numpy()
        own = np.repeat(training, cells)
        found: Floats = np.where(own, self.by_others[folds, items], self.rates[items])
        return found


def beta_by_moments(clicks: Int64Array, views: Int64Array) -> tuple[float, float]:
    """Return the mean and strength of the Beta that click-through rates [I] are drawn from.

    With views n_i and rates p_i, Σ n_i (p_i − m)² has the expectation
    m (1 − m) [(1 − ρ)(I − 1) + ρ (N − Σ n_i² / N)], where ρ = 1 / (1 + strength).
    """
    seen = views > 0
    n, total = views[seen].astype(np.float64), float(views.sum())
    mean = (clicks.sum() + 0.5) / (total + 1)
    if seen.sum() < 2:
        return float(mean), 1.0
    spread = (n * (clicks[seen] / n - mean) ** 2).sum() / (mean * (1 - mean))
    items = len(n) - 1
    scope = total - (n**2).sum() / total - items
    correlation = (spread - items) / scope if scope > 0 else 1.0
    correlation = float(np.clip(correlation, 1e-4, 0.5))
    return float(mean), 1 / correlation - 1


def _counts(dataset: SlateDataset, users: Int64Array) -> Int64Array:
    """Count clicks and views of every item in the training part of users: [2, I]."""
    counts = np.zeros((2, dataset.num_items), dtype=np.int64)
    everything = dataset.interactions()
    for start in range(0, len(users), _BATCH):
        some = torch.from_numpy(users[start : start + _BATCH])
        batch = everything.of_users(some, everything.train_end[some])
        clicked = batch.clicked_items[batch.clicks >= 0].numpy()
        counts[0] += np.bincount(clicked, minlength=dataset.num_items)
        seen = batch.slate_items[batch.choices(showing_starts(batch))].numpy()  # each slate once
        counts[1] += np.bincount(seen, minlength=dataset.num_items)
    return counts


def _log_rates(counts: Int64Array) -> Floats:
    """Return the logarithm of the smoothed rate of clicks and views [2, I]: [I]."""
    mean, strength = beta_by_moments(*counts)
    out: Floats = np.log((counts[0] + strength * mean) / (counts[1] + strength)).astype(np.float32)
    return out
