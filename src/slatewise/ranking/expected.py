"""Exact ranking by expected relevance.

With N standard normal, exp(−√D) = E exp(−D / 2N²), and the expectation of exp(−rD) over an item's
Gaussian vector has a closed form: one integral over N is left, and a quadrature of it gives the
expected relevance of an item. A coarse one over bounds tells which items need it.
"""

import numpy as np
import numpy.typing as npt

from slatewise.ranking.additions import NO_ADDITIONS, Added, Additions, laid_out
from slatewise.ranking.columns import LANES, Columns, Floats32
from slatewise.ranking.filters import NO_FILTER, Filter, Rules, narrowed, rules
from slatewise.ranking.loops import heap, relevance
from slatewise.ranking.request import (
    Floats,
    Ranking,
    checked_profiles,
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
) -> Ranking:
    """Rank by (1/M) Σ_m E exp(b_i + w_m · x_i + o_mi − ‖z_m − v_i‖): the mean relevance [k].

    Profiles z [M, D], weights w [M, P] and offsets o [M, n] of a few items, if there are any.
    """
    zs = checked_profiles(table, profiles, k, 2)
    added = laid_out(table, additions, len(zs))
    part, filter, numbers = narrowed(table, filter)
    added = added.within(numbers)
    num_items, columns = part.snapshot()
    rule = rules(part, filter)
    size = heap.room(columns, num_items, rule, k)
    items, best = no_ranking(size)
    if size and len(zs):
        chosen = _shortlist(num_items, columns, zs, rule, added, size)
        values = np.empty(len(chosen))
        rates, weights = nodes(-3, 12, 0.125)
        logs = added.offsets_of(chosen) + added.weights @ _features(columns, chosen, added).T
        factors = np.exp(logs.T + _log_biases(columns, chosen)[:, None])  # [n, M]
        relevance.mean_relevance(columns.rows, chosen, zs, factors, rates, weights, values)
        heap.best_of(chosen, values, columns.groups, rule.caps, best, items)
    return whole_ranking(best, items, k, numbers)


def _log_biases(columns: Columns, items: Ints | slice) -> Floats:
    """Return log E exp(b_i) of items [n]: the mean of a Gaussian plus half its variance."""
    logs = columns.offers[items].astype(np.float64)
    if len(columns.spreads) > 2:
        logs += np.square(columns.spreads[2, items], dtype=np.float64) / 2
    return logs


def _features(columns: Columns, items: Ints, added: Added) -> Floats:
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
    num_items: int, columns: Columns, zs: Floats32, rule: Rules, added: Added, size: int
) -> Ints:
    """Return the items whose upper bound reaches what the best lower bounds promise.

    exp(−√D) is convex in D, so that exp(−√E D) bounds the relevance from below. Items with offsets
    are looked at in any case.
    """
    lower, upper = _bounds(num_items, columns, zs, added)
    offers = columns.offers[:num_items]
    may = offers > -np.inf
    may[rule.excluded] = False
    if len(rule.allowed):
        may &= rule.allowed[:num_items]
    apart = added.items[may[added.items]]
    may[apart] = False
    eligible = np.flatnonzero(may)
    logs = _log_biases(columns, slice(num_items))
    factor = np.exp((logs[eligible] - logs.max()).astype(np.float32))
    lower, upper = lower[eligible] * factor, upper[eligible] * factor
    items, best = no_ranking(size)
    heap.best_of(eligible, lower, columns.groups, rule.caps, best, items)
    return np.concatenate([eligible[upper >= best[-1]], apart])


def _bounds(
    num_items: int, columns: Columns, zs: Floats32, added: Added
) -> tuple[Floats32, Floats32]:
    rates, weights = nodes(-2, 9, 0.4)
    coarse = rates.astype(np.float32), (weights * _COARSE_ERROR).astype(np.float32)
    nears, upper = np.empty(columns.capacity, np.float32), np.zeros(columns.capacity, np.float32)
    lower, above = np.zeros(num_items, np.float32), np.zeros(num_items, np.float32)
    for z, row in zip(zs, added.weights, strict=True):
        relevance.add_bounds(columns, num_items, z[None], *coarse, nears, upper)
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
