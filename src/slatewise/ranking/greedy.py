"""Exact greedy ranking: by the score of the means."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slatewise.errors import SlatewiseError
from slatewise.ranking import _numba as loops
from slatewise.ranking.columns import LANES, Floats32
from slatewise.ranking.filters import Filter, narrowed, rules
from slatewise.ranking.request import Ranking, checked_profiles, sorted_ranking
from slatewise.ranking.table import ItemTable

_NO_FILTER = Filter()


def rank_means(
    table: ItemTable, profile: npt.ArrayLike, k: int, filter: Filter = _NO_FILTER
) -> Ranking:
    """Return the k items with the greatest bias_i − ‖z − mean_i‖ for a profile z [D].

    The profile is rounded to floats, as the means are; scores are compared as doubles.
    """
    z = checked_profiles(table, profile, k, 1)[None]
    part, filter, numbers = narrowed(table, filter)
    num_items, columns = part.snapshot()
    rule = rules(part, filter)
    size = loops.room(columns.offers, columns.groups, num_items, *rule, k)
    best, items = np.empty(size), np.empty(size, np.int64)
    if size:
        arrays = columns.means, columns.offers, columns.groups
        loops.greedy(*arrays, num_items, z, *rule, best, items)
    return sorted_ranking(best, items, k).renumbered(numbers)


def rank_means_many(
    table: ItemTable,
    profiles: npt.ArrayLike,
    k: int,
    filters: Sequence[Filter] | Filter = _NO_FILTER,
) -> Ranking:
    """Rank for many profiles [B, D], each with its filter or all with one: [B, k].

    Profiles share the reading of the table, but for those with an allow list.
    """
    rows = checked_profiles(table, profiles, k, 2)
    each = [filters] * len(rows) if isinstance(filters, Filter) else list(filters)
    if len(each) != len(rows):
        raise SlatewiseError(
            f"There are {len(each)} filters for {len(rows)} profiles.", "Give one for each."
        )
    listed = [b for b, filter in enumerate(each) if filter.allow is not None]
    others = [b for b, filter in enumerate(each) if filter.allow is None]
    result = Ranking(np.full((len(rows), k), -1), np.full((len(rows), k), -np.inf))
    if others:
        together = _together(table, rows[others], k, [each[b] for b in others])
        result.items[others], result.scores[others] = together
    for b in listed:
        result.items[b], result.scores[b] = rank_means(table, rows[b], k, each[b])
    return result


def _together(table: ItemTable, rows: Floats32, k: int, filters: Sequence[Filter]) -> Ranking:
    num_items, columns = table.snapshot()
    laid_out = [rules(table, filter) for filter in filters]
    offers, groups = columns.offers, columns.groups
    size = -(-len(rows) // LANES) * LANES
    limits = np.zeros(size, np.int64)
    for b, rule in enumerate(laid_out):
        limits[b] = loops.room(offers, groups, num_items, *rule, k)
    most = max(len(rule.caps) for rule in laid_out)
    all_caps = np.full((size, most), -1)
    for caps, rule in zip(all_caps, laid_out, strict=False):
        caps[: len(rule.caps)] = rule.caps
    excluded = np.concatenate([rule.excluded for rule in laid_out])
    starts = np.zeros(size + 1, np.int64)
    starts[1 : len(rows) + 1] = np.cumsum([len(rule.excluded) for rule in laid_out])
    padded = np.zeros((size, table.dimensions), np.float32)
    padded[: len(rows)] = rows
    best, items = np.full((size, k), -np.inf), np.full((size, k), -1)
    request = num_items, padded, excluded, starts, all_caps, limits
    loops.greedy_many(columns.means, offers, groups, *request, best, items)
    return sorted_ranking(best[: len(rows)], items[: len(rows)], k)
