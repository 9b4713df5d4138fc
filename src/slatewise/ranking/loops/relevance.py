"""Expected relevance: E exp(−√D) = Σ weight · E exp(−rate · D) over the nodes of a quadrature."""

import math
from typing import Any

import numpy as np

from slatewise.compiled.compilation import compiled
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
    squared_distances,
    store,
    subtract,
)


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
    for place in range(len(items)):
        mean, scale = rows[items[place], 0], rows[items[place], 1]
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
            total += factors[place, m] * part
        values[place] = total / len(profiles)
