"""How relevant some items are to a user, and how sure that is."""

import numpy as np

from slatewise.features.user_history import UserHistory
from slatewise.slates.exact import ExactRanker, Profiles
from slatewise.slates.slate import Doubles
from slatewise.slates.users import Ints


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
    added = ranker.terms.drawn_for(history, items, draws, seed)
    relevance: Doubles = np.exp(biases + added + relevant, dtype=np.float64)
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
