"""What is not a matrix product in the sum over the catalogue: one pass over states and candidates.

The products of states and candidates come from BLAS, a block of states at a time, and so do the
gradients of both. The pass turns products into relevances and their sums, and leaves the slopes
that the gradients need where the products stood. Nothing here depends on the dimensions.
"""

import functools
import math
from typing import Any

import numpy as np

from slatewise.compiled.compilation import Kernel, part, reordered
from slatewise.compiled.functions import bits, exponential, float_of_bits
from slatewise.model.kernels.backend import FusedRelevance

_ZERO, _TWO, _THREE, _INFINITY = (np.float32(number) for number in (0, 2, 3, np.inf))
_CLOSE = np.float32(1e-3)
"""Share of ‖z‖² + ‖v‖² below which ‖z − v‖² is worked out again: taking 2 z · v off that sum has
cost it three digits there."""


@part
def _squared_distance(state: Any, vector: Any) -> Any:
    """Return ‖z − v‖² by differences; rows of items may go on after the vector."""
    total = _ZERO
    for d in range(len(state)):
        gap = state[d] - vector[d]
        total += gap * gap
    return total


@part
def _product(state: Any, vector: Any) -> Any:
    """Return z · v."""
    total = _ZERO
    for d in range(len(state)):
        total += state[d] * vector[d]
    return total


@part
def _fill_distances(state: Any, candidates: Any, norms: Any, products: Any, distances: Any) -> Any:
    """Fill in the distances [K] of a state from its products with candidates; return the least."""
    own = _product(state, state)
    # Floats that are not negative are in the order of their bits, and unlike the least float, of
    # which NaN makes a special case, the least integer is found in vectors: 0.1 for 0.7 ms.
    least = bits(_INFINITY)
    for k in range(len(distances)):
        square = own + norms[k] - _TWO * products[k]
        square = square if square > _ZERO else _ZERO
        least = min(least, bits(square))
        distances[k] = square
    # A vector as close as that is about as long as the state, so most states need not look.
    if float_of_bits(least) < _THREE * _CLOSE * own:
        least = bits(_INFINITY)
        for k in range(len(distances)):
            if distances[k] < _CLOSE * (own + norms[k]):
                distances[k] = _squared_distance(state, candidates[k])
            least = min(least, bits(distances[k]))
    for k in range(len(distances)):
        distances[k] = math.sqrt(distances[k])
    return math.sqrt(float_of_bits(least))


@part
def _in_order(number_bits: Any) -> Any:
    """Turn bits of floats into integers in the same order, and back: negatives run downwards."""
    return number_bits ^ ((number_bits >> np.int32(31)) & np.int32(0x7FFFFFFF))


@part
def _negate(products: Any, negated: Any) -> Any:
    """Fill in products [K] with their sign turned; return the least."""
    least = _in_order(bits(_INFINITY))
    for k in range(len(products)):
        negated[k] = -products[k]
        least = min(least, _in_order(bits(negated[k])))
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
def _sum_without(relevances: Any, columns: Any, kept: Any) -> Any:
    """Sum up again without some columns, -1 for none; `kept` is room for as many numbers.

    Taking them off the sum would cost digits where they are most of it.
    """
    for j in range(len(columns)):
        if columns[j] >= 0:
            kept[j] = relevances[columns[j]]
            relevances[columns[j]] = _ZERO
    total = _ZERO
    for k in range(len(relevances)):
        total += relevances[k]
    for j in range(len(columns) - 1, -1, -1):  # backwards: a column may come twice
        if columns[j] >= 0:
            relevances[columns[j]] = kept[j]
    return total


@part
def _add_without(slope: Any, columns: Any, kept: Any, apart: Any) -> None:
    """Add a slope to all candidates [K] but some columns."""
    for j in range(len(columns)):
        if columns[j] >= 0:
            kept[j] = apart[columns[j]]
    for k in range(len(apart)):
        apart[k] += slope
    for j in range(len(columns)):
        if columns[j] >= 0:
            apart[columns[j]] = kept[j]


@part
def _sum_left(relevances: Any, gone: Any, number: Any) -> Any:
    """Sum the relevances of the items left in an interaction, by its number."""
    total = _ZERO
    for k in range(len(relevances)):
        total += relevances[k] if gone[k] != number else _ZERO
    return total


@part
def _add_left(slope: Any, gone: Any, number: Any, apart: Any) -> None:
    """Add a slope to all candidates [K] left in an interaction."""
    for k in range(len(apart)):
        apart[k] += slope if gone[k] != number else _ZERO


@part
def _put_down(slopes: Any, row: Any, column_mass: Any) -> Any:
    """Write slopes [K] to their row, add them to the sums of columns, and return their sum."""
    # Apart from what computes them: with more arrays in one loop, LLVM makes no vectors of it.
    total = _ZERO
    for k in range(len(slopes)):
        row[k] = slopes[k]
        column_mass[k] += slopes[k]
        total += slopes[k]
    return total


@reordered
def chain_by_state(
    state_of: Any,
    own_starts: Any,
    own_rows: Any,
    weights: Any,
    first: Any,
    following: Any,
    rows: Any,
) -> Any:
    """Chain the interactions that count to their states; return the first out of range, or -1.

    `first` [M] is all -1 and gets one interaction of each state, `following` [N] the next of each.
    """
    for n in range(len(state_of)):
        at, start, end = state_of[n], own_starts[n], own_starts[n + 1]
        if at < 0 or at >= len(first) or start < 0 or end < start or end > len(own_rows):
            return np.int64(n)
        for g in range(start, end):
            if own_rows[g] < -1 or own_rows[g] >= rows:
                return np.int64(n)
        if weights[n] != 0:
            following[n] = first[at]
            first[at] = n
    return np.int64(-1)


@functools.cache
def catalogue_kernel(  # noqa: PLR0915 - one loop is the point
    has_bias: bool, relevance: FusedRelevance
) -> Kernel:
    """Return the pass over a block of states; see `catalogue.catalogue_terms`.

    `products` [B, K] are those of states [B, D] with candidates [K, D]; where gradients are wanted,
    it ends up with the slopes of the total in the relevance of each candidate, over the distance if
    it is one. `mass` [B] and `column_mass` [K] get their sums. `norms` [K] are ‖v‖², or empty for
    products; `biases` [K] count with `has_bias`. `column_of` [R] is the candidate that each item
    is, -1 for none, and empty where the candidates are the catalogue. Items `own_rows`, from
    `own_starts[n]` on in interaction n, -1 for none, count by themselves; their gradients are added
    to those of states and items. `taken` [G] are the candidates that are no choice, in the same way
    by `taken_starts`; both are empty where all are. `room` [3, J] is for the longest list of own
    items.
    """
    is_dot = {"distance": False, "dot": True}[relevance]

    @reordered
    def kernel(  # noqa: PLR0912, PLR0915 - one loop is the point
        products: Any,
        states: Any,
        candidates: Any,
        norms: Any,
        biases: Any,
        items: Any,
        no_click: Any,
        column_of: Any,
        first: Any,
        following: Any,
        own_starts: Any,
        own_rows: Any,
        weights: Any,
        taken_starts: Any,
        taken: Any,
        log_weight: Any,
        sharpness: Any,
        want_gradients: Any,
        room: Any,
        mass: Any,
        column_mass: Any,
        bias_gradient: Any,
        states_gradient: Any,
        items_gradient: Any,
        no_click_gradient: Any,
    ) -> Any:
        total, count, dims = 0.0, products.shape[1], states.shape[1]
        distances, relevances = np.empty(count, np.float32), np.empty(count, np.float32)
        apart = np.zeros(count, np.float32)
        remoteness = np.empty(count, np.float32) if has_bias else distances
        own_distances, own_parts, kept = room[0], room[1], room[2]
        own_columns = np.empty(room.shape[1], np.int64)
        # The interaction in which a candidate was last found to be gone.
        gone = np.full(count if len(taken_starts) > 0 else 0, np.int64(-1))
        for m in range(len(states)):
            if is_dot:  # a product is a utility: negated, it does for a distance from here on
                nearest = _negate(products[m], distances)
            else:
                nearest = _fill_distances(states[m], candidates, norms, products[m], distances)
            if has_bias:
                nearest = _subtract_biases(distances, biases, remoteness)
            everything = _fill_relevances(remoteness, nearest, sharpness, relevances)
            top = log_weight - sharpness * nearest
            common, n = _ZERO, first[m]
            while n >= 0:
                start = own_starts[n]
                length = own_starts[n + 1] - start if len(column_of) > 0 else np.int64(0)
                any_twice: Any = False
                nothing = sharpness * no_click[n] if len(no_click) > 0 else -_INFINITY
                highest = max(top, nothing)
                for j in range(length):
                    row, at, own = np.int64(own_rows[start + j]), np.int64(-1), -_INFINITY
                    if row >= 0:
                        if is_dot:
                            own_distances[j] = -_product(states[m], items[row])
                        else:
                            square = _squared_distance(states[m], items[row])
                            own_distances[j] = math.sqrt(square)
                        own, at = -sharpness * own_distances[j], np.int64(column_of[row])
                        if has_bias:
                            own += sharpness * items[row, dims]
                    any_twice = any_twice or at >= 0
                    own_columns[j], own_parts[j] = at, own
                    highest = max(highest, own)
                # Relative to the greatest of all, so that no exponential overflows.
                unit, nothing_part = exponential(top - highest), exponential(nothing - highest)
                own_sum = _ZERO
                for j in range(length):
                    own_parts[j] = exponential(own_parts[j] - highest)
                    own_sum += own_parts[j]
                columns = own_columns[:length]
                some_gone = len(gone) > 0 and taken_starts[n] < taken_starts[n + 1]
                if some_gone:
                    for g in range(taken_starts[n], taken_starts[n + 1]):
                        if taken[g] >= 0:
                            gone[taken[g]] = n
                    for j in range(length):
                        if columns[j] >= 0:
                            gone[columns[j]] = n
                    others = _sum_left(relevances, gone, n)
                elif any_twice:
                    others = _sum_without(relevances, columns, kept)
                else:
                    others = everything
                whole = unit * others + own_sum + nothing_part
                total += np.float64(weights[n]) * (np.float64(highest) + math.log(whole))
                if want_gradients:
                    share = weights[n] * sharpness / whole
                    # Slopes of the candidates wait until the state is done, so that they are
                    # written once a state. Own candidates are left out of the sum.
                    if some_gone:
                        _add_left(share * unit, gone, n, apart)
                    elif any_twice:
                        _add_without(share * unit, columns, kept, apart)
                    else:
                        common += share * unit
                    if len(no_click) > 0:
                        no_click_gradient[n] = share * nothing_part
                    for j in range(length):
                        row = np.int64(own_rows[start + j])
                        if row < 0:
                            continue
                        slope = share * own_parts[j]
                        if has_bias:
                            items_gradient[row, dims] += slope
                        if not is_dot:
                            slope /= own_distances[j] if own_distances[j] > 0 else _INFINITY
                        for d in range(dims):
                            if is_dot:
                                items_gradient[row, d] += slope * states[m, d]
                                states_gradient[m, d] += slope * items[row, d]
                            else:
                                step = slope * (states[m, d] - items[row, d])
                                items_gradient[row, d] += step
                                states_gradient[m, d] -= step
                n = following[n]
            if want_gradients:
                for k in range(count):
                    slope = relevances[k] * (common + apart[k])
                    if has_bias:
                        bias_gradient[k] += slope
                    if not is_dot:
                        slope /= distances[k] if distances[k] > 0 else _INFINITY
                    relevances[k] = slope
                    apart[k] = _ZERO
                mass[m] = _put_down(relevances, products[m], column_mass)
        return total

    return kernel
