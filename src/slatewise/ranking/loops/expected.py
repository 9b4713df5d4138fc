"""Expected relevance.

Of a distance, E exp(−√D) = Σ weight · E exp(−rate · D) over the nodes of a quadrature; of a dot
product, a normal number, log E exp(z · v) = z · μ + ½ Σ z²σ².
"""

import math
from typing import Any

import numpy as np

from slatewise.compiled.compilation import compiled, inlined
from slatewise.compiled.lanes import (
    WIDTH,
    add,
    divide,
    everywhere,
    larger,
    load,
    log_of_two,
    multiply,
    power_of_two,
    root,
    smaller,
    squared_distances,
    store,
    subtract,
)
from slatewise.ranking.loops.offers import MARGIN, ROUNDING


@compiled
def add_bounds(
    columns: Any,
    num_items: Any,
    profile: Any,
    rates: Any,
    weights: Any,
    nears: Any,
    upper: Any,
) -> None:
    """Write the squared distances of all means to the profile [1, D]; add to upper bounds [C].

    E exp(−rD) is at most exp(−rx/u − s log u / 2w) with u = 1 + 2rw, s = Σσ² and w = max σ².
    """
    one, least = everywhere(np.float32(1)), everywhere(np.float32(-126))
    tiny, half = everywhere(np.float32(1e-12)), everywhere(np.float32(0.5))
    for block in range((num_items + WIDTH - 1) // WIDTH):
        at = block * WIDTH
        (near,) = squared_distances(columns.means, block, profile, 0, 1)
        store(nears, at, near)
        widest = larger(load(columns.spreads[1], at), tiny)
        share = multiply(divide(load(columns.spreads[0], at), widest), half)
        total = load(upper, at)
        for node in range(len(rates)):
            rate = rates[node]
            u = add(multiply(widest, everywhere(2 * rate)), one)
            pull = multiply(divide(near, u), everywhere(rate * np.float32(-math.log2(math.e))))
            power = larger(subtract(pull, multiply(share, log_of_two(u))), least)
            total = add(total, multiply(power_of_two(power), everywhere(weights[node])))
        store(upper, at, total)


@compiled
def mean_relevance(
    rows: Any, items: Any, profiles: Any, factors: Any, rates: Any, weights: Any, values: Any
) -> None:
    """Write the mean over profiles [M, D] of factor · E exp(−‖z − v_i‖) for items [n].

    Factors are [n, M].
    """
    for index in range(len(items)):
        mean, scale = rows[items[index], 0], rows[items[index], 1]
        total = 0.0
        for m in range(len(profiles)):
            part = 0.0
            for node in range(len(rates)):
                rate, product, exponent = rates[node], 1.0, 0.0
                for d in range(profiles.shape[1]):
                    gap = np.float64(profiles[m, d]) - np.float64(mean[d])
                    u = 1.0 + 2.0 * rate * np.float64(scale[d]) ** 2
                    product *= u  # infinite when the node counts for nothing
                    exponent -= gap * gap / u
                part += weights[node] * math.exp(rate * exponent) / math.sqrt(product)
            total += factors[index, m] * part
        values[index] = total / len(profiles)


@compiled
def log_bounds(
    columns: Any, num_items: Any, profiles: Any, weights: Any, lower: Any, upper: Any
) -> None:
    """Write bounds [C] of the greatest log E exp(z · v + weights · features) over profiles [M, D].

    Weights are [M, P] floats.
    """
    size, count = profiles.shape[1], weights.shape[1]
    error = everywhere(np.float32((size + count + 4) * ROUNDING))
    zero, lowest = everywhere(np.float32(0)), everywhere(np.float32(-np.inf))
    lengths, heights = _squares(profiles)
    for block in range((num_items + WIDTH - 1) // WIDTH):
        squares, least, most = zero, lowest, lowest
        for d in range(size):
            mean = load(columns.means, (block * size + d) * WIDTH)
            squares = add(squares, multiply(mean, mean))
        for m in range(len(profiles)):
            value, slack = zero, root(multiply(squares, everywhere(lengths[m])))
            for d in range(size):
                mean = load(columns.means, (block * size + d) * WIDTH)
                value = add(value, multiply(mean, everywhere(profiles[m, d])))
            for p in range(count):
                feature = load(columns.features, (block * count + p) * WIDTH)
                term = multiply(feature, everywhere(weights[m, p]))
                value = add(value, term)
                slack = add(slack, larger(term, subtract(zero, term)))
            slack = multiply(slack, error)
            low, high = _half_variance(columns, block, lengths[m], heights[m])
            least = larger(subtract(add(value, low), slack), least)
            most = larger(add(add(value, high), slack), most)
        store(lower, block * WIDTH, least)
        store(upper, block * WIDTH, most)


@compiled
def _squares(profiles: Any) -> Any:
    """Return ‖z‖² and max z² of profiles [M, D], as floats."""
    lengths, heights = np.zeros(len(profiles), np.float32), np.zeros(len(profiles), np.float32)
    for m in range(len(profiles)):
        for d in range(profiles.shape[1]):
            square = profiles[m, d] * profiles[m, d]
            lengths[m] += square
            heights[m] = max(heights[m], square)
    return lengths, heights


@inlined
def _half_variance(columns: Any, block: Any, length: Any, height: Any) -> Any:
    """Bound ½ Σ z²σ² for a block of items from below and above, given ‖z‖² and h = max z².

    With s = Σσ² and w = max σ² it is at most ½‖z‖²w and at most ½hs, and at least
    ½‖z‖²w − ½h(Dw − s), because z² is at most h wherever σ² lacks something of w.
    """
    total, widest = load(columns.spreads[0], block * WIDTH), load(columns.spreads[1], block * WIDTH)
    half, high = everywhere(np.float32(0.5)), everywhere(height)
    all_widest = multiply(widest, everywhere(np.float32(columns.rows.shape[2])))  # Dw
    bound = multiply(widest, everywhere(length))
    least = subtract(bound, multiply(subtract(all_widest, total), high))
    margin = multiply(add(bound, multiply(all_widest, high)), everywhere(np.float32(MARGIN)))
    low = subtract(multiply(larger(least, everywhere(np.float32(0))), half), margin)
    return low, add(multiply(smaller(bound, multiply(total, high)), half), margin)


@compiled
def mean_log_relevance(rows: Any, items: Any, profiles: Any, logs: Any, values: Any) -> None:
    """Write the log of the mean over profiles [M, D] of exp(log) E exp(z · v_i) for items [n].

    Logs are [n, M].
    """
    exponents = np.empty(len(profiles))
    for index in range(len(items)):
        mean, scale = rows[items[index], 0], rows[items[index], 1]
        most = -np.inf
        for m in range(len(profiles)):
            exponent = logs[index, m]
            for d in range(profiles.shape[1]):
                z = np.float64(profiles[m, d])
                exponent += z * np.float64(mean[d]) + 0.5 * (z * np.float64(scale[d])) ** 2
            exponents[m] = exponent
            most = max(most, exponent)
        total = 0.0
        for m in range(len(profiles)):
            total += math.exp(exponents[m] - most)
        values[index] = most + math.log(total / len(profiles))
