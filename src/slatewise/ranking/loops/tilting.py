"""One item in one draw, drawn only if it gets among the best; proof in docs/thompson-proofs.md.

An event of probability B becomes one of the law wanted: it goes on with probability C / B, draws
from a tilted law where that is likely to be accepted, and accepts.
"""

import math
from typing import Any

import numpy as np

from slatewise.compiled.compilation import part, uncounted
from slatewise.ranking.loops.randomness import normal, uniform


@uncounted
def drawn(
    mean: Any, scale: Any, profile: Any, s: Any, w: Any, tau: Any, bound: Any, state: Any, room: Any
) -> Any:
    """Make an event of probability `bound` one of law p(v) 1[D < τ]; return D, or -1 if none.

    p is the law of the item's vector, with s = Σσ² and w = max σ², and D its squared distance to
    the profile. Tilting p by exp(−λD), with λ = (u − 1) / 2w as in the bound, puts the draws where
    they are accepted. `room` [D] is for random numbers.
    """
    x = _squared_distance(mean, profile)
    tilt, level = 0.0, 0.0
    if x + s > tau:
        if w == 0.0:
            return -1.0
        tilt = ((s + math.sqrt(s * s + 4.0 * tau * x)) / (2.0 * tau) - 1.0) / (2.0 * w)
        level = _log_chance(mean, scale, profile, tau, tilt, w)
    if uniform(state) * bound >= math.exp(level):
        return -1.0
    distance = _tilted(mean, scale, profile, tilt, state, room)
    if distance > tau:
        return -1.0
    if tilt > 0.0 and uniform(state) >= math.exp(tilt * (distance - tau)):
        return -1.0
    return distance


@uncounted
def raised(
    mean: Any,
    scale: Any,
    profile: Any,
    s: Any,
    w: Any,
    gain: Any,
    bias_sd: Any,
    bound: Any,
    state: Any,
    room: Any,
) -> Any:
    """Make an event of probability `bound` one of law p(y) p(v) 1[y² > D, y > 0].

    y ~ N(gain, bias_sd²) is by how much the offer exceeds the score to reach. Returns y − √D, or -1
    if none. p(y) is tilted by exp(λy²), and where the gain is negative first moved to 0.
    """
    x = _squared_distance(mean, profile)
    hope, lack, varying = max(gain, 0.0), max(-gain, 0.0), bias_sd * bias_sd
    tilt = _best_tilt(x, s, w, hope * hope, varying)
    narrow = 1.0 - 2.0 * tilt * varying  # g
    level = _log_chance(mean, scale, profile, hope * hope / narrow, tilt, w)
    level -= 0.5 * math.log(narrow) + 0.5 * lack * lack / varying
    if uniform(state) * bound >= math.exp(level):
        return -1.0
    rise = hope / narrow + bias_sd / math.sqrt(narrow) * normal(state)
    if rise <= 0.0:
        return -1.0
    distance = _tilted(mean, scale, profile, tilt, state, room)
    if distance > rise * rise:
        return -1.0
    accepted = math.exp(tilt * (distance - rise * rise) - lack * rise / varying)
    if uniform(state) >= accepted:
        return -1.0
    return rise - math.sqrt(distance)


@part
def _squared_distance(mean: Any, profile: Any) -> Any:
    """Return x = ‖z − μ‖²."""
    x = 0.0
    for d in range(len(profile)):
        gap = np.float64(profile[d]) - np.float64(mean[d])
        x += gap * gap
    return x


@part
def _log_chance(mean: Any, scale: Any, profile: Any, tau: Any, tilt: Any, widest: Any) -> Any:
    """Return log C with C = exp(λτ) E exp(−λD): Chernoff's bound of P(D < τ) at the tilt λ."""
    pull, logs, size = 0.0, 0.0, len(profile)
    # One logarithm of so many factors that their product stays within the range of doubles.
    step = 16 if tilt * widest < 1e12 else 1
    for first in range(0, size, step):
        product = 1.0
        for d in range(first, min(first + step, size)):
            gap = np.float64(profile[d]) - np.float64(mean[d])
            factor = 1.0 + 2.0 * tilt * np.float64(scale[d]) ** 2
            pull += gap * gap / factor
            product *= factor
        logs += math.log(product)
    return tilt * (tau - pull) - 0.5 * logs


@part
def _tilted(mean: Any, scale: Any, profile: Any, tilt: Any, state: Any, room: Any) -> Any:
    """Draw a vector from the law tilted by exp(−λD); return D."""
    for d in range(len(profile)):
        room[d] = normal(state)
    distance = 0.0
    for d in range(len(profile)):  # apart from the random numbers, so that it becomes vectors
        width = np.float64(scale[d])
        factor = 1.0 / (1.0 + 2.0 * tilt * width * width)
        gap = (np.float64(profile[d]) - np.float64(mean[d])) * factor
        gap += width * math.sqrt(factor) * room[d]
        distance += gap * gap
    return distance


@uncounted
def _best_tilt(x: Any, s: Any, w: Any, tau: Any, varying: Any) -> Any:
    """Return the λ with the least λ(τ/g − x/u) − ½ log g − (s / 2w) log u; see `uncertain_bound`.

    At the least, C is below the bounds of all gates, whatever λ they used: C / B must not exceed
    1. The sum is convex in λ, so that Newton's steps between two ends always arrive.
    """
    mean = tau + varying
    if mean >= x + s:
        return 0.0
    stretch = (s + math.sqrt(s * s + 4.0 * mean * x)) / (2.0 * mean)
    tilt, low, high = (stretch - 1.0) / (2.0 * (w + varying * stretch)), 0.0, 0.5 / varying
    for _ in range(60):
        u, g = 1.0 + 2.0 * tilt * w, 1.0 - 2.0 * tilt * varying
        slope = (tau / g + varying) / g - (x / u + s) / u
        if slope > 0.0:
            high = tilt
        else:
            low = tilt
        bend = (4.0 * tau / g + 2.0 * varying) * varying / (g * g)
        bend += (4.0 * x / u + 2.0 * s) * w / (u * u)
        step = tilt - slope / bend
        if not low <= step < high:
            step = 0.5 * (low + high)
        if abs(step - tilt) <= 1e-6 * tilt:
            break
        tilt = step
    return tilt
