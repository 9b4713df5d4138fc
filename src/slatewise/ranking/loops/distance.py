"""What the loops ask of the relevance −‖z − v‖; `pieces` compiles it into them.

A measure of closeness, `near`, is here a squared distance: the less the better.
"""

import math
from typing import Any

import numpy as np

from slatewise.compiled.compilation import inlined
from slatewise.compiled.lanes import (
    WIDTH,
    add,
    at_most,
    everywhere,
    larger,
    load,
    multiply,
    root,
    smaller,
    squared_distances,
    store,
    subtract,
    sum_of,
)
from slatewise.ranking.loops.bounds import tail_bound, uncertain_bound
from slatewise.ranking.loops.offers import MARGIN, ceilings_in_draws
from slatewise.ranking.loops.randomness import normal
from slatewise.ranking.loops.tilting import drawn, raised


@inlined
def score(relevance: Any, profile: Any, vector: Any) -> Any:
    """Return the relevance of one vector [D] for a profile [D], in doubles."""
    total = 0.0
    for d in range(len(profile)):
        gap = np.float64(profile[d]) - np.float64(vector[d])
        total += gap * gap
    return -math.sqrt(total)


@inlined
def expected_score(relevance: Any, columns: Any, item: Any, profile: Any) -> Any:
    """Return the relevance −√(‖z − μ‖² + Σσ²) of an item for a profile [D], in doubles."""
    total = np.float64(columns.spreads[0, item])
    for d in range(len(profile)):
        mean = np.float64(columns.means[item // WIDTH, d, item % WIDTH])
        gap = np.float64(profile[d]) - mean
        total += gap * gap
    return -math.sqrt(total)


@inlined
def one(relevance: Any, columns: Any, block: Any, rows: Any, lengths: Any, row: Any) -> Any:
    """Measure sixteen items, with their spread, against a row [D] of this length."""
    (near,) = squared_distances(columns.means, block, rows, row, 1)
    return add(near, load(columns.spreads[0], block * WIDTH))


@inlined
def four(relevance: Any, columns: Any, block: Any, rows: Any, lengths: Any, first: Any) -> Any:
    """Measure sixteen items, with their spread, against four rows."""
    n0, n1, n2, n3 = squared_distances(columns.means, block, rows, first, 4)
    spread = load(columns.spreads[0], block * WIDTH)
    return add(n0, spread), add(n1, spread), add(n2, spread), add(n3, spread)


@inlined
def within(relevance: Any, near: Any, offers: Any, low: Any) -> Any:
    """Return a bit for every lane whose score, offer − √near, may be at least `low`."""
    reach = subtract(offers, everywhere(low))
    far = multiply(multiply(reach, reach), everywhere(np.float32(1 + MARGIN)))
    return at_most(near, far) & at_most(everywhere(np.float32(0)), reach)


@inlined
def surveyed(relevance: Any, means: Any, spreads: Any, block: Any, middle: Any, centre: Any) -> Any:
    """Measure a block against the middle of the profiles; return that, and at best.

    At best means m − 2√v, with m the mean and v a bound of the variance of the squared distance in
    a draw. The profiles' scatter adds 4 times itself to v, in units of the squared distance.
    """
    at = block * WIDTH
    (near,) = squared_distances(means, block, middle, 0, 1)
    total = load(spreads[0], at)
    inner = multiply(load(spreads[1], at), add(total, add(near, near)))
    around = everywhere(np.float32(4) * centre.scatter)
    spread = root(add(add(inner, inner), multiply(around, near)))
    best = subtract(add(near, total), add(spread, spread))
    return near, larger(best, everywhere(np.float32(0)))


@inlined
def hope_of(relevance: Any, columns: Any, item: Any, near: Any, middle: Any, centre: Any) -> Any:
    """Return the relevance that an item has at best, as `surveyed` measures it, in doubles."""
    total, widest = np.float64(columns.spreads[0, item]), np.float64(columns.spreads[1, item])
    around = np.float32(4) * centre.scatter * near
    variance = 2.0 * widest * (total + 2.0 * near) + around
    return -math.sqrt(max(near + total - 2.0 * math.sqrt(variance), 0.0))


@inlined
def widened(relevance: Any, near: Any, centre: Any) -> Any:
    """Bound the measure to any profile, given that to their middle: the triangle inequality."""
    gap = subtract(root(near), everywhere(centre.spread))
    nearest = larger(gap, everywhere(np.float32(0)))
    return multiply(nearest, nearest)


@inlined
def least_reach(relevance: Any, columns: Any) -> Any:
    """Return how far an offer may lie below the score to reach, for an item on offer.

    An uncertain bias may make up for any lack; -inf is the offer of an item not available.
    """
    return np.float32(-3e38 if len(columns.spreads) > 2 else 0)


@inlined
def chance(
    relevance: Any,
    spreads: Any,
    centre: Any,
    near: Any,
    total: Any,
    widest: Any,
    reach: Any,
    bias_sd: Any,
) -> Any:
    """Bound the probability that a drawn item comes within reach, in every lane."""
    if len(spreads) > 2:
        return uncertain_bound(near, total, widest, reach, bias_sd)
    return tail_bound(near, total, widest, reach)


@inlined
def fill_bounds(relevance: Any, columns: Any, item: Any, near: Any, most: Any, draws: Any) -> Any:
    """Write a bound of an item's chance in every draw, at most `most`; return their sum.

    `near` measures the item against all profiles, negative if they differ.
    """
    sum_, nears, bias_sd = np.float32(0), everywhere(near), everywhere(np.float32(0))
    total, widest = everywhere(columns.spreads[0, item]), everywhere(columns.spreads[1, item])
    if len(columns.spreads) > 2:
        bias_sd = everywhere(columns.spreads[2, item])
    for block in range(len(draws.blocks)):
        if near < 0:
            (nears,) = squared_distances(draws.blocks, block, columns.rows, 2 * item, 1)
        top = ceilings_in_draws(columns, item, draws.weights, draws.ends, block)
        top = add(top, load(draws.own, block * WIDTH))
        reach = subtract(top, load(draws.lows, block * WIDTH))
        if len(columns.spreads) > 2:
            bound = uncertain_bound(nears, total, widest, reach, bias_sd)
        else:
            bound = tail_bound(nears, total, widest, reach)
        bound = smaller(bound, everywhere(most))
        store(draws.bounds, block * WIDTH, bound)
        sum_ += sum_of(bound)
    return np.float64(sum_) * (1 + 1e-5)


@inlined
def best_profile(relevance: Any, means: Any, block: Any, tiles: Any, lengths: Any) -> Any:
    """Measure the columns of a block of means [D, 16] against the nearest of the profiles."""
    nearest = everywhere(np.float32(np.inf))
    for first in range(0, len(tiles), 4):
        for near in squared_distances(means, block, tiles, first, 4):
            nearest = smaller(near, nearest)
    return nearest


@inlined
def drawn_score(
    relevance: Any,
    columns: Any,
    item: Any,
    offer: Any,
    j: Any,
    draws: Any,
    heaps: Any,
    state: Any,
) -> Any:
    """Make the event of an item in draw j one of its law; return its score, or -inf if none."""
    mean, scale, profile = columns.rows[item, 0], columns.rows[item, 1], draws.profiles[j]
    bound = np.float64(draws.bounds[j])
    total, widest = np.float64(columns.spreads[0, item]), np.float64(columns.spreads[1, item])
    low, bias_sd, tau = -np.inf, 0.0, np.inf
    if heaps.sizes[j] == heaps.scores.shape[1]:
        low = heaps.scores[j, 0]
        # A little wider, so that equal scores come to be compared by item number.
        tau = (offer - low) ** 2 * (1 + 1e-9)
    if len(columns.spreads) > 2:
        bias_sd = np.float64(columns.spreads[2, item])
    if bias_sd > 0.0 and low > -np.inf:
        given = mean, scale, profile, total, widest, offer - low, bias_sd, bound, state
        excess = raised(*given, draws.room)
        return low + excess if excess >= 0.0 else -np.inf
    if offer < low:
        return -np.inf
    squared = drawn(mean, scale, profile, total, widest, tau, bound, state, draws.room)
    if squared < 0.0:
        return -np.inf
    if bias_sd > 0.0:
        offer += bias_sd * normal(state)
    return offer - math.sqrt(squared)
