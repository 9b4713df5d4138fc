"""The roll-out of a GRU, and its gradient; users and events as in `linear`.

Shapes: B users, K events of them all, M = B + K states, D dimensions of what moves them, h hidden
units, E sources whose slates count.
"""

import functools
from typing import Any

import numpy as np

from slatewise.compiled.compilation import Kernel, reordered
from slatewise.compiled.functions import sigmoid, tanh
from slatewise.compiled.vectors import (
    add,
    dot,
    load,
    load_like,
    squared_norm,
    store,
    subtract,
    times,
    zeros,
    zeros_like,
)
from slatewise.model.kernels.loops.linear import slate_pull, slate_relevance

_ONE = np.float32(1)
_RESET, _UPDATE, _NEW, _INNER = (np.int64(row) for row in range(4))
"""Rows of what is known of a GRU's step; the last is W_hn h."""
_FIRST = np.int64(0)
_TOGETHER = 16
"""Steps whose gradients of weights are added up before they are added to the whole."""


@reordered
def _add_product(total: Any, rows: Any, first: Any, factors: Any, at: Any, count: Any) -> Any:
    """Add Σ_d factors[at, d] · rows[first + d] to a vector: a product with a matrix.

    In two sums side by side: in one, every addition would wait for the last.
    """
    other = zeros_like(total)
    for d in range(0, count - 1, 2):
        total = add(total, times(load_like(rows, first + d, total), factors[at, d]))
        other = add(other, times(load_like(rows, first + d + 1, total), factors[at, d + 1]))
    if count % 2:
        last = first + count - 1
        total = add(total, times(load_like(rows, last, total), factors[at, count - 1]))
    return add(total, other)


@reordered
def _add_outer_products(
    gradient: Any,
    first: Any,
    factors: Any,
    at: Any,
    vectors: Any,
    count: Any,
    hidden: Any,
    like: Any,
) -> None:
    """Add Σ_b factors[4 b + at] ⊗ vectors[b] over b < count to rows of a gradient from first on.

    Several at once, because to read and write the gradient takes longer than to add.
    """
    for d in range(hidden):
        row = first + np.int64(d)
        total = load_like(gradient, row, like)
        for b in range(count):
            factor = factors[4 * b + at, d]
            total = add(total, times(load_like(vectors, np.int64(b), like), factor))
        store(gradient, row, total)


@reordered
def _add_click_gradients(
    of_item: Any,
    of_state: Any,
    found: Any,
    clicked: Any,
    met: Any,
    count: Any,
    hidden: Any,
    like_item: Any,
    like_state: Any,
) -> None:
    """Add the gradients of W_i and W_h by `count` clicks."""
    _add_outer_products(of_item, 0, found, _RESET, clicked, count, hidden, like_item)
    _add_outer_products(of_item, hidden, found, _UPDATE, clicked, count, hidden, like_item)
    _add_outer_products(of_item, 2 * hidden, found, _NEW, clicked, count, hidden, like_item)
    _add_outer_products(of_state, 0, found, _RESET, met, count, hidden, like_state)
    _add_outer_products(of_state, hidden, found, _UPDATE, met, count, hidden, like_state)
    _add_outer_products(of_state, 2 * hidden, found, _INNER, met, count, hidden, like_state)


@reordered
def _activate(gates: Any) -> None:
    """Turn the sums of a step into its gates [4, h], in place."""
    for h in range(gates.shape[1]):
        reset = sigmoid(gates[0, h])
        gates[0, h] = reset
        gates[1, h] = sigmoid(gates[1, h])
        gates[2, h] = tanh(gates[2, h] + reset * gates[3, h])


@reordered
def _activation_gradients(
    gates: Any, slopes: Any, after: Any, states: Any, before: Any, found: Any, hidden: Any
) -> None:
    """Go back from the slope of a state to those of its step's sums, and of the state before."""
    for h in range(hidden):
        reset, update, new = gates[0, h], gates[1, h], gates[2, h]
        slope = slopes[after, h]
        stays = update * slope
        of_new = (slope - stays) * (_ONE - new * new)
        found[0, h] = of_new * gates[3, h] * reset * (_ONE - reset)
        found[1, h] = stays * (_ONE - update) * (states[before, h] - new)
        found[2, h] = of_new
        found[3, h] = of_new * reset
        slopes[before, h] += stays


def wide(lanes: int) -> int:
    """Return how long rows of weights are made, with zeros: 25 lanes are three vectors, 32 two."""
    return -(-lanes // 8) * 8


@functools.cache
def gru_kernel(hidden: int, dims: int) -> Kernel:
    """Return the roll-out of a GRU; see `rolling.roll_gru`.

    `item_across` [3 D, wide(h)] and `state_across` [3 h, wide(h)] are W_i and W_h, transposed gate
    by gate. The first B states are given, the others filled in.
    """
    lanes = wide(hidden)

    @reordered
    def kernel(
        states: Any,
        moving: Any,
        item_across: Any,
        state_across: Any,
        kinds: Any,
        fractions: Any,
        first: Any,
        active: Any,
    ) -> None:
        users = len(states) - len(kinds)
        gates, none = np.empty((4, lanes), np.float32), zeros(lanes)
        for u in range(users):
            before = np.int64(u)
            for e in range(len(active)):
                if u >= active[e]:
                    break
                k = first[e] + u
                after = users + k
                new = _add_product(none, item_across, 2 * dims, moving, k, dims)
                store(gates, _NEW, new)
                if kinds[k] >= 0:
                    # A slate without a click: towards, or away from, what the GRU would make of
                    # it with closed gates, which costs one product instead of six.
                    for h in range(lanes):
                        gates[2, h] = tanh(gates[2, h])
                    state = load(states, before, hidden)
                    gap = subtract(load(gates, _NEW, hidden), state)
                    fraction = fractions[kinds[k]]
                    share = fraction * slate_relevance(fraction, squared_norm(gap))
                    store(states, after, add(state, times(gap, share)))
                else:
                    reset = _add_product(none, item_across, 0, moving, k, dims)
                    update = _add_product(none, item_across, dims, moving, k, dims)
                    reset = _add_product(reset, state_across, 0, states, before, hidden)
                    update = _add_product(update, state_across, hidden, states, before, hidden)
                    inner = _add_product(none, state_across, 2 * hidden, states, before, hidden)
                    store(gates, _RESET, reset)
                    store(gates, _UPDATE, update)
                    store(gates, _INNER, inner)
                    _activate(gates)
                    for h in range(hidden):
                        gap_h = states[before, h] - gates[2, h]
                        states[after, h] = gates[2, h] + gates[1, h] * gap_h
                before = after

    return kernel


@functools.cache
def gru_gradient_kernel(hidden: int, dims: int) -> Kernel:  # noqa: PLR0915 - one loop is the point
    """Return the gradient of `gru_kernel`.

    `slopes` [M, h] are those of all states, and end as those that reach each through later ones
    too; slopes of moving [K, D] are filled in, where they may lie as in `linear_gradient_kernel`,
    and those of weights and fractions [E] (float64) added up. Rows of matrices and of gradients,
    [3 h, wide(D)] and [3 h, wide(h)], end with zeros. Gates are worked out again: to read them from
    fresh memory takes longer.
    """
    lanes, item_lanes = wide(hidden), wide(dims)

    @reordered
    def kernel(  # noqa: PLR0915 - one loop is the point
        slopes: Any,
        states: Any,
        moving: Any,
        item_across: Any,
        state_across: Any,
        from_item: Any,
        from_state: Any,
        kinds: Any,
        fractions: Any,
        first: Any,
        active: Any,
        moving_slope: Any,
        item_gradient: Any,
        state_gradient: Any,
        fraction_slope: Any,
    ) -> None:
        users = len(states) - len(kinds)
        gates, none = np.empty((4, lanes), np.float32), zeros(lanes)
        spare, nowhere = np.empty((1, item_lanes), np.float32), zeros(item_lanes)
        # Of clicks and of slates whose gradients of weights wait: vectors, states, slopes of sums.
        clicked = np.zeros((_TOGETHER, item_lanes), np.float32)
        met = np.zeros((_TOGETHER, lanes), np.float32)
        of_clicks = np.empty((4 * _TOGETHER, hidden), np.float32)
        seen = np.zeros((_TOGETHER, item_lanes), np.float32)
        of_slates = np.empty((4 * _TOGETHER, hidden), np.float32)
        clicks, slates = np.int64(0), np.int64(0)
        for u in range(users):
            events = np.int64(0)
            while events < len(active) and u < active[events]:
                events += 1
            for e in range(events - 1, -1, -1):
                k = first[e] + u
                after = users + k
                before = users + first[e - 1] + u if e > 0 else np.int64(u)
                state = load(states, before, hidden)
                new = _add_product(none, item_across, 2 * dims, moving, k, dims)
                store(gates, _NEW, new)
                if kinds[k] >= 0:
                    for h in range(lanes):
                        gates[2, h] = tanh(gates[2, h])
                    slope = load(slopes, after, hidden)
                    gap = subtract(load(gates, _NEW, hidden), state)
                    along, square = dot(slope, gap), squared_norm(gap)
                    fraction = fractions[kinds[k]]
                    relevance = slate_relevance(fraction, square)
                    fraction_slope[kinds[k]] += np.float64(relevance * along)
                    pull = slate_pull(fraction, square, along)
                    moved = add(times(slope, fraction * relevance), times(gap, pull))
                    left = add(load(slopes, before, hidden), subtract(slope, moved))
                    store(slopes, before, left)
                    at = 4 * slates + _NEW
                    store(of_slates, at, moved)
                    for h in range(hidden):
                        of_slates[at, h] *= _ONE - gates[2, h] * gates[2, h]
                    back = _add_product(nowhere, from_item, 2 * hidden, of_slates, at, hidden)
                    # `back` has item_lanes, a row of moving_slope only D: through a spare row.
                    store(spare, _FIRST, back)
                    store(moving_slope, k, load(spare, _FIRST, dims))
                    store(seen, slates, load(moving, k, dims))
                    slates += 1
                    if slates == _TOGETHER:
                        _add_outer_products(
                            item_gradient,
                            2 * hidden,
                            of_slates,
                            _NEW,
                            seen,
                            slates,
                            hidden,
                            nowhere,
                        )
                        slates = np.int64(0)
                    continue
                reset = _add_product(none, item_across, 0, moving, k, dims)
                update = _add_product(none, item_across, dims, moving, k, dims)
                reset = _add_product(reset, state_across, 0, states, before, hidden)
                update = _add_product(update, state_across, hidden, states, before, hidden)
                inner = _add_product(none, state_across, 2 * hidden, states, before, hidden)
                store(gates, _RESET, reset)
                store(gates, _UPDATE, update)
                store(gates, _INNER, inner)
                _activate(gates)
                found = of_clicks[4 * clicks : 4 * clicks + 4]
                _activation_gradients(gates, slopes, after, states, before, found, hidden)
                through = _add_product(none, from_state, 0, found, _RESET, hidden)
                through = _add_product(through, from_state, hidden, found, _UPDATE, hidden)
                through = _add_product(through, from_state, 2 * hidden, found, _INNER, hidden)
                store(gates, _FIRST, through)
                left = add(load(slopes, before, hidden), load(gates, _FIRST, hidden))
                store(slopes, before, left)
                back = _add_product(nowhere, from_item, 0, found, _RESET, hidden)
                back = _add_product(back, from_item, hidden, found, _UPDATE, hidden)
                back = _add_product(back, from_item, 2 * hidden, found, _NEW, hidden)
                store(spare, _FIRST, back)
                store(moving_slope, k, load(spare, _FIRST, dims))
                store(clicked, clicks, load(moving, k, dims))
                store(met, clicks, state)
                clicks += 1
                if clicks == _TOGETHER:
                    _add_click_gradients(
                        item_gradient,
                        state_gradient,
                        of_clicks,
                        clicked,
                        met,
                        clicks,
                        hidden,
                        nowhere,
                        none,
                    )
                    clicks = np.int64(0)
        _add_outer_products(
            item_gradient, 2 * hidden, of_slates, _NEW, seen, slates, hidden, nowhere
        )
        _add_click_gradients(
            item_gradient, state_gradient, of_clicks, clicked, met, clicks, hidden, nowhere, none
        )

    return kernel
