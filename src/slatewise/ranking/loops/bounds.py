"""Bounds of the chance that a drawn item gets among the best, sixteen at a time.

docs/thompson-proofs.md derives them; what they are for is in `thinning`.
"""

import math
from typing import Any

import numpy as np

from slatewise.compiled.compilation import inlined
from slatewise.compiled.lanes import (
    add,
    divide,
    everywhere,
    larger,
    log_of_two,
    multiply,
    power_of_two,
    root,
    smaller,
    subtract,
    where_reached,
)
from slatewise.ranking.loops.offers import MARGIN

_PER_LOG = np.float32(math.log2(math.e))
_LOG_ERROR = np.float32(5e-4)
_NARROWEST = np.float32(1e-12)
_FARTHEST = np.float32(3e38)


@inlined
def _best_stretch(x: Any, s: Any, tau: Any) -> Any:
    """Return u = (s + √(s² + 4τx)) / 2τ, or 1 if that is less or not a number."""
    twice = add(tau, tau)
    under = add(multiply(s, s), multiply(add(twice, twice), x))
    return larger(divide(add(s, root(under)), twice), everywhere(np.float32(1)))


@inlined
def tail_bound(near: Any, total: Any, widest: Any, reach: Any) -> Any:
    """Bound the probability that a drawn item comes within reach, in every lane.

    The mean lies at a squared distance x of at least `near`; s = Σσ², w = max σ², τ = reach². With
    u = (s + √(s² + 4τx)) / 2τ, or 1 if that is less, the bound is the exponential of
    ((u − 1)(τ − x/u) − s log u) / 2w. It falls as x grows.
    """
    one, zero = everywhere(np.float32(1)), everywhere(np.float32(0))
    less, more = everywhere(np.float32(1 - MARGIN)), everywhere(np.float32(1 + MARGIN))
    least = everywhere(np.float32(1e-30))
    x, s = multiply(near, less), multiply(total, less)
    tau = larger(multiply(multiply(reach, reach), more), least)
    u = _best_stretch(x, s, tau)
    pull = multiply(subtract(u, one), subtract(tau, divide(x, u)))
    bits = subtract(multiply(pull, everywhere(_PER_LOG)), multiply(s, log_of_two(u)))
    width = larger(multiply(add(widest, widest), more), least)
    # What is not a number comes of an infinite reach: then the bound is 1.
    power = smaller(divide(bits, width), zero)
    bound = power_of_two(larger(power, everywhere(np.float32(-126))))
    return where_reached(reach, smaller(bound, one))


@inlined
def uncertain_bound(near: Any, total: Any, widest: Any, reach: Any, bias_sd: Any) -> Any:
    """Bound the same where the reach y is uncertain too, of the mean `reach` and scale `bias_sd`.

    With m the reach or 0 if that is less, r = bias_sd² and any λ, u = 1 + 2λw and g = 1 − 2λr, it
    is the exponential of λ(m²/g − x/u) − ½ log g − (s / 2w) log u − (reach − m)² / 2r. The λ here
    is nearly the best.
    """
    one, zero = everywhere(np.float32(1)), everywhere(np.float32(0))
    half, least = everywhere(np.float32(0.5)), everywhere(np.float32(1e-30))
    less, more = everywhere(np.float32(1 - MARGIN)), everywhere(np.float32(1 + MARGIN))
    x, s = multiply(near, less), multiply(total, less)
    w = larger(multiply(widest, more), everywhere(_NARROWEST))
    r = multiply(multiply(bias_sd, bias_sd), more)
    hope, lack = larger(reach, zero), larger(subtract(zero, reach), zero)
    tau = multiply(multiply(hope, hope), more)
    stretch = _best_stretch(x, s, larger(add(tau, r), least))
    wider = add(w, multiply(r, stretch))
    tilt = multiply(divide(subtract(stretch, one), wider), half)  # λ
    u, inverse = add(one, multiply(add(w, w), tilt)), divide(wider, add(w, r))  # u and 1 / g
    pull = multiply(tilt, subtract(multiply(tau, inverse), divide(x, u)))
    wide = multiply(half, add(log_of_two(inverse), everywhere(_LOG_ERROR)))
    spreading = multiply(multiply(divide(s, w), half), log_of_two(u))
    bits = subtract(add(multiply(pull, everywhere(_PER_LOG)), wide), spreading)
    # As above, what is not a number comes of an infinite reach.
    lacking = divide(multiply(multiply(lack, lack), half), larger(r, least))
    power = subtract(smaller(bits, zero), multiply(lacking, everywhere(_PER_LOG)))
    bound = power_of_two(larger(power, everywhere(np.float32(-126))))
    return where_reached(add(reach, everywhere(_FARTHEST)), smaller(bound, one))
