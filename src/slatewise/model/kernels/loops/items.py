"""The draw of items, and its gradient.

Shapes as in `kernels.items`: R items, G groups, D dimensions.
"""

import functools
import math
from typing import Any

import numpy as np

from slatewise.compiled.compilation import Kernel, reordered
from slatewise.compiled.functions import exponential
from slatewise.compiled.vectors import add, load, multiply, store, subtract, times, zeros

_ZERO, _ONE = np.float32(0), np.float32(1)
BLOCK = 64
"""Item rows whose scales are worked out in one loop: enough to fill vectors, few enough to stay in
the first cache until they are used."""


@reordered
def _shares_and_logs(raw: Any, shares: Any, logs: Any) -> None:
    """Fill in p = sigmoid(raw) and log p, entry by entry."""
    for k in range(len(raw)):
        x = raw[k]
        small = exponential(-abs(x))
        total = _ONE + small
        shares[k] = (_ONE if x >= 0 else small) / total
        # log(1 + e) = 2 artanh(e / (2 + e)), of which eight terms of the series are exact enough.
        y = small / (_ONE + total)
        z = y * y
        series = _ZERO
        for divisor in (15, 13, 11, 9, 7, 5, 3, 1):
            series = series * z + np.float32(1 / divisor)
        logs[k] = (_ZERO if x >= 0 else x) - (y + y) * series


@functools.cache
def draw_kernel(dims: int, has_offsets: bool) -> Kernel:
    """Return the draw of items of D dimensions; see `items.draw_items`.

    Without `has_offsets` there need not be any. It returns the sum of weighted log scales and -1,
    or the first row with a group out of range. `squares` and `mass` are added to.
    """

    @reordered
    def kernel(
        mean: Any,
        raw: Any,
        noise: Any,
        groups: Any,
        weights: Any,
        centres: Any,
        offsets: Any,
        sigma_max: Any,
        vectors: Any,
        shares: Any,
        squares: Any,
        mass: Any,
    ) -> Any:
        total, log_max = 0.0, dims * math.log(sigma_max)
        logs, lane_sums = np.empty((BLOCK, dims), np.float32), np.empty((1, dims), np.float32)
        flat_raw, flat_shares, flat_logs = raw.ravel(), shares.ravel(), logs.ravel()
        for first in range(0, len(mean), BLOCK):
            last = min(first + BLOCK, len(mean))
            entries = slice(first * dims, last * dims)
            _shares_and_logs(flat_raw[entries], flat_shares[entries], flat_logs)
            # In float32 over a block, then in float64: a million logarithms in one float32 would
            # lose digits.
            sums = zeros(dims)
            for r in range(first, last):
                group = groups[r]
                if group < 0 or group >= len(centres):
                    return total, np.int64(r)
                weight = weights[r]
                middle = load(mean, r, dims)
                scale = times(load(shares, r, dims), sigma_max)
                store(vectors, r, add(middle, multiply(scale, load(noise, r, dims))))
                offset = subtract(middle, load(centres, group, dims))
                if has_offsets:
                    offset = subtract(offset, load(offsets, r, dims))
                square = add(multiply(scale, scale), multiply(offset, offset))
                store(squares, group, add(load(squares, group, dims), times(square, weight)))
                mass[group] += weight
                sums = add(sums, times(load(logs, r - first, dims), weight))
                total += np.float64(weight) * log_max
            store(lane_sums, np.int64(0), sums)
            for d in range(dims):
                total += np.float64(lane_sums[0, d])
        return total, np.int64(-1)

    return kernel


@functools.cache
def draw_gradient_kernel(dims: int, has_offsets: bool) -> Kernel:
    """Return the gradient of `draw_kernel`; fills in the gradients that come last.

    With s = sigma_max * p, p = sigmoid(raw): ds/draw = s (1 - p), and d log s / draw = 1 - p. The
    gradient of raw begins as p, the `shares` of `draw_kernel`, and is written over it.
    """

    @reordered
    def kernel(
        mean: Any,
        noise: Any,
        groups: Any,
        weights: Any,
        centres: Any,
        offsets: Any,
        sigma_max: Any,
        vectors_slope: Any,
        squares_slope: Any,
        log_slope: Any,
        mean_gradient: Any,
        raw_gradient: Any,
        centres_gradient: Any,
        offsets_gradient: Any,
    ) -> None:
        ones = load(np.ones((1, dims), np.float32), np.int64(0), dims)
        for r in range(len(mean)):
            group, weight = groups[r], weights[r]
            twice = times(load(squares_slope, group, dims), weight + weight)
            slope = load(vectors_slope, r, dims)
            offset = subtract(load(mean, r, dims), load(centres, group, dims))
            if has_offsets:
                offset = subtract(offset, load(offsets, r, dims))
            pull = multiply(offset, twice)
            if has_offsets:
                store(offsets_gradient, r, subtract(zeros(dims), pull))
            store(mean_gradient, r, add(slope, pull))
            left = subtract(load(centres_gradient, group, dims), pull)
            store(centres_gradient, group, left)
            share = load(raw_gradient, r, dims)  # read before it is written over below
            scale = times(share, sigma_max)
            steep = add(multiply(slope, load(noise, r, dims)), multiply(scale, twice))
            steep = add(multiply(steep, scale), times(ones, weight * log_slope))
            store(raw_gradient, r, multiply(steep, subtract(ones, share)))

    return kernel
