"""What an item has before its distance counts: its bias, and weights times its features.

Weights are [J, P], one row for each profile. A pass computes in floats, from above; what it lets
through is settled in doubles.
"""

from typing import Any

import numpy as np

from slatewise.compiled.compilation import compiled, inlined
from slatewise.compiled.lanes import (
    WIDTH,
    add,
    everywhere,
    larger,
    load,
    multiply,
    smaller,
    subtract,
)

ROUNDING = 1.2e-7
"""Relative error of one sum or product of floats, granted twice."""
MARGIN = 2e-5
"""Relative error granted to sums of floats: safe for some 300 dimensions."""


@inlined
def offer_of(columns: Any, item: Any, weights: Any, row: Any) -> Any:
    """Return bias + w · x of an item, with a row of the weights."""
    total = np.float64(columns.offers[item])
    for p in range(weights.shape[1]):
        total += weights[row, p] * np.float64(columns.features[item // WIDTH, p, item % WIDTH])
    return total


@compiled
def extremes(weights: Any, first: Any, last: Any) -> Any:
    """Return the greatest and the least weights of some rows, by feature: [2, P] floats."""
    result = np.empty((2, weights.shape[1]), np.float32)
    for p in range(weights.shape[1]):
        result[0, p] = result[1, p] = np.float32(weights[first, p])
        for row in range(first + 1, last):
            result[0, p] = max(result[0, p], np.float32(weights[row, p]))
            result[1, p] = min(result[1, p], np.float32(weights[row, p]))
    return result


@compiled
def same_ends(weights: Any) -> Any:
    """Return the same of every single row: [J, 2, P] floats."""
    result = np.empty((len(weights), 2, weights.shape[1]), np.float32)
    for row in range(len(weights)):
        for p in range(weights.shape[1]):
            result[row, 0, p] = result[row, 1, p] = np.float32(weights[row, p])
    return result


@inlined
def ceilings(columns: Any, block: Any, ends: Any) -> Any:
    """Bound the offers of a block of items from above, for weights between the ends [2, P]."""
    total, zero = load(columns.offers, block * WIDTH), everywhere(np.float32(0))
    count, slack = ends.shape[1], everywhere(np.float32(0))
    for p in range(count):
        feature = load(columns.features, (block * count + p) * WIDTH)
        one = multiply(feature, everywhere(ends[0, p]))
        other = multiply(feature, everywhere(ends[1, p]))
        most, least = larger(one, other), smaller(one, other)
        total = add(total, most)
        slack = add(slack, larger(most, subtract(zero, least)))
    return add(total, multiply(slack, everywhere(np.float32((count + 2) * ROUNDING))))


@inlined
def ceilings_in_draws(columns: Any, item: Any, weights: Any, ends: Any, block: Any) -> Any:
    """Bound the offers of one item in sixteen draws from above: weights [J / 16, P, 16]."""
    total, size, count = everywhere(columns.offers[item]), np.float32(0), weights.shape[1]
    for p in range(count):
        feature = columns.features[item // WIDTH, p, item % WIDTH]
        row = load(weights, (block * count + p) * WIDTH)
        total = add(total, multiply(row, everywhere(feature)))
        size += abs(feature) * max(abs(ends[0, p]), abs(ends[1, p]))
    return add(total, everywhere(np.float32(size * (count + 2) * ROUNDING)))
