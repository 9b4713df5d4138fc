"""Exact ranking by expected relevance."""

import numpy as np
import numpy.typing as npt

from slatewise.ranking._plain import capped_top
from slatewise.ranking.filters import Filter
from slatewise.ranking.request import Ranking, checked_profiles
from slatewise.ranking.table import ItemTable


def rank_expected(
    table: ItemTable, profiles: npt.ArrayLike, k: int, filter: Filter = Filter()
) -> Ranking:
    """Rank by (1/M) Σ_m E exp(bias_i − ‖z_m − v_i‖) for profiles [M, D]: the mean relevance."""
    zs = checked_profiles(table, profiles, k, 2)
    every = np.arange(table.num_items)
    rng = np.random.default_rng(0)
    total = np.zeros(table.num_items)
    for z in zs:
        for _ in range(100):
            v = rng.normal(table.means_of(every), table.scales_of(every))
            total += np.exp(table.biases_of(every) - np.linalg.norm(v - z, axis=1))
    return capped_top(table, total / (100 * len(zs)), k, filter)
