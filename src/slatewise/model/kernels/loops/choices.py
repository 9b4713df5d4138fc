"""The slopes of log Z of one choice, as `slatewise.model.assumed_density` defines them.

Shapes: k items, Q nodes of the quadrature.
"""

import math
from typing import Any

import numpy as np

from slatewise.compiled.compilation import exact


@exact
def choice_slopes(
    means: Any,
    variances: Any,
    no_click: Any,
    clicked: Any,
    nodes: Any,
    weights: Any,
    first: Any,
    second: Any,
) -> None:
    """Fill in the slopes [k]; `clicked` is −1 for no click.

    Nodes come in ascending order, an even number, as far below 0 as above.
    """
    count = len(means)
    top = no_click
    for i in range(count):
        top = max(top, means[i])
    shares = np.empty(count)
    for j in range(count):
        shares[j] = math.exp(means[j] - top)
    nothing = math.exp(no_click - top)
    for i in range(count):
        # Summed without i, not taken off the whole sum: where i is nearly all of it, the
        # difference would be rounding.
        rest = nothing
        for j in range(count):
            if j != i:
                rest += shares[j]
        rest = max(rest, 1e-300)
        inverse = 1.0 / rest
        spread, bend = 0.0, 0.0
        for j in range(count):
            if j != i:
                weight = shares[j] * inverse
                spread += weight * weight * variances[j]
                bend += weight * (1.0 - weight) * variances[j]
        sign, shift = -1.0, -spread
        if i == clicked:
            sign, shift = 1.0, 0.0
        elif clicked >= 0:
            shift += shares[clicked] / rest * variances[clicked]
        middle = sign * (means[i] - top - math.log(rest) - 0.5 * bend - shift)
        reach = math.sqrt(variances[i] + spread)
        total, slope, curve = 0.0, 0.0, 0.0
        central = math.exp(-middle)
        # Nodes lie symmetrically: e^{-x} of both of a pair is one exponential and its inverse.
        for q in range(len(nodes) // 2):
            apart = math.exp(reach * nodes[q])  # of the negative node
            for lower in (min(central * apart, 1e300), min(central / apart, 1e300)):
                share = 1.0 / (1.0 + lower)  # σ(x); lower is e^{-x}
                change = weights[q] * share * (lower * share)  # σ (1 − σ)
                total += weights[q] * share
                slope += change
                curve += change * (1.0 - 2.0 * share)
        first[i] = sign * slope / total
        second[i] = min(curve / total - (slope / total) ** 2, 0.0)
