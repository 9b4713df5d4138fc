"""Exact ranking of posterior draws of all items (Section 4 of the paper)."""

import numpy as np
import numpy.typing as npt

from slatewise.ranking._plain import capped_top, stacked
from slatewise.ranking.filters import Filter
from slatewise.ranking.request import Ranking, checked_profiles
from slatewise.ranking.table import ItemTable


def rank_draws(
    table: ItemTable,
    profiles: npt.ArrayLike,
    k: int,
    seed: int,
    filter: Filter = Filter(),
    known_items: npt.ArrayLike = (),
    known_vectors: npt.ArrayLike | None = None,
) -> Ranking:
    """Rank the items for each profile [J, D] in a posterior draw of its own; [J, k].

    In draw j item i has the vector v_i ~ N(mean_i, diag scale_i²) and the score
    bias_i − ‖z_j − v_i‖. Items whose vectors are known, since the profiles were computed from
    them, take these: items [C], vectors [J, C, D]. The same seed gives the same rankings.
    """
    zs = checked_profiles(table, profiles, k, 2)
    rng = np.random.default_rng(seed)
    every = np.arange(table.num_items)
    known = table.checked(known_items)

    def one(j: int) -> Ranking:
        v = rng.normal(table.means_of(every), table.scales_of(every))
        if len(known):
            v[known] = np.asarray(known_vectors)[j]
        return capped_top(table, table.biases_of(every) - np.linalg.norm(v - zs[j], axis=1), k, filter)

    return stacked(one(j) for j in range(len(zs)))
