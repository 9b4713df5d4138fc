"""The loops behind steps of user states that numba compiles; imported only with numba.

Shapes: n users in a step, d_h hidden units, E sources whose slates count.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

_njit: Any = numba.njit
# Without nnan and ninf: a NaN must stay one.
_options = {
    "fastmath": {"reassoc", "contract", "nsz", "arcp"},
    "error_model": "numpy",
    "nogil": True,
}


def _compile(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        kernel: Callable[..., Any] = _njit(cache=True, **_options)(function)
    except RuntimeError:  # no directory to keep the cache in
        kernel = _njit(**_options)(function)
    return kernel


@_compile
def move(before: Any, target: Any, kept: Any, kinds: Any, fractions: Any, after: Any) -> None:
    """Fill after [n, d_h]: a click leaves a share of the way from target [n, d_h] to before.

    The shares are the last d_h columns of `kept`.
    """
    units = before.shape[1]
    first = kept.shape[1] - units
    for n in range(len(before)):
        if kinds[n] < 0:
            for h in range(units):
                share = kept[n, first + h]
                after[n, h] = target[n, h] + share * (before[n, h] - target[n, h])
            continue
        share = fractions[kinds[n]]
        if not share > 0:
            square = np.float32(0)
            for h in range(units):
                square += (target[n, h] - before[n, h]) ** 2
            share *= np.exp(-np.sqrt(square))
        for h in range(units):
            after[n, h] = before[n, h] + share * (target[n, h] - before[n, h])


@_compile
def move_slopes(
    slope: Any,
    before: Any,
    target: Any,
    kept: Any,
    kinds: Any,
    fractions: Any,
    before_slope: Any,
    target_slope: Any,
    kept_slope: Any,
    fraction_slope: Any,
) -> None:
    """Go back from the slope [n, d_h] of `after`.

    Slopes of before [n, d_h] and fractions [E] are added to what is there, the others filled in.
    """
    units = before.shape[1]
    first = kept.shape[1] - units
    zero, one = np.float32(0), np.float32(1)
    for n in range(len(before)):
        if kinds[n] < 0:
            for h in range(units):
                stays = kept[n, first + h] * slope[n, h]
                before_slope[n, h] += stays
                target_slope[n, h] = slope[n, h] - stays
                kept_slope[n, h] = slope[n, h] * (before[n, h] - target[n, h])
            continue
        fraction = fractions[kinds[n]]
        along, square = zero, zero
        for h in range(units):
            gap = target[n, h] - before[n, h]
            along += slope[n, h] * gap
            square += gap * gap
        relevance, pull = one, zero
        if not fraction > 0:
            distance = np.sqrt(square)
            relevance = np.exp(-distance)
            if distance > 0:
                pull = -fraction * relevance * along / distance
        fraction_slope[kinds[n]] += relevance * along
        share = fraction * relevance
        for h in range(units):
            moved = share * slope[n, h] + pull * (target[n, h] - before[n, h])
            before_slope[n, h] += slope[n, h] - moved
            target_slope[n, h] = moved
            kept_slope[n, h] = zero


@_compile
def gate_slopes(
    new_slope: Any,
    update_slope: Any,
    gates: Any,
    new: Any,
    inner: Any,
    item_slope: Any,
    state_slope: Any,
) -> None:
    """Go back from the slopes of new and update gate [n, d_h] to W_i v and W_h h [n, 3 d_h].

    `gates` [n, 2 d_h] are reset and update gate, `inner` [n, d_h] is W_hn h.
    """
    units = new.shape[1]
    one = np.float32(1)
    for n in range(len(new)):
        for h in range(units):
            reset, update = gates[n, h], gates[n, units + h]
            of_new = new_slope[n, h] * (one - new[n, h] * new[n, h])
            of_reset = of_new * inner[n, h] * reset * (one - reset)
            of_update = update_slope[n, h] * update * (one - update)
            item_slope[n, h] = of_reset
            state_slope[n, h] = of_reset
            item_slope[n, units + h] = of_update
            state_slope[n, units + h] = of_update
            item_slope[n, 2 * units + h] = of_new
            state_slope[n, 2 * units + h] = of_new * reset
