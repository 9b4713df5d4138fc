"""The fused pass over slates: log-likelihood, exposure term and gradients.

Shapes as in `kernels.slate`: M states, N interactions, F cells, R item rows, D dimensions, P
features of a cell, S slate positions.
"""

import functools
import math
from typing import Any

import numpy as np

from slatewise.compiled.compilation import Kernel, exact, reordered
from slatewise.compiled.functions import exponential
from slatewise.compiled.vectors import (
    AHEAD,
    add,
    dot,
    load,
    prefetch,
    squared_norm,
    store,
    subtract,
    times,
    zeros,
)
from slatewise.model.kernels.backend import FusedRelevance

_ZERO, _ONE = np.float32(0), np.float32(1)
_APART = 128
"""Floats between two rows of scratch memory."""
_BLOCK = 16
"""Cells whose slopes are added up in float32."""
_NEVER = np.float32(-1e30)
"""Utility of what was clicked before: its exponential is 0, and sums with it stay finite."""


@exact
def _longest_slate(offsets: Any, num_cells: Any) -> Any:
    """Return the greatest slate length, -1 where the offsets do not partition the cells."""
    longest = np.int64(0)
    if offsets[0] < 0 or offsets[-1] > num_cells:
        return np.int64(-1)
    for n in range(len(offsets) - 1):
        length = offsets[n + 1] - offsets[n]
        if length < 0:
            return np.int64(-1)
        longest = max(longest, length)
    return longest


@functools.cache
def slate_kernel(  # noqa: PLR0915 - one loop is the point
    dims: int, terms: bool, has_features: bool, several: bool, relevance: FusedRelevance
) -> Kernel:
    """Return the fused pass for vectors of D dimensions; see `slate.slate_terms`.

    With `terms`, a row of D + 1 numbers ends with the item's bias, and positions count; without,
    the loop is compiled as if they did not exist. The same holds for `has_features`, where `added`
    [F] is what they add to the utility of a cell, and for `several`, where slates may have several
    clicks. It returns the total and -1, or the first interaction with an index out of range.
    Gradients are added to the arrays given; those of inputs that need none are empty.
    """
    # Constants to the compiler: what a model does not have leaves no trace in its loop.
    is_dot = {"distance": False, "dot": True}[relevance]

    @reordered
    def kernel(  # noqa: PLR0912, PLR0915 - one loop is the point
        states: Any,
        items: Any,
        no_click: Any,
        added: Any,
        positions: Any,
        factors: Any,
        enough: Any,
        state_of: Any,
        cells: Any,
        offsets: Any,
        clicks: Any,
        taken: Any,
        stops: Any,
        weights: Any,
        exposure_weights: Any,
        sharpness: Any,
        include_no_click: Any,
        include_bias: Any,
        log_likelihood: Any,
        exposed: Any,
        want_gradients: Any,
        states_gradient: Any,
        items_gradient: Any,
        no_click_gradient: Any,
        added_gradient: Any,
        positions_gradient: Any,
        factors_gradient: Any,
        enough_gradient: Any,
    ) -> Any:
        total = 0.0
        has_bias, has_exposure = terms and items.shape[1] > dims, len(exposure_weights) > 0
        last_position = len(positions) - 1 if terms else -1
        to_states, to_items = len(states_gradient) > 0, len(items_gradient) > 0
        to_no_click = len(no_click_gradient) > 0
        to_added = has_features and len(added_gradient) > 0
        to_positions = terms and len(positions_gradient) > 0
        has_factors = terms and len(factors) > 0
        to_factors = has_factors and len(factors_gradient) > 0
        has_enough = several and len(enough) > 0
        to_enough = has_enough and len(enough_gradient) > 0
        longest = _longest_slate(offsets, len(cells))
        if longest < 0:
            return total, np.int64(0)
        # One block with room between the rows: LLVM adds in vectors only where two arrays are some
        # hundred bytes apart, which of short ones the heap would decide, and with it the last bit.
        scratch = np.empty((5, longest + _APART), np.float32)
        distances, utilities, parts = scratch[0], scratch[1], scratch[2]
        exposing = scratch[3] if terms else utilities
        parts_after = scratch[4] if several else parts
        # All cells add to these few numbers: too many for float32.
        positions_slope = np.zeros(last_position + 1, np.float64)
        for n in range(len(offsets) - 1):
            start, length = offsets[n], offsets[n + 1] - offsets[n]
            click = clicks[n]
            at = state_of[n]
            if click < -1 or click >= length or at < 0 or at >= len(states):
                return total, np.int64(n)
            state = load(states, at, dims)
            factor = factors[n] if has_factors else _ONE

            best_item: Any = np.float32(-np.inf)
            best_exposing: Any = np.float32(-np.inf)
            for j in range(length):
                if start + j + AHEAD < len(cells):
                    soon = np.int64(cells[start + j + AHEAD])
                    prefetch(items, soon, dims)
                    if to_items:
                        prefetch(items_gradient, soon, dims)
                row = np.int64(cells[start + j])
                if row < 0 or row >= len(items):
                    return total, np.int64(n)
                if is_dot:
                    relevant = dot(state, load(items, row, dims))
                else:
                    difference = subtract(state, load(items, row, dims))
                    distances[j] = math.sqrt(squared_norm(difference))
                    relevant = -distances[j]
                utility = relevant
                if has_bias:
                    utility += items[row, dims]
                in_exposure = utility if include_bias else relevant
                if several and taken[start + j]:
                    in_exposure = _NEVER
                exposing[j] = in_exposure
                best_exposing = in_exposure if in_exposure > best_exposing else best_exposing
                if has_features:
                    utility += added[start + j]
                if last_position >= 0:
                    utility += factor * positions[min(j, last_position)]
                if several and taken[start + j]:
                    utility = _NEVER
                utilities[j] = utility
                best_item = utility if utility > best_item else best_item

            # Softmax relative to the best utility, so that no exponential overflows.
            nothing = no_click[n]
            best = nothing if nothing > best_item else best_item
            part_of_nothing = exponential(nothing - best)
            parts_sum = part_of_nothing
            for j in range(length):
                part = exponential(utilities[j] - best)
                parts[j] = part
                parts_sum += part
            chosen = utilities[click] if click >= 0 else nothing
            value = (chosen - best) - math.log(parts_sum)

            # Then whether the click was the last: "enough" against what is left behind it.
            after_sum, part_of_enough = _ONE, _ZERO
            stopped = has_enough and stops[n]
            if stopped:
                best = enough[n]
                for j in range(length):
                    if j != click and utilities[j] > best:
                        best = utilities[j]
                part_of_enough = exponential(enough[n] - best)
                after_sum = part_of_enough
                for j in range(length):
                    part = _ZERO if j == click else exponential(utilities[j] - best)
                    parts_after[j] = part
                    after_sum += part
                value += (enough[n] - best) - math.log(after_sum)
            log_likelihood[n] = value

            exposed_nothing, exposed_sum, exposure = _ZERO, _ZERO, _ZERO
            if has_exposure:
                exposure = exposure_weights[n]
                # The same of the relevances alone; an empty slate keeps -inf.
                best = best_exposing
                if include_no_click and nothing > best:
                    best = nothing
                exposed[n] = best
                if best > -np.inf:
                    if include_no_click:
                        exposed_nothing = exponential(sharpness * (nothing - best))
                    exposed_sum = exposed_nothing
                    for j in range(length):
                        part = exponential(sharpness * (exposing[j] - best))
                        exposing[j] = part
                        exposed_sum += part
                    exposed[n] = sharpness * best + math.log(exposed_sum)
                if exposure != 0:
                    value += exposure * exposed[n]
            weight = weights[n]
            if weight != 0:
                total += np.float64(weight) * np.float64(value)
            if not want_gradients:
                continue

            # The slope of the choice made is weight * (1 - its part): take 1 off the part here.
            if click >= 0:
                parts[click] -= parts_sum
            else:
                part_of_nothing -= parts_sum
            scale = -weight / parts_sum
            exposed_scale = _ZERO
            if exposure != 0 and exposed_sum > 0:
                exposed_scale = weight * exposure * sharpness / exposed_sum
            if to_no_click:
                no_click_gradient[n] = scale * part_of_nothing + exposed_scale * exposed_nothing
            after_scale = -weight / after_sum if stopped else _ZERO
            if to_enough and stopped:
                enough_gradient[n] = weight + after_scale * part_of_enough
            state_slope, factor_slope = zeros(dims), _ZERO
            for j in range(length):
                slope = scale * parts[j]
                if stopped:
                    slope += after_scale * parts_after[j]
                if to_added:
                    added_gradient[start + j] = slope
                if to_positions:
                    positions_slope[min(j, last_position)] += factor * slope
                if to_factors:
                    factor_slope += slope * positions[min(j, last_position)]
                bias_slope = slope
                if exposed_scale != 0:
                    slope += exposed_scale * exposing[j]
                # Rows and gradients are still in the first cache from the pass above.
                row = np.int64(cells[start + j])
                if has_bias and to_items:
                    items_gradient[row, dims] += slope if include_bias else bias_slope
                if is_dot:
                    step = times(state, slope)
                    state_slope = add(state_slope, times(load(items, row, dims), slope))
                else:
                    # A distance has no slope at 0; any value between -1 and 1 will do, so take 0.
                    slope /= np.float32(np.inf) if distances[j] == 0 else distances[j]
                    step = times(subtract(state, load(items, row, dims)), slope)
                    state_slope = subtract(state_slope, step)
                if to_items:
                    store(items_gradient, row, add(load(items_gradient, row, dims), step))
            if to_factors:
                factors_gradient[n] = factor_slope
            if to_states:
                store(states_gradient, at, add(load(states_gradient, at, dims), state_slope))
        if to_positions:
            positions_gradient[:] = positions_slope
        return total, np.int64(-1)

    return kernel


@functools.cache
def feature_kernel(num_features: int) -> Kernel:
    """Return the loop that sets [F] to features [F, P] times weights [1, P].

    A loop of its own, as is that of the gradient: it is compiled for each P in a fifth of the time
    that the pass over slates takes.
    """

    @reordered
    def kernel(features: Any, weights: Any, added: Any) -> None:
        factors = load(weights, np.int64(0), num_features)
        for cell in range(len(added)):
            added[cell] = dot(load(features, np.int64(cell), num_features), factors)

    return kernel


@functools.cache
def feature_gradient_kernel(num_features: int) -> Kernel:
    """Return the loop that sets the gradient [P] to slopes [F] times features [F, P]."""

    @reordered
    def kernel(features: Any, slopes: Any, gradient: Any) -> None:
        # Too many cells add to these few numbers for float32: only so many at a time.
        total, of_block = np.zeros(num_features), np.empty((1, num_features), np.float32)
        for start in range(0, len(slopes), _BLOCK):
            slope = zeros(num_features)
            for cell in range(start, min(start + _BLOCK, len(slopes))):
                described = load(features, np.int64(cell), num_features)
                slope = add(slope, times(described, slopes[cell]))
            store(of_block, np.int64(0), slope)
            for p in range(num_features):
                total[p] += np.float64(of_block[0, p])
        gradient[:] = total

    return kernel
