"""Exact greedy ranking: by the score of the means."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slatewise.ranking._plain import capped_top, stacked
from slatewise.ranking.filters import Filter
from slatewise.ranking.request import Ranking, checked_profiles
from slatewise.ranking.table import ItemTable


def rank_means(
    table: ItemTable, profile: npt.ArrayLike, k: int, filter: Filter = Filter()
) -> Ranking:
    """Return the k items with the greatest bias_i − ‖z − mean_i‖ for a profile z [D]."""
    z = checked_profiles(table, profile, k, 1).astype(np.float64)
    every = np.arange(table.num_items)
    scores = table.biases_of(every) - np.linalg.norm(table.means_of(every) - z, axis=1)
    return capped_top(table, scores, k, filter)


def rank_means_many(
    table: ItemTable,
    profiles: npt.ArrayLike,
    k: int,
    filters: Sequence[Filter] | Filter = Filter(),
) -> Ranking:
    """Rank for many profiles [B, D] in one pass; items and scores are [B, k]."""
    rows = checked_profiles(table, profiles, k, 2)
    each = [filters] * len(rows) if isinstance(filters, Filter) else filters
    return stacked(rank_means(table, z, k, f) for z, f in zip(rows, each, strict=True))
