"""Exact ranking by expected relevance: bounds tell which items need it, and these get it.

For a distance: with N standard normal, exp(−√D) = E exp(−D / 2N²), and the expectation of exp(−rD)
over an item's Gaussian vector has a closed form: one integral over N is left, and a quadrature of
it gives the expected relevance; a coarse one bounds it. For a dot product all is in closed form.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from slatewise.ranking import plain
from slatewise.ranking.additions import NO_ADDITIONS, AdditionArrays, Additions, arrays_of
from slatewise.ranking.columns import LANES, Floats32, TableColumns
from slatewise.ranking.filters import NO_FILTER, Filter, Rules, narrowed, rules
from slatewise.ranking.loops import expected, heap
from slatewise.ranking.loops.pieces import Distance, Dot
from slatewise.ranking.request import (
    Floats,
    Function,
    Ranking,
    checked_profiles,
    loops_of,
    no_ranking,
    whole_ranking,
)
from slatewise.ranking.table import Ints, ItemTable

_COARSE_ERROR = 1.003
"""The coarse quadrature is within 0.2 % for distances up to 50; the rest is for rounding."""


def rank_expected(
    table: ItemTable,
    profiles: npt.ArrayLike,
    k: int,
    filter: Filter = NO_FILTER,
    additions: Additions = NO_ADDITIONS,
    *,
    relevance: str | Function = "distance",
) -> Ranking:
    """Rank by (1/M) Σ_m E exp(b_i + w_m · x_i + o_mi + r(z_m, v_i)): the mean relevance [k].

    Profiles z [M, D], weights w [M, P] and offsets o [M, n] of a few items, if there are any. The
    relevance r is −‖z − v‖ ("distance"), z · v ("dot"), or any function, for which the mean is
    taken over draws.
    """
    if not isinstance(relevance, str):
        return plain.rank_expected(table, profiles, k, filter, additions, relevance=relevance)
    loops = loops_of(relevance)
    zs = checked_profiles(table, profiles, k, 2)
    added = arrays_of(table, additions, len(zs))
    part, filter, numbers = narrowed(table, filter)
    added = added.within(numbers)
    num_items, columns = part.snapshot()
    rule = rules(part, filter)
    size = heap.room(columns, num_items, rule, k)
    items, best = no_ranking(size)
    if size and len(zs):
        work = {Distance: _distance, Dot: _dot}[type(loops)]
        work(num_items, columns, zs, rule, added, best, items)
    return whole_ranking(best, items, k, numbers)


def _distance(
    num_items: int,
    columns: TableColumns,
    zs: Floats32,
    rule: Rules,
    added: AdditionArrays,
    best: Floats,
    items: Ints,
) -> None:
    """Fill best and items [k] by the expected relevance of distances."""
    lower, upper = _bounds(num_items, columns, zs, added)
    logs = _log_biases(columns, slice(num_items))
    highest = logs.max()
    if highest == -np.inf:  # the last item was switched off after the table was read
        return
    factor = np.exp((logs - highest).astype(np.float32))
    chosen = _shortlist(columns, rule, added, lower * factor, upper * factor, len(items))
    values = np.empty(len(chosen))
    factors = np.exp(_logs(columns, chosen, added))
    expected.mean_relevance(columns.rows, chosen, zs, factors, *nodes(-3, 12, 0.125), values)
    heap.best_of(chosen, values, columns.groups, rule.caps, best, items)


def _dot(
    num_items: int,
    columns: TableColumns,
    zs: Floats32,
    rule: Rules,
    added: AdditionArrays,
    best: Floats,
    items: Ints,
) -> None:
    """Fill best and items [k] by the expected relevance of dot products, ranked by its log."""
    least, most = np.empty((2, columns.capacity), np.float32)
    weights = added.weights.astype(np.float32)
    expected.log_bounds(columns, num_items, zs, weights, least, most)
    logs = _log_biases(columns, slice(num_items))
    # A mean of M lies between the greatest and an M-th of it.
    lower, upper = logs + least[:num_items] - np.log(len(zs)), logs + most[:num_items]
    chosen = _shortlist(columns, rule, added, lower, upper, len(items))
    values = np.empty(len(chosen))
    expected.mean_log_relevance(columns.rows, chosen, zs, _logs(columns, chosen, added), values)
    heap.best_of(chosen, values, columns.groups, rule.caps, best, items)
    best[items >= 0] = np.exp(best[items >= 0])


def _logs(columns: TableColumns, items: Ints, added: AdditionArrays) -> Floats:
    """Return what is added to the utility of items in each profile, as a log: [n, M]."""
    logs = added.offsets_of(items) + added.weights @ _features(columns, items, added).T
    return np.ascontiguousarray(logs.T + _log_biases(columns, items)[:, None])


def _log_biases(columns: TableColumns, items: Ints | slice) -> Floats:
    """Return log E exp(b_i) of items [n]: the mean of a Gaussian plus half its variance."""
    logs = columns.offers[items].astype(np.float64)
    if len(columns.spreads) > 2:
        logs += np.square(columns.spreads[2, items], dtype=np.float64) / 2
    return logs


def _features(columns: TableColumns, items: Ints, added: AdditionArrays) -> Floats:
    """Return the features of items [n, P], or none where the request has no weights."""
    rows = columns.features[items // LANES, :, items % LANES].astype(np.float64)
    return rows[:, : added.weights.shape[1]]


def nodes(first: float, last: float, step: float) -> tuple[Floats, Floats]:
    """Return rates and weights with Σ weight · exp(−rate · D) = exp(−√D), nearly.

    A trapezoid rule for 2 ∫ φ(n) exp(−D / 2n²) dn over n > 0, in a variable t in which n falls to
    zero twice exponentially on the left and grows linearly on the right.
    """
    t = np.arange(first, last + step / 2, step)
    v = t - np.exp(-t)
    n = np.logaddexp(0, v)
    slope = (1 + np.exp(-t)) / (1 + np.exp(-v))
    return 1 / (2 * n * n), step * slope * np.exp(-n * n / 2) * np.sqrt(2 / np.pi)


def _shortlist(
    columns: TableColumns,
    rule: Rules,
    added: AdditionArrays,
    lower: npt.NDArray[Any],
    upper: npt.NDArray[Any],
    size: int,
) -> Ints:
    """Return the items whose upper bound [I] reaches what the best lower bounds promise.

    Items with offsets are looked at in any case.
    """
    may = columns.offers[: len(lower)] > -np.inf
    may[rule.excluded] = False
    if len(rule.allowed):
        may &= rule.allowed[: len(lower)]
    apart = added.items[may[added.items]]
    may[apart] = False
    eligible = np.flatnonzero(may)
    items, best = no_ranking(size)
    heap.best_of(eligible, lower[eligible], columns.groups, rule.caps, best, items)
    return np.concatenate([eligible[upper[eligible] >= best[-1]], apart])


def _bounds(
    num_items: int, columns: TableColumns, zs: Floats32, added: AdditionArrays
) -> tuple[Floats32, Floats32]:
    """Return bounds [I] of the expected relevance of distances, from below and above.

    exp(−√D) is convex in D, so that exp(−√E D) bounds it from below.
    """
    rates, weights = nodes(-2, 9, 0.4)
    coarse = rates.astype(np.float32), (weights * _COARSE_ERROR).astype(np.float32)
    nears, upper = np.empty(columns.capacity, np.float32), np.zeros(columns.capacity, np.float32)
    lower, above = np.zeros(num_items, np.float32), np.zeros(num_items, np.float32)
    for z, row in zip(zs, added.weights, strict=True):
        expected.add_bounds(columns, num_items, z[None], *coarse, nears, upper)
        least = np.exp(-np.sqrt(nears[:num_items] + columns.spreads[0, :num_items]))
        if len(row):
            logs = np.einsum("bpl,p->bl", columns.features, row).reshape(-1)[:num_items]
            factor = np.exp(logs.astype(np.float32))
            least *= factor
            above += upper[:num_items] * factor
            upper[:] = 0
        lower += least
    if not added.weights.shape[1]:
        above = upper[:num_items]
    return lower * np.float32(1 - 1e-5), above
