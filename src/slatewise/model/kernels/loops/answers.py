"""Answers to slates, filtered into beliefs about items: `slatewise.slates.learning` in one loop.

The plain equations are `slatewise.model.assumed_density`, `gradients` of the relevance, and
`ItemLearner.learn_plainly`, which serves relevances that this loop does not know.

Shapes: n answers, T items seen of all, M clicks, R items, C = D + 1 numbers of an item, the bias
last, k items of a slate, S and E utilities.
"""

import math
from typing import Any

import numpy as np

from slatewise.compiled.compilation import exact
from slatewise.model.kernels.loops.choices import choice_slopes


@exact
def filter_answers(
    dot: Any,
    answers: Any,
    learned: Any,
    quadrature: Any,
    means: Any,
    scales: Any,
) -> None:
    """Move items [R, C] by answers, one after the other, each by its choices in their order.

    By the relevance z · v if `dot`, else by −‖z − v‖.

    `answers` are the items of each [T] with offsets [T] and where an answer's begin [n + 1],
    profiles [n, D], what is added to clicking nothing [n], positions clicked [M] with where those
    of an answer begin [n + 1], and how many of them an earlier answer had [n]. `learned` are the
    utilities of no click [S] and of enough [E], the sharpness, what it does not multiply of no
    click, the least share of a variance that is kept, and the least scale.
    """
    index, offsets, starts, profiles, nones, clicks, firsts, earlier = answers
    for n in range(len(nones)):
        start, count = starts[n], starts[n + 1] - starts[n]
        made = clicks[firsts[n] : firsts[n + 1]]
        slate = (index[start : start + count], offsets[start : start + count], profiles[n])
        left = np.ones(count, np.bool_)
        for position in made[: earlier[n]]:
            left[position] = False
        for number in range(earlier[n], len(made)):
            none = _no_click(count, number, nones[n], learned)
            _choose(dot, slate, left, made[number], none, learned, quadrature, means, scales)
            left[made[number]] = False
        stops = len(made) > earlier[n] and len(learned[1]) > 0 and len(made) < count
        if stops or len(made) == 0:
            none = _no_click(count, len(made), nones[n], learned)
            _choose(dot, slate, left, -1, none, learned, quadrature, means, scales)


@exact
def _no_click(seen: Any, clicks: Any, shown: Any, learned: Any) -> Any:
    """Return the utility of no click among items seen, or of enough after clicks."""
    no_click, enough, sharpness, added = learned[0], learned[1], learned[2], learned[3]
    if clicks > 0 and len(enough) > 0:
        own = enough[min(clicks, len(enough)) - 1]
        return sharpness * (own + math.log(max(1.0, float(seen - clicks))))
    return sharpness * (no_click[min(seen, len(no_click)) - 1] + shown) + added


@exact
def _choose(
    dot: Any,
    slate: Any,
    left: Any,
    clicked: Any,
    none: Any,
    learned: Any,
    quadrature: Any,
    means: Any,
    scales: Any,
) -> None:
    """Filter one choice among the items that are left: where `clicked` is, or −1 for no click."""
    index, offsets, profile = slate
    sharpness, keep, least = learned[2], learned[4], learned[5]
    positions = np.flatnonzero(left)
    count, size = len(positions), len(profile)
    centres, spreads = np.empty(count), np.empty(count)
    gradients = np.empty((count, size + 1))
    chosen = -1
    for i in range(count):
        position = positions[i]
        if position == clicked:
            chosen = i
        row = index[position]
        own = gradients[i]
        utility = _utility(dot, profile, means[row], scales[row], own)
        centres[i] = sharpness * (utility + means[row, size] + offsets[position])
        spread = 0.0
        for c in range(size + 1):
            own[c] *= sharpness
            spread += own[c] * own[c] * (np.float64(scales[row, c]) * np.float64(scales[row, c]))
        spreads[i] = spread
    first, second = np.empty(count), np.empty(count)
    choice_slopes(centres, spreads, none, chosen, quadrature[0], quadrature[1], first, second)
    for i in range(count):
        row = index[positions[i]]
        for c in range(size + 1):
            slope = gradients[i, c]
            variance = np.float64(scales[row, c]) * np.float64(scales[row, c])
            if variance > 0.0:
                means[row, c] = means[row, c] + variance * slope * first[i]
                kept = max(1.0 + variance * slope * slope * second[i], keep)
                scales[row, c] = max(math.sqrt(variance * kept), least)


@exact
def _utility(dot: Any, profile: Any, means: Any, scales: Any, slopes: Any) -> Any:
    """Return the utility of an uncertain item, and fill in its derivatives by the means [C]."""
    size = len(profile)
    slopes[size] = 1.0
    total = 0.0
    if dot:
        for d in range(size):
            slopes[d] = profile[d]
            total += profile[d] * np.float64(means[d])
        return total
    for d in range(size):
        gap = profile[d] - np.float64(means[d])
        slopes[d] = gap
        total += gap * gap + np.float64(scales[d]) * np.float64(scales[d])
    length = math.sqrt(total)
    share = 1.0 / max(length, 1e-12)
    for d in range(size):
        slopes[d] *= share
    return -length
