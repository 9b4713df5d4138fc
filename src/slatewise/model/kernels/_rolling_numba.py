"""The passes over users' events that numba compiles; imported only with numba.

Users are rolled out one after the other: a state stays in the first cache from event to event.

Shapes: B users, K events of them all, M = B + K states, D dimensions of what moves them, h hidden
units, E sources whose slates count. Events are numbered by step: event e of user u
is `first[e] + u`, if u is below `active[e]`, and the state after it B more than that.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from slatewise.model.kernels import _numba as parts
from slatewise.model.kernels._numba import REORDER, SOURCE, Kernel, exponential

_load, _store, _times = parts._load, parts._store, parts._times
_add, _subtract, _squared_norm = parts._add, parts._subtract, parts._squared_norm
_dot, _load_like = parts._dot, parts._load_like
_zeros, _zeros_like = parts._zeros, parts._zeros_like
_ZERO, _ONE, _TWO = np.float32(0), np.float32(1), np.float32(2)
_RESET, _UPDATE, _NEW, _INNER = (np.int64(row) for row in range(4))
"""Rows of what is known of a GRU's step; the last is W_hn h."""
_FIRST = np.int64(0)
_TOGETHER = 16
"""Steps whose gradients of weights are added up before they are added to the whole."""

# Inlined into the kernels and kept with them, so never in a cache of their own.
_njit: Any = numba.njit
_part: Callable[[Kernel], Kernel] = _njit(fastmath=set(REORDER), error_model="numpy")


@_part
def _relevance(fraction: Any, square: Any) -> Any:
    """Return what weighs ρ: 1, or below 0 the relevance of a slate at that squared distance."""
    return _ONE if fraction > 0 else exponential(-math.sqrt(square))


@_part
def _pull(fraction: Any, square: Any, along: Any) -> Any:
    """Return the slope of the squared distance's root, over that root, of the share of a slate."""
    if fraction > 0 or square == 0:
        return _ZERO
    distance = math.sqrt(square)
    return -fraction * exponential(-distance) * along / distance


@_part
def _sigmoid(x: Any) -> Any:
    small = exponential(-abs(x))
    return (_ONE if x >= 0 else small) / (_ONE + small)


@_part
def _tanh(x: Any) -> Any:
    small = exponential(-_TWO * abs(x))
    size = (_ONE - small) / (_ONE + small)
    return size if x >= 0 else -size


@functools.cache
def linear_kernel(dims: int) -> Kernel:
    """Return the roll-out of linear dynamics; see `rolling.roll_linear`.

    The first B states are given, the others filled in.
    """
    source = SOURCE

    @parts._compile(*REORDER)
    def kernel(
        states: Any,
        moving: Any,
        drift: Any,
        kinds: Any,
        fractions: Any,
        first: Any,
        active: Any,
    ) -> None:
        _ = source
        users = len(states) - len(kinds)
        for u in range(users):
            before = np.int64(u)
            for e in range(len(active)):
                if u >= active[e]:
                    break
                k = first[e] + u
                state = _load(states, before, dims)
                gap = _subtract(_load(moving, k, dims), state)
                share = _ONE - drift
                if kinds[k] >= 0:
                    fraction = fractions[kinds[k]]
                    share = fraction * _relevance(fraction, _squared_norm(gap))
                before = users + k
                _store(states, before, _add(state, _times(gap, share)))

    return kernel


@functools.cache
def linear_gradient_kernel(dims: int) -> Kernel:
    """Return the way back through `linear_kernel`, and with it the slope of the drift.

    `slopes` [M, D] are those of all states, and end as those that reach each through later ones
    too; slopes of moving [K, D] are filled in, those of fractions [E] (float64) added up. The
    former may lie over those of the states after the events: these are no longer read by then.
    """
    source = SOURCE

    @parts._compile(*REORDER)
    def kernel(
        slopes: Any,
        states: Any,
        moving: Any,
        drift: Any,
        kinds: Any,
        fractions: Any,
        first: Any,
        active: Any,
        moving_slope: Any,
        fraction_slope: Any,
    ) -> Any:
        _ = source
        users, of_drift = len(states) - len(kinds), 0.0
        for u in range(users):
            events = np.int64(0)
            while events < len(active) and u < active[events]:
                events += 1
            for e in range(events - 1, -1, -1):
                k = first[e] + u
                before = users + first[e - 1] + u if e > 0 else np.int64(u)
                slope = _load(slopes, users + k, dims)
                gap = _subtract(_load(moving, k, dims), _load(states, before, dims))
                along = _dot(slope, gap)
                share, pull = _ONE - drift, _ZERO
                if kinds[k] >= 0:
                    fraction, square = fractions[kinds[k]], _squared_norm(gap)
                    relevance = _relevance(fraction, square)
                    share, pull = fraction * relevance, _pull(fraction, square, along)
                    fraction_slope[kinds[k]] += np.float64(relevance * along)
                else:
                    of_drift -= np.float64(along)
                moved = _add(_times(slope, share), _times(gap, pull))
                _store(moving_slope, k, moved)
                left = _add(_load(slopes, before, dims), _subtract(slope, moved))
                _store(slopes, before, left)
        return of_drift

    return kernel


@_part
def _product(total: Any, rows: Any, first: Any, factors: Any, at: Any, count: Any) -> Any:
    """Add Σ_d factors[at, d] · rows[first + d] to a vector: a product with a matrix.

    In two sums side by side: in one, every addition would wait for the last.
    """
    other = _zeros_like(total)
    for d in range(0, count - 1, 2):
        total = _add(total, _times(_load_like(rows, first + d, total), factors[at, d]))
        other = _add(other, _times(_load_like(rows, first + d + 1, total), factors[at, d + 1]))
    if count % 2:
        last = first + count - 1
        total = _add(total, _times(_load_like(rows, last, total), factors[at, count - 1]))
    return _add(total, other)


@_part
def _outer(
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
        total = _load_like(gradient, row, like)
        for b in range(count):
            factor = factors[4 * b + at, d]
            total = _add(total, _times(_load_like(vectors, np.int64(b), like), factor))
        _store(gradient, row, total)


@_part
def _outer_of_clicks(
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
    """Add the gradients of W_i and W_h of so many clicks."""
    _outer(of_item, 0, found, _RESET, clicked, count, hidden, like_item)
    _outer(of_item, hidden, found, _UPDATE, clicked, count, hidden, like_item)
    _outer(of_item, 2 * hidden, found, _NEW, clicked, count, hidden, like_item)
    _outer(of_state, 0, found, _RESET, met, count, hidden, like_state)
    _outer(of_state, hidden, found, _UPDATE, met, count, hidden, like_state)
    _outer(of_state, 2 * hidden, found, _INNER, met, count, hidden, like_state)


@_part
def _open(gates: Any) -> None:
    """Turn the sums of a step into its gates [4, h], in place."""
    for h in range(gates.shape[1]):
        reset = _sigmoid(gates[0, h])
        gates[0, h] = reset
        gates[1, h] = _sigmoid(gates[1, h])
        gates[2, h] = _tanh(gates[2, h] + reset * gates[3, h])


@_part
def _close(
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
    source, lanes = SOURCE, wide(hidden)

    @parts._compile(*REORDER)
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
        _ = source
        users = len(states) - len(kinds)
        gates, none = np.empty((4, lanes), np.float32), _zeros(lanes)
        for u in range(users):
            before = np.int64(u)
            for e in range(len(active)):
                if u >= active[e]:
                    break
                k = first[e] + u
                after = users + k
                new = _product(none, item_across, 2 * dims, moving, k, dims)
                _store(gates, _NEW, new)
                if kinds[k] >= 0:
                    for h in range(lanes):
                        gates[2, h] = _tanh(gates[2, h])
                    state = _load(states, before, hidden)
                    gap = _subtract(_load(gates, _NEW, hidden), state)
                    fraction = fractions[kinds[k]]
                    share = fraction * _relevance(fraction, _squared_norm(gap))
                    _store(states, after, _add(state, _times(gap, share)))
                else:
                    reset = _product(none, item_across, 0, moving, k, dims)
                    update = _product(none, item_across, dims, moving, k, dims)
                    reset = _product(reset, state_across, 0, states, before, hidden)
                    update = _product(update, state_across, hidden, states, before, hidden)
                    inner = _product(none, state_across, 2 * hidden, states, before, hidden)
                    _store(gates, _RESET, reset)
                    _store(gates, _UPDATE, update)
                    _store(gates, _INNER, inner)
                    _open(gates)
                    for h in range(hidden):
                        gap_h = states[before, h] - gates[2, h]
                        states[after, h] = gates[2, h] + gates[1, h] * gap_h
                before = after

    return kernel


@functools.cache
def gru_gradient_kernel(hidden: int, dims: int) -> Kernel:  # noqa: PLR0915 - one loop is the point
    """Return the way back through `gru_kernel`.

    `slopes` [M, h] are those of all states, and end as those that reach each through later ones
    too; slopes of moving [K, D] are filled in, where they may lie as in `linear_gradient_kernel`,
    and those of weights and fractions [E] (float64) added up. Rows of matrices and of gradients,
    [3 h, wide(D)] and [3 h, wide(h)], end with zeros. Gates are worked out again: to read them from
    fresh memory takes longer.
    """
    source, lanes, item_lanes = SOURCE, wide(hidden), wide(dims)

    @parts._compile(*REORDER)
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
        _ = source
        users = len(states) - len(kinds)
        gates, none = np.empty((4, lanes), np.float32), _zeros(lanes)
        spare, nowhere = np.empty((1, item_lanes), np.float32), _zeros(item_lanes)
        # Of clicks and of slates that wait for their turn: vectors, states, and slopes of sums.
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
                state = _load(states, before, hidden)
                new = _product(none, item_across, 2 * dims, moving, k, dims)
                _store(gates, _NEW, new)
                if kinds[k] >= 0:
                    for h in range(lanes):
                        gates[2, h] = _tanh(gates[2, h])
                    slope = _load(slopes, after, hidden)
                    gap = _subtract(_load(gates, _NEW, hidden), state)
                    along, square = _dot(slope, gap), _squared_norm(gap)
                    fraction = fractions[kinds[k]]
                    relevance = _relevance(fraction, square)
                    fraction_slope[kinds[k]] += np.float64(relevance * along)
                    pull = _pull(fraction, square, along)
                    moved = _add(_times(slope, fraction * relevance), _times(gap, pull))
                    left = _add(_load(slopes, before, hidden), _subtract(slope, moved))
                    _store(slopes, before, left)
                    at = 4 * slates + _NEW
                    _store(of_slates, at, moved)
                    for h in range(hidden):
                        of_slates[at, h] *= _ONE - gates[2, h] * gates[2, h]
                    back = _product(nowhere, from_item, 2 * hidden, of_slates, at, hidden)
                    _store(spare, _FIRST, back)
                    _store(moving_slope, k, _load(spare, _FIRST, dims))
                    _store(seen, slates, _load(moving, k, dims))
                    slates += 1
                    if slates == _TOGETHER:
                        _outer(
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
                reset = _product(none, item_across, 0, moving, k, dims)
                update = _product(none, item_across, dims, moving, k, dims)
                reset = _product(reset, state_across, 0, states, before, hidden)
                update = _product(update, state_across, hidden, states, before, hidden)
                inner = _product(none, state_across, 2 * hidden, states, before, hidden)
                _store(gates, _RESET, reset)
                _store(gates, _UPDATE, update)
                _store(gates, _INNER, inner)
                _open(gates)
                found = of_clicks[4 * clicks : 4 * clicks + 4]
                _close(gates, slopes, after, states, before, found, hidden)
                through = _product(none, from_state, 0, found, _RESET, hidden)
                through = _product(through, from_state, hidden, found, _UPDATE, hidden)
                through = _product(through, from_state, 2 * hidden, found, _INNER, hidden)
                _store(gates, _FIRST, through)
                left = _add(_load(slopes, before, hidden), _load(gates, _FIRST, hidden))
                _store(slopes, before, left)
                back = _product(nowhere, from_item, 0, found, _RESET, hidden)
                back = _product(back, from_item, hidden, found, _UPDATE, hidden)
                back = _product(back, from_item, 2 * hidden, found, _NEW, hidden)
                _store(spare, _FIRST, back)
                _store(moving_slope, k, _load(spare, _FIRST, dims))
                _store(clicked, clicks, _load(moving, k, dims))
                _store(met, clicks, state)
                clicks += 1
                if clicks == _TOGETHER:
                    _outer_of_clicks(
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
        _outer(item_gradient, 2 * hidden, of_slates, _NEW, seen, slates, hidden, nowhere)
        _outer_of_clicks(
            item_gradient, state_gradient, of_clicks, clicked, met, clicks, hidden, nowhere, none
        )

    return kernel
