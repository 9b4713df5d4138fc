"""The fused pass over states and candidates.

Candidates lie in columns here, K of them side by side: unlike D, that is long enough for the
loops that LLVM makes of it.
"""

import functools
import math
from typing import Any

import numpy as np

from slatewise.compiled.compilation import Kernel, part, reordered
from slatewise.compiled.functions import bits, exponential, float_of_bits
from slatewise.compiled.vectors import add, dot, load, squared_norm, store, subtract, times, zeros
from slatewise.model.kernels.backend import FusedRelevance

_ZERO, _INFINITY = np.float32(0), np.float32(np.inf)


@part
def _fill_distances(state: Any, columns: Any, distances: Any) -> Any:
    """Fill in the distances [K] of a state [D] from columns [D, K]; return the least."""
    distances[:] = _ZERO
    for d in range(len(state)):
        z = state[d]
        for k in range(len(distances)):
            gap = z - columns[d, k]
            distances[k] += gap * gap
    # Floats that are not negative are in the order of their bits, and unlike the least float, of
    # which NaN makes a special case, the least integer is found in vectors: 0.1 for 0.7 ms.
    least = bits(_INFINITY)
    for k in range(len(distances)):
        least = min(least, bits(distances[k]))
        distances[k] = math.sqrt(distances[k])
    return math.sqrt(float_of_bits(least))


@part
def _in_order(number_bits: Any) -> Any:
    """Turn bits of floats into integers in the same order, and back: negatives run downwards."""
    return number_bits ^ ((number_bits >> np.int32(31)) & np.int32(0x7FFFFFFF))


@part
def _fill_negated_products(state: Any, columns: Any, products: Any) -> Any:
    """Fill in the products [K] of a state [D] with columns [D, K], negated; return the least."""
    products[:] = _ZERO
    for d in range(len(state)):
        z = state[d]
        for k in range(len(products)):
            products[k] -= z * columns[d, k]
    least = _in_order(bits(_INFINITY))
    for k in range(len(products)):
        least = min(least, _in_order(bits(products[k])))
    return float_of_bits(_in_order(least))


@part
def _subtract_biases(distances: Any, biases: Any, remoteness: Any) -> Any:
    """Fill in distances less biases [K], which are utilities negated; return the least."""
    least = _INFINITY
    for k in range(len(distances)):
        remoteness[k] = distances[k] - biases[k]
        least = min(least, remoteness[k])
    return least


@part
def _fill_relevances(remoteness: Any, nearest: Any, sharpness: Any, relevances: Any) -> Any:
    """Fill in the relevances [K], 1 for the nearest; return their sum."""
    total = _ZERO
    for k in range(len(remoteness)):
        relevance = exponential(sharpness * (nearest - remoteness[k]))
        relevances[k] = relevance
        total += relevance
    return total


@part
def _sum_without(relevances: Any, column: Any) -> Any:
    """Sum up again: taking the one off the sum would cost digits where it is most of it."""
    kept = relevances[column]
    relevances[column] = _ZERO
    total = _ZERO
    for k in range(len(relevances)):
        total += relevances[k]
    relevances[column] = kept
    return total


@part
def _add_distance_gradients(
    state: Any, columns: Any, slopes: Any, columns_gradient: Any, state_gradient: Any
) -> None:
    """Add the gradients of distances with these slopes [K] to those of columns and state."""
    for d in range(len(state)):
        z, along = state[d], _ZERO
        for k in range(len(slopes)):
            step = slopes[k] * (z - columns[d, k])
            columns_gradient[d, k] += step
            along += step
        state_gradient[d] -= along


@part
def _add_product_gradients(
    state: Any, columns: Any, slopes: Any, columns_gradient: Any, state_gradient: Any
) -> None:
    """Add the gradients of products with these slopes [K] to those of columns and state."""
    for d in range(len(state)):
        z, along = state[d], _ZERO
        for k in range(len(slopes)):
            columns_gradient[d, k] += slopes[k] * z
            along += slopes[k] * columns[d, k]
        state_gradient[d] += along


@part
def _chain_by_state(
    state_of: Any, clicked: Any, weights: Any, first: Any, following: Any, rows: Any
) -> Any:
    """Chain the interactions that count to their states; return the first out of range, or -1."""
    for n in range(len(state_of)):
        at = state_of[n]
        if at < 0 or at >= len(first) or clicked[n] < -1 or clicked[n] >= rows:
            return np.int64(n)
        if weights[n] != 0:
            following[n] = first[at]
            first[at] = n
    return np.int64(-1)


@functools.cache
def catalogue_kernel(  # noqa: PLR0915 - one loop is the point
    dims: int, has_bias: bool, relevance: FusedRelevance
) -> Kernel:
    """Return the fused pass for vectors of D dimensions; see `catalogue.catalogue_terms`.

    Rows of items and columns of candidates may have one number more, the bias; it counts with
    `has_bias`.

    It returns the total and -1, or the first interaction with an index out of range. `columns`
    [D, K] are the candidates; `column_of` [R] is the column of each item, -1 for none, and empty
    where the candidates are the catalogue. Gradients are added to the arrays given.
    """
    is_dot = {"distance": False, "dot": True}[relevance]

    @reordered
    def kernel(  # noqa: PLR0912, PLR0915 - one loop is the point
        states: Any,
        items: Any,
        no_click: Any,
        columns: Any,
        column_of: Any,
        state_of: Any,
        clicked: Any,
        weights: Any,
        log_weight: Any,
        sharpness: Any,
        want_gradients: Any,
        states_gradient: Any,
        items_gradient: Any,
        no_click_gradient: Any,
        columns_gradient: Any,
    ) -> Any:
        total, count = 0.0, columns.shape[1]
        # The interactions of a state share its distances to all candidates, which are most of the
        # work: go state by state, through a linked list of each one's interactions.
        first, following = np.full(len(states), -1), np.empty(len(state_of), np.int64)
        fault = _chain_by_state(state_of, clicked, weights, first, following, len(items))
        if fault >= 0:
            return total, fault
        distances, relevances = np.empty(count, np.float32), np.empty(count, np.float32)
        apart = np.zeros(count, np.float32)
        remoteness = np.empty(count, np.float32) if has_bias else distances
        for m in range(len(states)):
            n = first[m]
            if n < 0:
                continue
            state = load(states, m, dims)
            if is_dot:  # a product is a utility: negated, it does for a distance from here on
                nearest = _fill_negated_products(states[m], columns, distances)
            else:
                nearest = _fill_distances(states[m], columns, distances)
            if has_bias:
                nearest = _subtract_biases(distances, columns[dims], remoteness)
            everything = _fill_relevances(remoteness, nearest, sharpness, relevances)
            top = log_weight - sharpness * nearest
            common = _ZERO
            while n >= 0:
                known = len(column_of) > 0 and clicked[n] >= 0
                row = np.int64(clicked[n]) if known else np.int64(0)
                own_distance: Any = _ZERO
                own, at = -_INFINITY, np.int64(-1)
                if known:
                    if is_dot:
                        own_distance = -dot(state, load(items, row, dims))
                    else:
                        difference = subtract(state, load(items, row, dims))
                        own_distance = math.sqrt(squared_norm(difference))
                    own, at = -sharpness * own_distance, np.int64(column_of[row])
                    if has_bias:
                        own += sharpness * items[row, dims]
                nothing = sharpness * no_click[n] if len(no_click) > 0 else -_INFINITY
                # Relative to the greatest of the three, so that no exponential overflows.
                highest = max(top, own, nothing)
                unit = exponential(top - highest)
                own_part, nothing_part = exponential(own - highest), exponential(nothing - highest)
                others = everything if at < 0 else _sum_without(relevances, at)
                whole = unit * others + own_part + nothing_part
                total += np.float64(weights[n]) * (np.float64(highest) + math.log(whole))
                if want_gradients:
                    share = weights[n] * sharpness / whole
                    # Slopes of the candidates wait until the state is done, so that the gradients
                    # are written once a state. A clicked candidate is left out of its own sum.
                    if at < 0:
                        common += share * unit
                    else:
                        kept = apart[at]
                        apart += share * unit
                        apart[at] = kept
                    if len(no_click) > 0:
                        no_click_gradient[n] = share * nothing_part
                    if known:
                        if has_bias:
                            items_gradient[row, dims] += share * own_part
                        slope, vector = share * own_part, load(items, row, dims)
                        if is_dot:
                            step, towards = times(state, slope), times(vector, slope)
                        else:
                            slope /= own_distance if own_distance > 0 else _INFINITY
                            step = times(subtract(state, vector), slope)
                            towards = subtract(zeros(dims), step)
                        store(items_gradient, row, add(load(items_gradient, row, dims), step))
                        store(states_gradient, m, add(load(states_gradient, m, dims), towards))
                n = following[n]
            if want_gradients:
                for k in range(count):
                    slope = relevances[k] * (common + apart[k])
                    if has_bias:
                        columns_gradient[dims, k] += slope
                    if not is_dot:
                        slope /= distances[k] if distances[k] > 0 else _INFINITY
                    relevances[k] = slope
                    apart[k] = _ZERO
                if is_dot:
                    _add_product_gradients(
                        states[m], columns, relevances, columns_gradient, states_gradient[m]
                    )
                else:
                    _add_distance_gradients(
                        states[m], columns, relevances, columns_gradient, states_gradient[m]
                    )
        return total, np.int64(-1)

    return kernel
