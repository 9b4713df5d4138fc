"""What the loops ask of the relevance z · v; `pieces` compiles it into them.

A measure of closeness, `near`, is here a dot product, and the more the better: bounded from above,
with what rounding may have taken. In a draw a score is a normal number, so that its chance to reach
another and its law beyond that are closed forms; docs/thompson-proofs.md has the proof.
"""

import math
from typing import Any

import numpy as np

from slatewise.compiled.compilation import inlined
from slatewise.compiled.lanes import (
    WIDTH,
    add,
    at_most,
    divide,
    everywhere,
    larger,
    load,
    multiply,
    power_of_two,
    root,
    smaller,
    store,
    subtract,
    sum_of,
    where_reached,
)
from slatewise.ranking.loops.offers import MARGIN, ROUNDING, ceilings_in_draws
from slatewise.ranking.loops.randomness import normal, normal_above, uniform

_PER_SQUARE = np.float32(-0.5 * math.log2(math.e))
_PEAK = np.float32(0.39895)  # a little above 1 / √2π


@inlined
def score(relevance: Any, profile: Any, vector: Any) -> Any:
    """Return the relevance of one vector [D] for a profile [D], in doubles."""
    total = 0.0
    for d in range(len(profile)):
        total += np.float64(profile[d]) * np.float64(vector[d])
    return total


@inlined
def expected_score(relevance: Any, columns: Any, item: Any, profile: Any) -> Any:
    """Return the relevance z · μ of an item for a profile [D], in doubles: E z · v."""
    return score(relevance, profile, columns.means[item // WIDTH, :, item % WIDTH])


@inlined
def one(relevance: Any, columns: Any, block: Any, rows: Any, lengths: Any, row: Any) -> Any:
    """Measure sixteen items against a row [D] of this length."""
    blocks = columns.means
    size, zero = blocks.shape[1], everywhere(np.float32(0))
    total, squares = zero, zero
    for d in range(size):
        column = load(blocks, (block * size + d) * WIDTH)
        total = add(total, multiply(column, everywhere(rows[row, d])))
        squares = add(squares, multiply(column, column))
    return add(total, multiply(root(squares), everywhere(_error(size, lengths[row]))))


@inlined
def four(relevance: Any, columns: Any, block: Any, rows: Any, lengths: Any, first: Any) -> Any:
    """Measure sixteen items against four rows."""
    return _four(columns.means, block, rows, lengths, first)


@inlined
def _four(blocks: Any, block: Any, rows: Any, lengths: Any, first: Any) -> Any:
    """Measure the columns of a block [D, 16] against four rows [D] of these lengths."""
    size, zero = blocks.shape[1], everywhere(np.float32(0))
    squares, s0, s1, s2, s3 = zero, zero, zero, zero, zero
    for d in range(size):
        column = load(blocks, (block * size + d) * WIDTH)
        squares = add(squares, multiply(column, column))
        s0 = add(s0, multiply(column, everywhere(rows[first, d])))
        s1 = add(s1, multiply(column, everywhere(rows[first + 1, d])))
        s2 = add(s2, multiply(column, everywhere(rows[first + 2, d])))
        s3 = add(s3, multiply(column, everywhere(rows[first + 3, d])))
    length = root(squares)
    return (
        add(s0, multiply(length, everywhere(_error(size, lengths[first])))),
        add(s1, multiply(length, everywhere(_error(size, lengths[first + 1])))),
        add(s2, multiply(length, everywhere(_error(size, lengths[first + 2])))),
        add(s3, multiply(length, everywhere(_error(size, lengths[first + 3])))),
    )


@inlined
def _error(size: Any, length: Any) -> Any:
    """Return what rounding may take of z · μ, divided by ‖μ‖: at most D ε ‖z‖."""
    return length * np.float32((size + 3) * ROUNDING)


@inlined
def within(relevance: Any, near: Any, offers: Any, low: Any) -> Any:
    """Return a bit for every lane whose score, offer + near, may be at least `low`."""
    return at_most(everywhere(low), add(offers, near))


@inlined
def surveyed(relevance: Any, means: Any, spreads: Any, block: Any, middle: Any, centre: Any) -> Any:
    """Measure a block against any profile around their middle; return that, and at best.

    At best means two standard deviations above the mean in a draw: of the item, and of the
    profiles around their middle.
    """
    at, size = block * WIDTH, means.shape[1]
    zero = everywhere(np.float32(0))
    total, squares = zero, zero
    for d in range(size):
        column = load(means, (block * size + d) * WIDTH)
        total = add(total, multiply(column, everywhere(middle[0, d])))
        squares = add(squares, multiply(column, column))
    # (z − z̄) · μ ≤ ‖z − z̄‖ ‖μ‖.
    aside = centre.spread + _error(size, centre.length)
    near = add(total, multiply(root(squares), everywhere(aside * np.float32(1 + MARGIN))))
    inner = _variance(centre, load(spreads[0], at), load(spreads[1], at))
    spread = root(add(inner, multiply(squares, everywhere(centre.scatter))))
    return near, add(total, add(spread, spread))


@inlined
def _variance(centre: Any, total: Any, widest: Any) -> Any:
    """Bound Σ z²σ² for any profile, given Σσ² and max σ²: by ‖z‖² max σ², and by max z² Σσ²."""
    by_length = multiply(widest, everywhere(centre.length * centre.length))
    return smaller(by_length, multiply(total, everywhere(centre.height * centre.height)))


@inlined
def hope_of(relevance: Any, columns: Any, item: Any, near: Any, middle: Any, centre: Any) -> Any:
    """Return the relevance that an item has at best, as `surveyed` measures it, in doubles."""
    total, squares, variance = 0.0, 0.0, 0.0
    for d in range(columns.rows.shape[2]):
        z, mean = np.float64(middle[0, d]), np.float64(columns.rows[item, 0, d])
        total += z * mean
        squares += mean * mean
        variance += (z * np.float64(columns.rows[item, 1, d])) ** 2
    return total + 2.0 * math.sqrt(variance + centre.scatter * squares)


@inlined
def widened(relevance: Any, near: Any, centre: Any) -> Any:
    """Return the measure as it is: `surveyed` has bounded it for any profile."""
    return near


@inlined
def least_reach(relevance: Any, columns: Any) -> Any:
    """Return how far an offer may lie below the score to reach: any product may make up for it."""
    return np.float32(-3e38)


@inlined
def _tail(lead: Any, variance: Any) -> Any:
    """Bound the probability that a normal number is positive, given bounds of mean and variance.

    With a = −mean / sd > 0 it is at most exp(−a²/2) min(½, 1 / a√2π), and else 1.
    """
    one_, zero = everywhere(np.float32(1)), everywhere(np.float32(0))
    more, less = everywhere(np.float32(1 + MARGIN)), everywhere(np.float32(MARGIN - 1))
    var = larger(multiply(variance, more), everywhere(np.float32(1e-30)))
    gap = multiply(lead, less)
    factor = divide(multiply(root(var), everywhere(_PEAK)), gap)
    power = multiply(divide(multiply(gap, gap), var), everywhere(_PER_SQUARE))
    peak = power_of_two(larger(power, everywhere(np.float32(-126))))
    bound = multiply(smaller(factor, everywhere(np.float32(0.5))), peak)
    # In this order: an item not on offer makes a bound that is not a number, and has no chance.
    return larger(bound, larger(where_reached(lead, one_), zero))


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
    variance = add(_variance(centre, total, widest), multiply(bias_sd, bias_sd))
    return _tail(add(near, reach), variance)


@inlined
def fill_bounds(relevance: Any, columns: Any, item: Any, near: Any, most: Any, draws: Any) -> Any:
    """Write a bound of an item's chance in every draw, at most `most`; return their sum.

    Each draw has the item's own mean and variance, whatever `near` bounded them by.
    """
    size, squares, sum_ = draws.blocks.shape[1], np.float32(0), np.float32(0)
    for d in range(size):
        squares += columns.rows[item, 0, d] * columns.rows[item, 0, d]
    error = everywhere(np.float32(math.sqrt(squares) * _error(size, draws.centre.length)))
    bias_sd = everywhere(np.float32(0))
    if len(columns.spreads) > 2:
        bias_sd = everywhere(columns.spreads[2, item])
    for block in range(len(draws.blocks)):
        mean, variance = error, multiply(bias_sd, bias_sd)
        for d in range(size):
            profile = load(draws.blocks, (block * size + d) * WIDTH)
            mean = add(mean, multiply(profile, everywhere(columns.rows[item, 0, d])))
            part = multiply(profile, everywhere(columns.rows[item, 1, d]))
            variance = add(variance, multiply(part, part))
        top = ceilings_in_draws(columns, item, draws.weights, draws.ends, block)
        top = add(top, load(draws.own, block * WIDTH))
        reach = subtract(top, load(draws.lows, block * WIDTH))
        bound = smaller(_tail(add(mean, reach), variance), everywhere(most))
        store(draws.bounds, block * WIDTH, bound)
        sum_ += sum_of(bound)
    return np.float64(sum_) * (1 + 1e-5)


@inlined
def best_profile(relevance: Any, means: Any, block: Any, tiles: Any, lengths: Any) -> Any:
    """Measure the columns of a block of means [D, 16] against the best of the profiles."""
    best = everywhere(np.float32(-np.inf))
    for first in range(0, len(tiles), 4):
        for near in _four(means, block, tiles, lengths, first):
            best = larger(near, best)
    return best


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
    mean, variance = offer, 0.0
    for d in range(columns.rows.shape[2]):
        z = np.float64(draws.profiles[j, d])
        mean += z * np.float64(columns.rows[item, 0, d])
        variance += (z * np.float64(columns.rows[item, 1, d])) ** 2
    if len(columns.spreads) > 2:
        variance += np.float64(columns.spreads[2, item]) ** 2
    sd = math.sqrt(variance)
    if heaps.sizes[j] < heaps.scores.shape[1]:
        return mean + sd * normal(state)
    low = heaps.scores[j, 0]
    if sd == 0.0:
        return mean if mean >= low else -np.inf
    away = (low - mean) / sd
    if uniform(state) * np.float64(draws.bounds[j]) >= 0.5 * math.erfc(away / math.sqrt(2.0)):
        return -np.inf
    return mean + sd * normal_above(away, state)
