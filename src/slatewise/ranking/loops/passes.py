"""Passes over all means.

What a pass does in floats only screens, with a margin for rounding; whatever passes is settled in
doubles, by np.float64: to numba, float() of a float is a float. `columns` and `rule` are the
tuples of `ranking.columns` and `ranking.filters`, `added` that of `ranking.additions`; items with
offsets are those that the filter lets pass, and excluded by the rule.
"""

import math
from typing import Any

import numpy as np

from slatewise.compiled.compilation import compiled, inlined
from slatewise.compiled.lanes import (
    WIDTH,
    add,
    at_most,
    everywhere,
    larger,
    load,
    multiply,
    root,
    squared_distances,
    store,
    subtract,
)
from slatewise.ranking.loops.heap import among, best_first, keep, lowered, may
from slatewise.ranking.loops.offers import ceilings, extremes, offer_of, same_ends

MARGIN = 2e-5
"""Relative error granted to sums of floats: safe for some 300 dimensions."""
TILE = 4
"""Profiles that share the load of a block."""


@inlined
def _within(near: Any, offers: Any, low: Any) -> Any:
    """Return a bit for every lane whose score, offer − √near, may be at least `low`."""
    reach = subtract(offers, everywhere(low))
    far = multiply(multiply(reach, reach), everywhere(np.float32(1 + MARGIN)))
    return at_most(near, far) & at_most(everywhere(np.float32(0)), reach)


@compiled
def _mean_score(columns: Any, item: Any, profile: Any, weights: Any, row: Any) -> Any:
    block, lane = item // WIDTH, item % WIDTH
    total = 0.0
    for d in range(len(profile)):
        gap = np.float64(columns.means[block, d, lane]) - np.float64(profile[d])
        total += gap * gap
    return offer_of(columns, item, weights, row) - math.sqrt(total)


@compiled
def _keep_offset(
    columns: Any,
    added: Any,
    row: Any,
    places: Any,
    profiles: Any,
    caps: Any,
    held: Any,
    scores: Any,
    items: Any,
) -> Any:
    """Begin a ranking with the items that have offsets at these places; return its size."""
    size = np.int64(0)
    for place in range(places[0], places[1]):
        item = added.items[place]
        if columns.offers[item] > -np.inf:
            score = _mean_score(columns, item, profiles[row], added.weights, row)
            score += added.offsets[0, place]
            size = keep(scores, items, size, score, item, columns.groups, caps, held)
    return size


@compiled
def greedy(
    columns: Any,
    num_items: Any,
    rule: Any,
    profiles: Any,
    added: Any,
    scores: Any,
    items: Any,
) -> None:
    """Fill scores and items [k] with the best of all for the one profile [1, D], best first."""
    held = np.zeros(len(rule.caps), np.int64)
    every = 0, len(added.items)
    size = _keep_offset(columns, added, 0, every, profiles, rule.caps, held, scores, items)
    low = lowered(scores[0]) if size == len(scores) else np.float32(-np.inf)
    ends = extremes(added.weights, 0, 1)
    for block in range((num_items + WIDTH - 1) // WIDTH):
        at = block * WIDTH
        (near,) = squared_distances(columns.means, block, profiles, 0, 1)
        found = _within(near, ceilings(columns, block, ends), low)
        if found == 0:
            continue
        for lane in range(WIDTH):
            item = at + lane
            if (found >> lane) & 1 and may(item, num_items, rule):
                score = _mean_score(columns, item, profiles[0], added.weights, 0)
                size = keep(scores, items, size, score, item, columns.groups, rule.caps, held)
                if size == len(scores):
                    low = lowered(scores[0])
    best_first(scores[:size], items[:size])


@compiled
def greedy_many(
    columns: Any,
    num_items: Any,
    profiles: Any,
    excluded: Any,
    starts: Any,
    added: Any,
    shares: Any,
    caps: Any,
    limits: Any,
    scores: Any,
    items: Any,
) -> None:
    """Fill scores and items [B, k] for profiles [B, D], B a multiple of 4, up to limits [B].

    The items excluded for profile b are excluded[starts[b] : starts[b + 1]], in order; caps are
    [B, G] or [B, 0]. Items with offsets for b, of added.items [n] and added.offsets [1, n], are
    those from shares[b] to shares[b + 1]; they are excluded too.
    """
    count, held = len(profiles), np.zeros(caps.shape, np.int64)
    sizes = np.zeros(count, np.int64)
    lows = np.where(limits > 0, -np.inf, np.inf).astype(np.float32)
    weights, ends = added.weights, same_ends(added.weights)
    for b in range(count):
        if limits[b] > 0:
            places, best, who = (shares[b], shares[b + 1]), scores[b, : limits[b]], items[b]
            sizes[b] = _keep_offset(
                columns, added, b, places, profiles, caps[b], held[b], best, who
            )
            lows[b] = lowered(best[0]) if sizes[b] == limits[b] else np.float32(-np.inf)
    for block in range((num_items + WIDTH - 1) // WIDTH):
        at = block * WIDTH
        top = load(columns.offers, at)
        for first in range(0, count, TILE):
            nears = squared_distances(columns.means, block, profiles, first, TILE)
            for which in range(TILE):
                b = first + which
                if weights.shape[1]:
                    top = ceilings(columns, block, ends[b])
                found = _within(nears[which], top, lows[b])
                if found == 0:
                    continue
                best, who = scores[b, : limits[b]], items[b, : limits[b]]
                for lane in range(WIDTH):
                    item = at + lane
                    if (found >> lane) & 1 == 0 or item >= num_items:
                        continue
                    if among(item, excluded[starts[b] : starts[b + 1]]):
                        continue
                    score = _mean_score(columns, item, profiles[b], weights, b)
                    sizes[b] = keep(
                        best, who, sizes[b], score, item, columns.groups, caps[b], held[b]
                    )
                    if sizes[b] == limits[b]:
                        lows[b] = lowered(best[0])
    for b in range(count):
        best_first(scores[b, : sizes[b]], items[b, : sizes[b]])


@compiled
def survey(
    columns: Any,
    num_items: Any,
    rule: Any,
    centre: Any,
    wander: Any,
    times: Any,
    ends: Any,
    nears: Any,
    tops: Any,
    scores: Any,
    items: Any,
) -> Any:
    """Write the squared distances of all means to the centre [1, D], and find the pilot.

    The pilot is a heap of the items that could be best, by bias − √(m − 2√v), where m is the mean
    and v a bound of the variance of the squared distance; `wander` adds to v, in units of the
    squared distance, how far the profiles lie around the centre, and the bias is twice its scale
    above its mean. Caps count `times`: then the pilot fills `times` fewer places within the caps
    themselves. Returns its size. With weights between the ends [2, P] of some features, the
    greatest offers of all items are written to `tops`, which else are the offers.
    """
    caps, held = rule.caps * times, np.zeros(len(rule.caps), np.int64)
    size, low = np.int64(0), np.float32(-np.inf)
    zero, around = everywhere(np.float32(0)), everywhere(wander)
    for block in range((num_items + WIDTH - 1) // WIDTH):
        at = block * WIDTH
        (near,) = squared_distances(columns.means, block, centre, 0, 1)
        store(nears, at, near)
        total = load(columns.spreads[0], at)
        within = multiply(load(columns.spreads[1], at), add(total, add(near, near)))
        spread = root(add(add(within, within), multiply(around, near)))
        hope = larger(subtract(add(near, total), add(spread, spread)), zero)
        top = ceilings(columns, block, ends)
        if ends.shape[1]:
            store(tops, at, top)
        if len(columns.spreads) > 2:
            unsure = load(columns.spreads[2], at)
            top = add(top, add(unsure, unsure))
        reach = subtract(top, everywhere(low))
        found = at_most(hope, multiply(reach, reach)) & at_most(zero, reach)
        if found == 0:
            continue
        for lane in range(WIDTH):
            item = at + lane
            if (found >> lane) & 1 and may(item, num_items, rule):
                score = _hope(columns, item, tops[item], nears[item], wander)
                size = keep(scores, items, size, score, item, columns.groups, caps, held)
                if size == len(scores):
                    low = np.float32(scores[0])
    return size


@compiled
def _hope(columns: Any, item: Any, top: Any, near: Any, wander: Any) -> Any:
    total, widest = np.float64(columns.spreads[0, item]), np.float64(columns.spreads[1, item])
    variance = 2.0 * widest * (total + 2.0 * near) + wander * near
    best = max(near + total - 2.0 * math.sqrt(variance), 0.0)
    offer = np.float64(top)
    if len(columns.spreads) > 2:
        offer += 2.0 * np.float64(columns.spreads[2, item])
    return offer - math.sqrt(best)
