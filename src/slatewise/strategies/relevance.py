"""How relevant some items are to a user, and how sure that is."""

from collections.abc import Sequence

import numpy as np

from slatewise.strategies.exact import ExactRanker, Profiles
from slatewise.strategies.history import PastSlate
from slatewise.strategies.slate import Doubles
from slatewise.strategies.users import Ints


def relevance_draws(
    ranker: ExactRanker,
    clicks: Ints,
    items: Ints,
    draws: int,
    seed: int,
    unclicked: Sequence[PastSlate] = (),
) -> Doubles:
    """Draw the relevance exp(b − ‖z − v‖) of items [k] to a user: [J, k].

    Profile and items are drawn together: a clicked item's vector is that which moved the user.
    """
    drawn = ranker.draw_profiles(clicks, draws, seed, unclicked)
    vectors = _vectors(ranker, drawn, items, seed)  # [J, k, D]
    distance = np.linalg.norm(drawn.profiles[:, None] - vectors, axis=2)
    relevance: Doubles = np.exp(ranker.table.biases_of(items) - distance, dtype=np.float64)
    return relevance


def _vectors(ranker: ExactRanker, drawn: Profiles, items: Ints, seed: int) -> Doubles:
    means, scales = ranker.table.means_of(items), ranker.table.scales_of(items)
    noise = np.random.default_rng([seed, 3]).standard_normal((len(drawn.profiles), *means.shape))
    vectors: Doubles = means + scales * noise
    clicked = np.isin(items, drawn.items)
    vectors[:, clicked] = drawn.vectors[:, np.searchsorted(drawn.items, items[clicked])]
    return vectors
