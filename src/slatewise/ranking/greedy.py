"""Exact greedy ranking: by the closed form of the utility, which knows how uncertain items are."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slatewise.ranking import plain
from slatewise.ranking.additions import NO_ADDITIONS, AdditionArrays, Additions, arrays_of
from slatewise.ranking.columns import Floats32
from slatewise.ranking.filters import NO_FILTER, Filter, narrowed, rules
from slatewise.ranking.loops import heap, passes
from slatewise.ranking.loops.pieces import TILE, Distance, Dot
from slatewise.ranking.request import (
    Floats,
    Function,
    Ranking,
    Spread,
    checked_profiles,
    loops_of,
    no_ranking,
    one_per_profile,
    whole_ranking,
)
from slatewise.ranking.table import Ints, ItemTable


def rank_means(
    table: ItemTable,
    profile: npt.ArrayLike,
    k: int,
    filter: Filter = NO_FILTER,
    additions: Additions = NO_ADDITIONS,
    *,
    relevance: str | Function = "distance",
    spread: Spread | None = None,
) -> Ranking:
    """Return the k items with the greatest bias_i + w · x_i + o_i + r(z, i) for a profile z.

    Profile [D], weights w [P] and offsets o [m] of a few items, if there are any. The relevance r
    of an item is −√(‖z − mean_i‖² + Σ scale_i²) ("distance"), z · mean_i ("dot"), or that of any
    function at its mean, by which every item is scored in numpy; where the function can tell what
    uncertain items are worth, `spread` says how. The profile is rounded to floats, as the means
    are; scores are compared as doubles.
    """
    if not isinstance(relevance, str):
        return plain.rank_means(
            table, profile, k, filter, additions, relevance=relevance, spread=spread
        )
    loops = loops_of(relevance)
    z = checked_profiles(table, profile, k, 1)[None]
    added = arrays_of(table, additions, None)
    part, filter, numbers = narrowed(table, filter)
    added = added.within(numbers)
    num_items, columns = part.snapshot()
    rule = rules(part, filter)
    size = heap.room(columns, num_items, rule, k)
    items, best = no_ranking(size)  # an item may be switched off while we rank
    if size:
        added = added.only(rule.passing(added.items))
        rest = rule.without(added.items)
        passes.greedy(loops, columns, num_items, rest, z, added, best, items)
    return whole_ranking(best, items, k, numbers)


def rank_means_many(
    table: ItemTable,
    profiles: npt.ArrayLike,
    k: int,
    filters: Sequence[Filter] | Filter = NO_FILTER,
    additions: Sequence[Additions] | Additions = NO_ADDITIONS,
    *,
    relevance: str | Function = "distance",
    spread: Spread | None = None,
) -> Ranking:
    """Rank for many profiles [B, D], each with its filter and additions or all with one: [B, k].

    Profiles share the reading of the table, but for those with an allow list.
    """
    if not isinstance(relevance, str):
        return plain.rank_means_many(
            table, profiles, k, filters, additions, relevance=relevance, spread=spread
        )
    rows = checked_profiles(table, profiles, k, 2)
    each = one_per_profile(filters, rows, "filters")
    given = one_per_profile(additions, rows, "additions")
    listed = [b for b, filter in enumerate(each) if filter.allow is not None]
    others = [b for b, filter in enumerate(each) if filter.allow is None]
    result = no_ranking(len(rows), k)
    if others:
        added = [arrays_of(table, given[b], None) for b in others]
        wanted = [each[b] for b in others]
        together = _together(loops_of(relevance), table, rows[others], k, wanted, added)
        result.items[others], result.scores[others] = together
    for b in listed:
        alone = rank_means(table, rows[b], k, each[b], given[b], relevance=relevance)
        result.items[b], result.scores[b] = alone
    return result


def _together(
    loops: Distance | Dot,
    table: ItemTable,
    rows: Floats32,
    k: int,
    filters: Sequence[Filter],
    added: Sequence[AdditionArrays],
) -> Ranking:
    num_items, columns = table.snapshot()
    all_rules = [rules(table, filter) for filter in filters]
    kept = [
        part.only(rule.passing(part.items)) for part, rule in zip(added, all_rules, strict=True)
    ]
    size = -(-len(rows) // TILE) * TILE
    limits = np.zeros(size, np.int64)
    all_caps = np.full((size, max(len(rule.caps) for rule in all_rules)), -1)
    for b, rule in enumerate(all_rules):
        limits[b] = heap.room(columns, num_items, rule, k)
        all_caps[b, : len(rule.caps)] = rule.caps
    excluded = [
        rule.without(part.items).excluded for rule, part in zip(all_rules, kept, strict=True)
    ]
    apart = AdditionArrays(
        _padded([part.weights for part in kept], size),
        np.concatenate([part.items for part in kept]),
        np.concatenate([part.offsets for part in kept], axis=1),
    )
    padded = np.zeros((size, table.dimensions), np.float32)
    padded[: len(rows)] = rows
    items, best = no_ranking(size, k)
    request = padded, np.concatenate(excluded), _starts(excluded, size), apart
    shares = _starts([part.items for part in kept], size)
    passes.greedy_many(loops, columns, num_items, *request, shares, all_caps, limits, best, items)
    return Ranking(items[: len(rows)], best[: len(rows)])


def _starts(parts: Sequence[Ints], size: int) -> Ints:
    """Return where each part begins and the last one ends; the rest, up to `size`, are empty."""
    return np.cumsum([0, *map(len, parts), *[0] * (size - len(parts))])


def _padded(weights: Sequence[Floats], size: int) -> Floats:
    """Put weights [1, P] under each other: [size, P], 0 for who has none."""
    result = np.zeros((size, max(row.shape[1] for row in weights)))
    for b, row in enumerate(weights):
        result[b, : row.shape[1]] = row
    return result
