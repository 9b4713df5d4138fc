"""The passes over users' events that numba compiles; imported only with numba.

Users are rolled out one after the other: a state stays in the first cache from event to event.

Shapes: B users, K events of them all, of which Kc are clicks and Ks slates without one, M = B + K
states, h hidden units, E sources whose slates count. Events are numbered by step: event e of user u
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
_dot, _zeros = parts._dot, parts._zeros
_ZERO, _ONE, _TWO = np.float32(0), np.float32(1), np.float32(2)

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
    too; slopes of moving [K, D] are filled in, those of fractions [E] (float64) added up.
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


@functools.cache
def gru_kernel(hidden: int) -> Kernel:
    """Return the roll-out of a GRU; see `rolling.roll_gru`.

    `inputs` [3 Kc, h] are W_i v of the clicks, gate by gate, `targets` [Ks, h] what slates move
    towards, and `slots` [K] says which of either belongs to an event. `across` [3 h, h] has W_h
    transposed, gate by gate. For the way back, reset gate, update gate, new gate and W_hn h of the
    clicks are left in `gates` [4 Kc, h], the states they met in `met` [Kc, h].
    """
    source = SOURCE

    @parts._compile(*REORDER)
    def kernel(
        states: Any,
        inputs: Any,
        targets: Any,
        across: Any,
        kinds: Any,
        slots: Any,
        fractions: Any,
        first: Any,
        active: Any,
        gates: Any,
        met: Any,
    ) -> None:
        _ = source
        users = len(states) - len(kinds)
        sums = np.empty((3, hidden), np.float32)
        for u in range(users):
            before = np.int64(u)
            for e in range(len(active)):
                if u >= active[e]:
                    break
                k = first[e] + u
                slot, after = slots[k], users + k
                state = _load(states, before, hidden)
                if kinds[k] >= 0:
                    gap = _subtract(_load(targets, slot, hidden), state)
                    fraction = fractions[kinds[k]]
                    share = fraction * _relevance(fraction, _squared_norm(gap))
                    _store(states, after, _add(state, _times(gap, share)))
                    before = after
                    continue
                _store(met, slot, state)
                reset = _load(inputs, 3 * slot, hidden)
                update = _load(inputs, 3 * slot + 1, hidden)
                inner = _zeros(hidden)
                for d in range(hidden):
                    x = states[before, d]
                    reset = _add(reset, _times(_load(across, d, hidden), x))
                    update = _add(update, _times(_load(across, hidden + d, hidden), x))
                    inner = _add(inner, _times(_load(across, 2 * hidden + d, hidden), x))
                _store(sums, np.int64(0), reset)
                _store(sums, np.int64(1), update)
                _store(gates, 4 * slot + 3, inner)
                for h in range(hidden):
                    opened, stays = _sigmoid(sums[0, h]), _sigmoid(sums[1, h])
                    new = _tanh(inputs[3 * slot + 2, h] + opened * gates[4 * slot + 3, h])
                    gates[4 * slot, h] = opened
                    gates[4 * slot + 1, h] = stays
                    gates[4 * slot + 2, h] = new
                    states[after, h] = new + stays * (states[before, h] - new)
                before = after

    return kernel


@functools.cache
def gru_gradient_kernel(hidden: int) -> Kernel:
    """Return the way back through `gru_kernel`.

    `slopes` [M, h] are those of all states, and end as those that reach each through later ones
    too. Filled in are slopes of targets [Ks, h] and, in `found` [4 Kc, h], of the sums inside new,
    reset and update gate and of W_hn h; those of fractions [E] (float64) are added up.
    """
    source = SOURCE

    @parts._compile(*REORDER)
    def kernel(
        slopes: Any,
        states: Any,
        targets: Any,
        from_state: Any,
        kinds: Any,
        slots: Any,
        fractions: Any,
        first: Any,
        active: Any,
        gates: Any,
        target_slope: Any,
        found: Any,
        fraction_slope: Any,
    ) -> None:
        _ = source
        users = len(states) - len(kinds)
        for u in range(users):
            events = np.int64(0)
            while events < len(active) and u < active[events]:
                events += 1
            for e in range(events - 1, -1, -1):
                k = first[e] + u
                slot, after = slots[k], users + k
                before = users + first[e - 1] + u if e > 0 else np.int64(u)
                if kinds[k] >= 0:
                    slope = _load(slopes, after, hidden)
                    gap = _subtract(_load(targets, slot, hidden), _load(states, before, hidden))
                    along, square = _dot(slope, gap), _squared_norm(gap)
                    fraction = fractions[kinds[k]]
                    relevance = _relevance(fraction, square)
                    fraction_slope[kinds[k]] += np.float64(relevance * along)
                    pull = _pull(fraction, square, along)
                    moved = _add(_times(slope, fraction * relevance), _times(gap, pull))
                    _store(target_slope, slot, moved)
                    left = _add(_load(slopes, before, hidden), _subtract(slope, moved))
                    _store(slopes, before, left)
                    continue
                for h in range(hidden):
                    reset, update = gates[4 * slot, h], gates[4 * slot + 1, h]
                    new, inner = gates[4 * slot + 2, h], gates[4 * slot + 3, h]
                    slope_h = slopes[after, h]
                    stays = update * slope_h
                    of_new = (slope_h - stays) * (_ONE - new * new)
                    found[4 * slot, h] = of_new
                    found[4 * slot + 1, h] = of_new * inner * reset * (_ONE - reset)
                    found[4 * slot + 2, h] = stays * (_ONE - update) * (states[before, h] - new)
                    found[4 * slot + 3, h] = of_new * reset
                    slopes[before, h] += stays
                back = _load(slopes, before, hidden)
                for d in range(hidden):
                    of_reset, of_update = found[4 * slot + 1, d], found[4 * slot + 2, d]
                    of_inner = found[4 * slot + 3, d]
                    back = _add(back, _times(_load(from_state, d, hidden), of_reset))
                    back = _add(back, _times(_load(from_state, hidden + d, hidden), of_update))
                    back = _add(back, _times(_load(from_state, 2 * hidden + d, hidden), of_inner))
                _store(slopes, before, back)

    return kernel
