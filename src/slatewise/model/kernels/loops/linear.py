"""The roll-out of linear dynamics, and its gradient.

Users are rolled out one after the other: a state stays in the first cache from event to event.

Shapes: B users, K events of them all, M = B + K states, D dimensions, E sources whose slates
count. Events are numbered by step: event e of user u is `first[e] + u`, if u is below `active[e]`,
and the state after it B more than that.
"""

import functools
import math
from typing import Any

import numpy as np

from slatewise.compiled.compilation import Kernel, part, reordered
from slatewise.compiled.functions import exponential
from slatewise.compiled.vectors import add, dot, load, squared_norm, store, subtract, times

_ZERO, _ONE = np.float32(0), np.float32(1)


@part
def slate_relevance(fraction: Any, square: Any) -> Any:
    """Return what weighs ρ: 1, or below 0 the relevance of a slate at that squared distance."""
    return _ONE if fraction > 0 else exponential(-math.sqrt(square))


@part
def slate_pull(fraction: Any, square: Any, along: Any) -> Any:
    """Return the slope of the squared distance's root, over that root, of the share of a slate."""
    if fraction > 0 or square == 0:
        return _ZERO
    distance = math.sqrt(square)
    return -fraction * exponential(-distance) * along / distance


@functools.cache
def linear_kernel(dims: int) -> Kernel:
    """Return the roll-out of linear dynamics; see `rolling.roll_linear`.

    The first B states are given, the others filled in.
    """

    @reordered
    def kernel(
        states: Any,
        moving: Any,
        drift: Any,
        kinds: Any,
        fractions: Any,
        first: Any,
        active: Any,
    ) -> None:
        users = len(states) - len(kinds)
        for u in range(users):
            before = np.int64(u)
            for e in range(len(active)):
                if u >= active[e]:
                    break
                k = first[e] + u
                state = load(states, before, dims)
                gap = subtract(load(moving, k, dims), state)
                share = _ONE - drift
                if kinds[k] >= 0:
                    fraction = fractions[kinds[k]]
                    share = fraction * slate_relevance(fraction, squared_norm(gap))
                before = users + k
                store(states, before, add(state, times(gap, share)))

    return kernel


@functools.cache
def linear_gradient_kernel(dims: int) -> Kernel:
    """Return the gradient of `linear_kernel`; the kernel returns the slope of the drift.

    `slopes` [M, D] are those of all states, and end as those that reach each through later ones
    too; slopes of moving [K, D] are filled in, those of fractions [E] (float64) added up. The
    former may lie over those of the states after the events: these are no longer read by then.
    """

    @reordered
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
        users, of_drift = len(states) - len(kinds), 0.0
        for u in range(users):
            # Users have the first events or none: the last active step is the user's last event.
            events = np.int64(0)
            while events < len(active) and u < active[events]:
                events += 1
            for e in range(events - 1, -1, -1):
                k = first[e] + u
                before = users + first[e - 1] + u if e > 0 else np.int64(u)
                slope = load(slopes, users + k, dims)
                gap = subtract(load(moving, k, dims), load(states, before, dims))
                along = dot(slope, gap)
                share, pull = _ONE - drift, _ZERO
                if kinds[k] >= 0:
                    fraction, square = fractions[kinds[k]], squared_norm(gap)
                    relevance = slate_relevance(fraction, square)
                    share, pull = fraction * relevance, slate_pull(fraction, square, along)
                    fraction_slope[kinds[k]] += np.float64(relevance * along)
                else:
                    of_drift -= np.float64(along)
                # after = before + share · gap, with gap = moving − before: what flows to `moving`
                # is what does not flow to the state before.
                moved = add(times(slope, share), times(gap, pull))
                store(moving_slope, k, moved)
                left = add(load(slopes, before, dims), subtract(slope, moved))
                store(slopes, before, left)
        return of_drift

    return kernel
