"""Exact greedy ranking: by the score of the means."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slatewise.errors import SlatewiseError
from slatewise.ranking.columns import Floats32
from slatewise.ranking.filters import NO_FILTER, Filter, narrowed, rules
from slatewise.ranking.loops import heap, passes
from slatewise.ranking.request import Ranking, checked_profiles, no_ranking, whole_ranking
from slatewise.ranking.table import ItemTable


def rank_means(
    table: ItemTable, profile: npt.ArrayLike, k: int, filter: Filter = NO_FILTER
) -> Ranking:
    """Return the k items with the greatest bias_i − ‖z − mean_i‖ for a profile z [D].

    The profile is rounded to floats, as the means are; scores are compared as doubles.
    """
    z = checked_profiles(table, profile, k, 1)[None]
    part, filter, numbers = narrowed(table, filter)
    num_items, columns = part.snapshot()
    rule = rules(part, filter)
    size = heap.room(columns, num_items, rule, k)
    items, best = no_ranking(size)  # an item may be switched off while we rank
    if size:
        passes.greedy(columns, num_items, rule, z, best, items)
    return whole_ranking(best, items, k, numbers)


def rank_means_many(
    table: ItemTable,
    profiles: npt.ArrayLike,
    k: int,
    filters: Sequence[Filter] | Filter = NO_FILTER,
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
    result = no_ranking(len(rows), k)
    if others:
        together = _together(table, rows[others], k, [each[b] for b in others])
        result.items[others], result.scores[others] = together
    for b in listed:
        result.items[b], result.scores[b] = rank_means(table, rows[b], k, each[b])
    return result


def _together(table: ItemTable, rows: Floats32, k: int, filters: Sequence[Filter]) -> Ranking:
    num_items, columns = table.snapshot()
    laid_out = [rules(table, filter) for filter in filters]
    size = -(-len(rows) // passes.TILE) * passes.TILE
    limits = np.zeros(size, np.int64)
    all_caps = np.full((size, max(len(rule.caps) for rule in laid_out)), -1)
    for b, rule in enumerate(laid_out):
        limits[b] = heap.room(columns, num_items, rule, k)
        all_caps[b, : len(rule.caps)] = rule.caps
    excluded = np.concatenate([rule.excluded for rule in laid_out])
    starts = np.zeros(size + 1, np.int64)
    starts[1 : len(rows) + 1] = np.cumsum([len(rule.excluded) for rule in laid_out])
    padded = np.zeros((size, table.dimensions), np.float32)
    padded[: len(rows)] = rows
    items, best = no_ranking(size, k)
    request = padded, excluded, starts, all_caps, limits
    passes.greedy_many(columns, num_items, *request, best, items)
    return Ranking(items[: len(rows)], best[: len(rows)])
