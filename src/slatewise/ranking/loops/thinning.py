"""Draws of the items that matter; docs/thompson.md proves that their law is that of drawing all.

J draws have a profile each. In every draw an item has an event with a probability that is at
least that of getting among the best so far, and most items have no event in any draw.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from slatewise.compiled.compilation import compiled, inlined
from slatewise.compiled.lanes import (
    WIDTH,
    add,
    at_most,
    below,
    everywhere,
    larger,
    load,
    multiply,
    prefetch,
    random_lanes,
    root,
    smaller,
    squared_distances,
    store,
    subtract,
    sum_of,
)
from slatewise.ranking.loops.bounds import chance_bound, tail_bound, unsure_bound
from slatewise.ranking.loops.heap import among, keep, lowered, may
from slatewise.ranking.loops.offers import ROUNDING, ceilings_in_draws, offer_of
from slatewise.ranking.loops.passes import TILE
from slatewise.ranking.loops.randomness import normal, uniform
from slatewise.ranking.loops.tilting import drawn, raised


class Draws(NamedTuple):
    """The profiles of the draws, and what each asks of an item."""

    profiles: Any  # [J, D]
    blocks: Any  # [ceil(J / 16), D, 16]
    tiles: Any  # [4 ceil(J / 4), D]: the last profile repeated
    spread: Any  # all profiles lie so near to the centre of the survey
    lows: Any  # [16 ceil(J / 16)]: scores to reach
    weights: Any  # [ceil(J / 16), P, 16]
    ends: Any  # [2, P]: the greatest and the least weights
    own: Any  # [16 ceil(J / 16)]: offsets of the item at hand, from above
    bounds: Any  # [16 ceil(J / 16)]: room for the bounds of one item


class Queue(NamedTuple):
    """Items that had an event, and room to look at them side by side."""

    items: Any  # [16]
    chances: Any  # [16]: the probability with which the item came here
    tops: Any  # [16]: the greatest bound of a draw
    means: Any  # [1, D, 16]
    features: Any  # [P, 16]
    others: Any  # [5, 16]


@inlined
def _fill_bounds(columns: Any, item: Any, near: Any, most: Any, draws: Any) -> Any:
    """Write a bound of an item's chance in every draw, at most `most`; return their sum."""
    sum_, nears, unsure = np.float32(0), everywhere(near), everywhere(np.float32(0))
    total, widest = everywhere(columns.spreads[0, item]), everywhere(columns.spreads[1, item])
    if len(columns.spreads) > 2:
        unsure = everywhere(columns.spreads[2, item])
    for block in range(len(draws.blocks)):
        if near < 0:
            (nears,) = squared_distances(draws.blocks, block, columns.rows, 2 * item, 1)
        top = ceilings_in_draws(columns, item, draws.weights, draws.ends, block)
        top = add(top, load(draws.own, block * WIDTH))
        reach = subtract(top, load(draws.lows, block * WIDTH))
        bound = _bound(columns, nears, total, widest, reach, unsure)
        bound = smaller(bound, everywhere(most))
        store(draws.bounds, block * WIDTH, bound)
        sum_ += sum_of(bound)
    return np.float64(sum_) * (1 + 1e-5)


@inlined
def _bound(columns: Any, near: Any, total: Any, widest: Any, reach: Any, unsure: Any) -> Any:
    if len(columns.spreads) > 2:
        return unsure_bound(near, total, widest, reach, unsure)
    return tail_bound(near, total, widest, reach)


@inlined
def _score(columns: Any, item: Any, offer: Any, j: Any, draws: Any, heaps: Any, state: Any) -> Any:
    """Make the event of an item in draw j one of its law; return its score, or -inf if none."""
    mean, scale, profile = columns.rows[item, 0], columns.rows[item, 1], draws.profiles[j]
    bound = np.float64(draws.bounds[j])
    low, unsure, tau = -np.inf, 0.0, np.inf
    if heaps.sizes[j] == heaps.scores.shape[1]:
        low = heaps.scores[j, 0]
        # A little wider, so that equal scores come to be compared by item number.
        tau = (offer - low) ** 2 * (1 + 1e-9)
    if len(columns.spreads) > 2:
        unsure = np.float64(columns.spreads[2, item])
    if unsure > 0.0 and low > -np.inf:
        excess = raised(mean, scale, profile, offer - low, unsure, bound, state)
        return low + excess if excess >= 0.0 else -np.inf
    if offer < low:
        return -np.inf
    distance = drawn(mean, scale, profile, tau, bound, state)
    if distance < 0.0:
        return -np.inf
    if unsure > 0.0:
        offer += unsure * normal(state)
    return offer - math.sqrt(distance)


@compiled
def _visit(
    columns: Any,
    item: Any,
    near: Any,
    chance: Any,
    most: Any,
    added: Any,
    place: Any,
    draws: Any,
    caps: Any,
    state: Any,
    heaps: Any,
) -> Any:
    """Draw an item in all draws in which it gets among the best; tell whether there was one.

    An event of probability `chance` brought us here, at least the probability that any draw has
    an event when each has one of probability at most `most`. `near` is the squared distance of
    the mean to all profiles, or negative if they differ. An item with offsets has them at `place`,
    others have none at -1.
    """
    left = uniform(state) * chance
    if left >= _fill_bounds(columns, item, near, most, draws):
        return False
    changed, limit = False, heaps.scores.shape[1]
    for j in range(len(draws.profiles)):
        bound = np.float64(draws.bounds[j])
        if left >= bound:
            left = (left - bound) / (1.0 - bound)
            continue
        left = uniform(state)
        offer = offer_of(columns, item, added.weights, j)
        if place >= 0:
            offer += added.offsets[j, place]
        score = _score(columns, item, offer, j, draws, heaps, state)
        if score == -np.inf:
            continue
        scores, size, held = heaps.scores[j], heaps.sizes[j], heaps.held[j]
        size = keep(scores, heaps.items[j], size, score, item, columns.groups, caps, held)
        heaps.sizes[j] = size
        if size == limit:
            draws.lows[j] = lowered(scores[0])
            changed = True
    return changed


@inlined
def _best_reach(queue: Any, draws: Any, low: Any) -> Any:
    """Bound how far the offers of a queue exceed the score to reach, in any draw."""
    offers, count = load(queue.others, 2 * WIDTH), draws.ends.shape[1]
    if count == 0:
        return subtract(offers, everywhere(low))
    best, slack = everywhere(np.float32(-np.inf)), everywhere(np.float32(0))
    error = np.float32((count + 2) * ROUNDING)
    for j in range(len(draws.profiles)):
        low = draws.lows[j]
        total = everywhere(abs(low) * error - low)
        for p in range(count):
            weight = everywhere(draws.weights[j // WIDTH, p, j % WIDTH])
            total = add(total, multiply(load(queue.features, p * WIDTH), weight))
        best = larger(total, best)
    for p in range(count):
        size = everywhere(max(abs(draws.ends[0, p]), abs(draws.ends[1, p])) * error)
        term = multiply(load(queue.features, p * WIDTH), size)
        slack = add(slack, larger(term, subtract(everywhere(np.float32(0)), term)))
    return add(add(offers, best), slack)


@compiled
def _sift(
    columns: Any, queue: Any, waiting: Any, nears: Any, draws: Any, low: Any, state: Any
) -> Any:
    """Keep the items of a queue that remain when their best draw is known; return how many.

    Chances and tops are replaced by what the nearest profile and the best weights make of them.
    """
    for place in range(waiting):
        item = queue.items[place]
        if draws.spread > 0:
            for d in range(columns.rows.shape[2]):
                queue.means[0, d, place] = columns.rows[item, 0, d]
        for p in range(draws.ends.shape[1]):
            queue.features[p, place] = columns.features[item // WIDTH, p, item % WIDTH]
        queue.others[0, place] = columns.spreads[0, item]
        queue.others[1, place] = columns.spreads[1, item]
        queue.others[2, place] = columns.offers[item]
        queue.others[4, place] = nears[item]
        if len(columns.spreads) > 2:
            queue.others[3, place] = columns.spreads[2, item]
    nearest = load(queue.others, 4 * WIDTH)
    if draws.spread > 0:
        nearest = everywhere(np.float32(np.inf))
        for first in range(0, len(draws.tiles), TILE):
            for near in squared_distances(queue.means, 0, draws.tiles, first, TILE):
                nearest = smaller(near, nearest)
    total, widest = load(queue.others, 0), load(queue.others, WIDTH)
    reach, unsure = _best_reach(queue, draws, low), load(queue.others, 3 * WIDTH)
    top = _bound(columns, nearest, total, widest, reach, unsure)
    store(queue.tops, 0, smaller(top, load(queue.tops, 0)))
    left = 0
    for place in range(waiting):
        chance = min(1.0, np.float64(queue.tops[place]) * len(draws.profiles))
        if uniform(state) * queue.chances[place] < chance:
            queue.items[left], queue.chances[left] = queue.items[place], chance
            queue.tops[left] = queue.tops[place]
            left += 1
    return left


@compiled
def _set_own(offsets: Any, draws: Any) -> None:
    for j in range(len(draws.profiles)):
        draws.own[j] = np.float32(offsets[j] + abs(offsets[j]) * ROUNDING)


@compiled
def _least(draws: Any) -> Any:
    """Return the least score to reach in any draw."""
    least = draws.lows[0]
    for j in range(1, len(draws.profiles)):
        least = min(least, draws.lows[j])
    return least


@compiled
def _in_order(numbers: Any) -> Any:
    """Return a few numbers [n] in ascending order."""
    result = numbers.copy()
    for place in range(1, len(result)):
        number, before = result[place], place - 1
        while before >= 0 and result[before] > number:
            result[before + 1] = result[before]
            before -= 1
        result[before + 1] = number
    return result


@compiled
def _work_off(
    columns: Any,
    queue: Any,
    waiting: Any,
    nears: Any,
    added: Any,
    draws: Any,
    caps: Any,
    low: Any,
    state: Any,
    heaps: Any,
) -> Any:
    """Visit the items of a queue; return the least score to reach thereafter."""
    if draws.spread > 0 or draws.ends.shape[1] > 0:
        waiting = _sift(columns, queue, waiting, nears, draws, low, state)
    for place in range(waiting):
        item, chance, top = queue.items[place], queue.chances[place], queue.tops[place]
        near = np.float32(-1) if draws.spread > 0 else nears[item]
        if _visit(columns, item, near, chance, top, added, -1, draws, caps, state, heaps):
            low = _least(draws)
    return low


@compiled
def thin(
    columns: Any,
    num_items: Any,
    rule: Any,
    draws: Any,
    nears: Any,
    tops: Any,
    pilot: Any,
    added: Any,
    state: Any,
    keys: Any,
    heaps: Any,
) -> None:
    """Fill the heaps of all draws: from the pilot, items with offsets, then whatever gets in.

    `nears` are squared distances to a centre around which the profiles lie, `tops` the greatest
    offers in any draw. Items with offsets are those that the filter lets pass, and excluded by
    the rule.
    """
    one, unknown = np.float32(1), np.float32(-1)
    for item in pilot:
        _visit(columns, item, unknown, 1.0, one, added, -1, draws, rule.caps, state, heaps)
    for place in range(len(added.items)):
        item = added.items[place]
        if columns.offers[item] > -np.inf:
            _set_own(added.offsets[:, place], draws)
            _visit(columns, item, unknown, 1.0, one, added, place, draws, rule.caps, state, heaps)
    _set_own(np.zeros(len(draws.profiles)), draws)
    count, seen = len(draws.profiles), _in_order(pilot)
    low, waiting = _least(draws), np.int64(0)
    size = columns.rows.shape[2]
    queue = Queue(
        np.empty(WIDTH, np.int64),
        np.empty(WIDTH),
        np.empty(WIDTH, np.float32),
        np.zeros((1, size, WIDTH), np.float32),
        np.zeros((added.weights.shape[1], WIDTH), np.float32),
        np.zeros((5, WIDTH), np.float32),
    )
    shares, bounds = np.empty(WIDTH, np.float32), np.empty(WIDTH, np.float32)
    around, zero = everywhere(draws.spread), everywhere(np.float32(0))
    number, least = everywhere(np.float32(count)), everywhere(np.float32(2.0**-24))
    # A bias that is unsure may make up for any lack; -inf is that of an item not on offer.
    lowest = everywhere(np.float32(-3e38 if len(columns.spreads) > 2 else 0))
    for block in range((num_items + WIDTH - 1) // WIDTH):
        at = block * WIDTH
        near = larger(subtract(root(load(nears, at)), around), zero)
        reach = subtract(load(tops, at), everywhere(low))
        top = chance_bound(columns, at, multiply(near, near), reach)
        share = larger(multiply(top, number), least)
        found = below(random_lanes(at, keys[0], keys[1]), share) & at_most(lowest, reach)
        if found == 0:
            continue
        store(shares, 0, share)
        store(bounds, 0, top)
        for lane in range(WIDTH):
            item = at + lane
            if (found >> lane) & 1 == 0 or not may(item, num_items, rule) or among(item, seen):
                continue
            # What 24 random bits make of the share, exactly.
            chance = min(1.0, math.ceil(np.float64(shares[lane]) * 2.0**24) * 2.0**-24)
            queue.items[waiting], queue.chances[waiting] = item, chance
            queue.tops[waiting] = bounds[lane]
            for d in range(0, size, WIDTH):
                prefetch(columns.rows, item * 2 * size + d)
            waiting += 1
            if waiting == WIDTH:
                low = _work_off(
                    columns, queue, waiting, nears, added, draws, rule.caps, low, state, heaps
                )
                waiting = np.int64(0)
    _work_off(columns, queue, waiting, nears, added, draws, rule.caps, low, state, heaps)
