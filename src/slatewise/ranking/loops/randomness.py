"""Random numbers: xoshiro256++, whose state [4] is an argument."""

import math
from typing import Any

import numpy as np

from slatewise.compiled.compilation import uncounted


@uncounted
def _next(state: Any) -> Any:
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    total = s0 + s3
    result = ((total << np.uint64(23)) | (total >> np.uint64(41))) + s0
    s2 ^= s0
    s3 ^= s1
    state[1] = s1 ^ s2
    state[0] = s0 ^ s3
    state[2] = s2 ^ (s1 << np.uint64(17))
    state[3] = (s3 << np.uint64(45)) | (s3 >> np.uint64(19))
    return result


@uncounted
def uniform(state: Any) -> Any:
    """Return a number in [0, 1) with 53 bits: with 32 the tail would end at 2e-10."""
    return float(_next(state) >> np.uint64(11)) * 2.0**-53


def _ziggurat() -> tuple[Any, Any]:
    """Return the edges [257] of 256 layers of equal area under exp(-x²/2), and the heights."""
    edge, area = 3.6541528853610088, 0.00492867323399
    edges = np.empty(257)
    edges[0], edges[1], edges[256] = area / math.exp(-edge * edge / 2), edge, 0.0
    for layer in range(2, 256):
        before = edges[layer - 1]
        edges[layer] = math.sqrt(-2 * math.log(area / before + math.exp(-before * before / 2)))
    return edges, np.exp(-edges * edges / 2)


_EDGES, _HEIGHTS = _ziggurat()
_LAST = _EDGES[1]


@uncounted
def normal(state: Any) -> Any:
    """Return a standard normal number (Marsaglia and Tsang's ziggurat, no bit used twice)."""
    while True:
        bits = _next(state)
        layer = np.int64(bits & np.uint64(255))
        sign = 1.0 if bits & np.uint64(256) else -1.0
        x = float(bits >> np.uint64(11)) * 2.0**-53 * _EDGES[layer]
        if x < _EDGES[layer + 1]:
            return sign * x
        if layer == 0:
            while True:
                beyond = -math.log1p(-uniform(state)) / _LAST
                if -2 * math.log1p(-uniform(state)) >= beyond * beyond:
                    return sign * (_LAST + beyond)
        height = _HEIGHTS[layer] + uniform(state) * (_HEIGHTS[layer + 1] - _HEIGHTS[layer])
        if height < math.exp(-x * x / 2):
            return sign * x


@uncounted
def normal_above(least: Any, state: Any) -> Any:
    """Return a standard normal number, given that it exceeds `least` (Marsaglia 1964)."""
    if least < 0.5:
        while True:
            x = normal(state)
            if x > least:
                return x
    while True:
        x = math.sqrt(least * least - 2.0 * math.log1p(-uniform(state)))
        if uniform(state) * x <= least:
            return x
