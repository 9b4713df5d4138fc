"""Relevance by fresh draws for one user: slow, and right."""

import numpy as np
import numpy.typing as npt

from slatewise.features.user_history import UserHistory
from slatewise.slates.exact import ExactRanker, Profiles

Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def relevance_draws(
    ranker: ExactRanker, history: UserHistory, items: Ints, draws: int, seed: int
) -> Doubles:
    """Draw the relevance of items [k] to a user, exp(b + w · x − ‖z − v‖): [J, k].

    Profile and items are drawn together: a clicked item's vector is that which moved the user.
    """
    drawn = ranker.draw_profiles(history, draws, seed)
    rng = np.random.default_rng([seed, 3])
    vectors = _vectors(ranker, drawn, items, rng)  # [J, k, D]
    relevant = ranker.relevance.of_arrays(drawn.profiles[:, None], vectors)
    unsure = ranker.table.bias_scales_of(items) * rng.standard_normal((draws, len(items)))
    biases = ranker.table.biases_of(items) + unsure
    utilities = biases + relevant
    added = ranker.terms.draws(history, draws, seed)
    if added.weights is not None:
        utilities += np.asarray(added.weights) @ ranker.table.features_of(items).T
    if added.offsets is not None:
        rows, met = np.nonzero(items[:, None] == np.asarray(added.items))
        utilities[:, rows] += np.asarray(added.offsets)[:, met]
    relevance: Doubles = np.exp(utilities, dtype=np.float64)
    return relevance


def _vectors(
    ranker: ExactRanker, drawn: Profiles, items: Ints, rng: np.random.Generator
) -> Doubles:
    means, scales = ranker.table.means_of(items), ranker.table.scales_of(items)
    noise = rng.standard_normal((len(drawn.profiles), *means.shape))
    vectors: Doubles = means + scales * noise
    clicked = np.isin(items, drawn.items)
    vectors[:, clicked] = drawn.vectors[:, np.searchsorted(drawn.items, items[clicked])]
    return vectors
