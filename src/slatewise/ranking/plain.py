"""Exact ranking by any relevance: every item is scored, block by block.

Slow, but right for whatever function of profile and vector a researcher writes, and what the
compiled loops are tested against. J profiles, I items, n of them in a block.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from slatewise.errors import SlatewiseError
from slatewise.ranking.additions import NO_ADDITIONS, AdditionArrays, Additions, arrays_of
from slatewise.ranking.filters import NO_FILTER, Filter, rules
from slatewise.ranking.request import (
    Floats,
    Function,
    Ranking,
    Spread,
    checked_known,
    checked_profiles,
    checked_seed,
    no_ranking,
    one_per_profile,
)
from slatewise.ranking.table import Ints, ItemTable

_BLOCK = 1 << 14
"""Items that are scored together: 3 MB of vectors in 25 dimensions."""


def of_tensors(function: Function) -> Function:
    """Wrap a function of torch tensors, [J, D] and [n, D] to [J, n], to rank arrays."""
    import torch  # noqa: PLC0415

    def of_arrays(profiles: Floats, vectors: Floats) -> Floats:
        values = function(torch.from_numpy(profiles), torch.from_numpy(vectors))  # type: ignore[arg-type]
        return np.asarray(values)

    return of_arrays


def rank_means(
    table: ItemTable,
    profile: npt.ArrayLike,
    k: int,
    filter: Filter = NO_FILTER,
    additions: Additions = NO_ADDITIONS,
    *,
    relevance: Function,
    spread: Spread | None = None,
) -> Ranking:
    """Return the k best items for a profile [D] by their means, as `ranking.rank_means` does."""
    z = checked_profiles(table, profile, k, 1)[None]
    items, scores = rank_means_many(
        table, z, k, filter, additions, relevance=relevance, spread=spread
    )
    return Ranking(items[0], scores[0])


def rank_means_many(
    table: ItemTable,
    profiles: npt.ArrayLike,
    k: int,
    filters: Sequence[Filter] | Filter = NO_FILTER,
    additions: Sequence[Additions] | Additions = NO_ADDITIONS,
    *,
    relevance: Function,
    spread: Spread | None = None,
) -> Ranking:
    """Rank for many profiles [J, D], each with its filter and additions or all with one: [J, k]."""
    zs = checked_profiles(table, profiles, k, 2).astype(np.float64)
    each = one_per_profile(filters, zs, "filters"), one_per_profile(additions, zs, "additions")
    every, ranking = np.arange(table.num_items), no_ranking(len(zs), k)
    for j, (filter, more) in enumerate(zip(*each, strict=True)):
        scores = np.empty(table.num_items)
        for block in _blocks(every):
            z, vectors = zs[j : j + 1], table.means_of(block).astype(np.float64)
            if spread is not None:
                z, vectors = spread(z, vectors, table.variances_of(block).astype(np.float64))
            scores[block] = _values(relevance, z, vectors)[0]
        scores += table.biases_of(every) + _extra(table, arrays_of(table, more, None))[0]
        _keep_best(table, scores, filter, k, ranking.items[j], ranking.scores[j])
    return ranking


def rank_draws(
    table: ItemTable,
    profiles: npt.ArrayLike,
    k: int,
    seed: int,
    filter: Filter = NO_FILTER,
    known_items: npt.ArrayLike = (),
    known_vectors: npt.ArrayLike | None = None,
    additions: Additions = NO_ADDITIONS,
    *,
    relevance: Function,
) -> Ranking:
    """Rank the items for each profile [J, D] in a draw of all of them, as `ranking.rank_draws`."""
    zs = checked_profiles(table, profiles, k, 2).astype(np.float64)
    known, vectors = checked_known(table, len(zs), known_items, known_vectors)
    extra, ranking = _extra(table, arrays_of(table, additions, len(zs))), no_ranking(len(zs), k)
    every, scores = np.arange(table.num_items), np.empty(table.num_items)
    for j, own in enumerate(np.random.SeedSequence(checked_seed(seed)).spawn(len(zs))):
        rng = np.random.default_rng(own)
        for block in _blocks(every):
            drawn = _drawn(table, block, rng)
            here = (known >= block[0]) & (known <= block[-1])
            drawn[known[here] - block[0]] = vectors[j, here]
            scores[block] = _values(relevance, zs[j : j + 1], drawn)[0]
        biases = rng.normal(table.biases_of(every), table.bias_scales_of(every))
        _keep_best(
            table, scores + biases + extra[j], filter, k, ranking.items[j], ranking.scores[j]
        )
    return ranking


def rank_expected(
    table: ItemTable,
    profiles: npt.ArrayLike,
    k: int,
    filter: Filter = NO_FILTER,
    additions: Additions = NO_ADDITIONS,
    *,
    relevance: Function,
    draws: int = 100,
    seed: int = 0,
) -> Ranking:
    """Rank by the mean of exp(utility) over profiles and over draws of every item: [k].

    The mean over biases is taken in closed form, that over vectors from `draws` of each.
    """
    zs = checked_profiles(table, profiles, k, 2).astype(np.float64)
    ranking, every, rng = no_ranking(k), np.arange(table.num_items), np.random.default_rng(seed)
    if not len(zs):
        return ranking
    logs = np.full((len(zs), table.num_items), -np.inf)
    for block in _blocks(every):
        for _ in range(draws):
            values = _values(relevance, zs, _drawn(table, block, rng))
            logs[:, block] = np.logaddexp(logs[:, block], values)
    logs += _extra(table, arrays_of(table, additions, len(zs)))
    logs += table.biases_of(every) + np.square(table.bias_scales_of(every), dtype=np.float64) / 2
    scores = np.logaddexp.reduce(logs) - np.log(len(zs) * draws)
    _keep_best(table, scores, filter, k, *ranking)
    return Ranking(ranking.items, np.where(ranking.items >= 0, np.exp(ranking.scores), -np.inf))


def _blocks(items: Ints) -> Iterator[Ints]:
    for start in range(0, len(items), _BLOCK):
        yield items[start : start + _BLOCK]


def _drawn(table: ItemTable, items: Ints, rng: np.random.Generator) -> Floats:
    """Return a vector of every item, drawn from its law: [n, D]."""
    return rng.normal(table.means_of(items), table.scales_of(items))


def _values(relevance: Function, profiles: Floats, vectors: Floats) -> Floats:
    """Return the relevance [J, n] of vectors [n, D], refusing what cannot be ranked."""
    values = np.asarray(relevance(profiles, vectors), np.float64)
    wanted = len(profiles), len(vectors)
    if values.shape != wanted:
        raise SlatewiseError(
            f"The relevance of {wanted[1]} items for {wanted[0]} profiles has the shape "
            f"{list(values.shape)}.",
            "Return [J, n] for profiles [J, D] and vectors [n, D].",
        )
    if np.isnan(values).any():
        raise SlatewiseError("The relevance of an item is not a number.", "Correct the function.")
    return values


def _extra(table: ItemTable, added: AdditionArrays) -> Floats:
    """Return what a request adds to every score: [J, I], or [J, 1] if it is nothing."""
    result = np.zeros((len(added.offsets), 1))
    if added.weights.shape[1]:
        features = table.features_of(np.arange(table.num_items)).astype(np.float64)
        result = added.weights @ features.T
    if len(added.items):
        result = np.repeat(result, table.num_items // result.shape[1], axis=1)
        result[:, added.items] += added.offsets
    return result


def _keep_best(
    table: ItemTable, scores: Floats, filter: Filter, k: int, items: Ints, best: Floats
) -> None:
    """Fill items and their scores [k] with the best of scores [I] within a filter, best first."""
    rule = rules(table, filter)
    may = table.available & rule.passing(np.arange(len(scores))) & (scores > -np.inf)
    left = np.flatnonzero(may)
    if len(left) > k and not len(rule.caps):
        left = left[scores[left] >= np.partition(scores[left], -k)[-k]]
    left = left[np.argsort(-scores[left], kind="stable")]
    if len(rule.caps):
        groups = table.groups[left]
        room = np.where(rule.caps < 0, k, rule.caps)[groups]
        left = left[_rank_within(groups) < room]
    found = left[:k]
    items[: len(found)], best[: len(found)] = found, scores[found]


def _rank_within(groups: npt.NDArray[np.int32]) -> Ints:
    """Count for each element [n] those of its group before it."""
    order = np.argsort(groups, kind="stable")
    ordered, result = groups[order], np.empty(len(groups), np.int64)
    result[order] = np.arange(len(groups)) - np.searchsorted(ordered, ordered)
    return result
