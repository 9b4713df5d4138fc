"""Passes over all means.

What a pass does in floats only screens, with a margin for rounding; whatever passes is settled in
doubles, by np.float64: to numba, float() of a float is a float. `columns` and `rule` are the
tuples of `ranking.columns` and `ranking.filters`, `added` that of `ranking.additions`; items with
offsets are those that the filter lets pass, and excluded by the rule.
"""

import math
from typing import Any

import numpy as np

from slatewise.compiled.compilation import compiled, uncounted
from slatewise.compiled.lanes import WIDTH, add, load, store
from slatewise.ranking.loops.heap import among, best_first, keep, lowered, may
from slatewise.ranking.loops.offers import ceilings, extremes, offer_of, same_ends
from slatewise.ranking.loops.pieces import (
    TILE,
    expected_score,
    four,
    hope_of,
    one,
    surveyed,
    within,
)


@compiled
def lengths_of(profiles: Any) -> Any:
    """Return ‖z‖ of profiles [J, D] as floats that are not smaller: [J]."""
    lengths = np.empty(len(profiles), np.float32)
    for j in range(len(profiles)):
        total = 0.0
        for d in range(profiles.shape[1]):
            total += np.float64(profiles[j, d]) ** 2
        lengths[j] = math.sqrt(total) * (1 + 1e-5)
    return lengths


@uncounted
def _whole_score(
    relevance: Any, columns: Any, item: Any, profile: Any, weights: Any, row: Any
) -> Any:
    offer = offer_of(columns, item, weights, row)
    return offer + expected_score(relevance, columns, item, profile)


@uncounted
def _keep_offset(
    relevance: Any,
    columns: Any,
    added: Any,
    row: Any,
    indices: Any,
    profiles: Any,
    caps: Any,
    held: Any,
    scores: Any,
    items: Any,
) -> Any:
    """Begin a ranking with the items with offsets between two indices; return its size."""
    size = np.int64(0)
    for index in range(indices[0], indices[1]):
        item = added.items[index]
        if columns.offers[item] > -np.inf:
            value = _whole_score(relevance, columns, item, profiles[row], added.weights, row)
            value += added.offsets[0, index]
            size = keep(scores, items, size, value, item, columns.groups, caps, held)
    return size


@compiled
def greedy(
    relevance: Any,
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
    given = added, 0, every, profiles, rule.caps, held
    size = _keep_offset(relevance, columns, *given, scores, items)
    # The least of a full heap, rounded down to a float: what cannot reach it need not be settled.
    low = lowered(scores[0]) if size == len(scores) else np.float32(-np.inf)
    ends, lengths = extremes(added.weights, 0, 1), lengths_of(profiles)
    for block in range((num_items + WIDTH - 1) // WIDTH):
        at = block * WIDTH
        near = one(relevance, columns, block, profiles, lengths, 0)
        # A bit for each of 16 items that may get in: soon after the start hardly any block has one.
        found = within(relevance, near, ceilings(columns, block, ends), low)
        if found == 0:
            continue
        for lane in range(WIDTH):
            item = at + lane
            if (found >> lane) & 1 and may(item, num_items, rule):
                value = _whole_score(relevance, columns, item, profiles[0], added.weights, 0)
                size = keep(scores, items, size, value, item, columns.groups, rule.caps, held)
                if size == len(scores):
                    low = lowered(scores[0])
    best_first(scores[:size], items[:size])


@compiled
def greedy_many(
    relevance: Any,
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
    # Of a profile that asks for nothing, no item gets in.
    lows = np.where(limits > 0, -np.inf, np.inf).astype(np.float32)
    weights, ends, lengths = added.weights, same_ends(added.weights), lengths_of(profiles)
    for b in range(count):
        if limits[b] > 0:
            indices, best, who = (shares[b], shares[b + 1]), scores[b, : limits[b]], items[b]
            sizes[b] = _keep_offset(
                relevance, columns, added, b, indices, profiles, caps[b], held[b], best, who
            )
            lows[b] = lowered(best[0]) if sizes[b] == limits[b] else np.float32(-np.inf)
    for block in range((num_items + WIDTH - 1) // WIDTH):
        at = block * WIDTH
        top = load(columns.offers, at)
        # Four profiles share each read of the block: memory is what bounds a pass.
        for first in range(0, count, TILE):
            nears = four(relevance, columns, block, profiles, lengths, first)
            for which in range(TILE):
                b = first + which
                if weights.shape[1]:
                    top = ceilings(columns, block, ends[b])
                found = within(relevance, nears[which], top, lows[b])
                if found == 0:
                    continue
                best, who = scores[b, : limits[b]], items[b, : limits[b]]
                for lane in range(WIDTH):
                    item = at + lane
                    if (found >> lane) & 1 == 0 or item >= num_items:
                        continue
                    if among(item, excluded[starts[b] : starts[b + 1]]):
                        continue
                    value = _whole_score(relevance, columns, item, profiles[b], weights, b)
                    sizes[b] = keep(
                        best, who, sizes[b], value, item, columns.groups, caps[b], held[b]
                    )
                    if sizes[b] == limits[b]:
                        lows[b] = lowered(best[0])
    for b in range(count):
        best_first(scores[b, : sizes[b]], items[b, : sizes[b]])


@compiled
def survey(
    relevance: Any,
    columns: Any,
    num_items: Any,
    rule: Any,
    middle: Any,
    centre: Any,
    times: Any,
    ends: Any,
    nears: Any,
    tops: Any,
    scores: Any,
    items: Any,
) -> Any:
    """Write how near all means are to the middle [1, D] of the profiles, and find the pilot.

    The pilot is a heap of the items that could be best, as `surveyed` has it, with a bias two
    standard deviations above its mean. Caps count `times`: then the pilot fills `times` fewer
    positions within the caps themselves. Returns its size. With weights between the ends [2, P]
    of some features, the greatest offers of all items are written to `tops`, which else are the
    offers.
    """
    caps, held = rule.caps * times, np.zeros(len(rule.caps), np.int64)
    size, low = np.int64(0), np.float32(-np.inf)
    for block in range((num_items + WIDTH - 1) // WIDTH):
        at = block * WIDTH
        near, hope = surveyed(relevance, columns.means, columns.spreads, block, middle, centre)
        store(nears, at, near)
        top = ceilings(columns, block, ends)
        if ends.shape[1]:
            store(tops, at, top)
        if len(columns.spreads) > 2:
            bias_sd = load(columns.spreads[2], at)
            top = add(top, add(bias_sd, bias_sd))
        found = within(relevance, hope, top, low)
        if found == 0:
            continue
        for lane in range(WIDTH):
            item = at + lane
            if (found >> lane) & 1 and may(item, num_items, rule):
                value = np.float64(tops[item])
                if len(columns.spreads) > 2:
                    value += 2.0 * np.float64(columns.spreads[2, item])
                value += hope_of(relevance, columns, item, nears[item], middle, centre)
                size = keep(scores, items, size, value, item, columns.groups, caps, held)
                if size == len(scores):
                    low = np.float32(scores[0])
    return size
