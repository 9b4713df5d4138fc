"""Draws of the items that matter; docs/thompson.md proves that their law is that of drawing all.

J draws have a profile each. In every draw an item has an event with a probability that is at
least that of getting among the best so far, and most items have no event in any draw.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from slatewise.ranking.loops.compiling import compiled
from slatewise.ranking.loops.heap import among, keep, lowered, may
from slatewise.ranking.loops.lanes import (
    WIDTH,
    add,
    at_most,
    below,
    divide,
    everywhere,
    larger,
    load,
    log_of_two,
    multiply,
    power_of_two,
    prefetch,
    random_lanes,
    root,
    smaller,
    squared_distances,
    store,
    subtract,
    sum_of,
    where_reached,
)
from slatewise.ranking.loops.passes import MARGIN, TILE
from slatewise.ranking.loops.randomness import normal, uniform


class Draws(NamedTuple):
    """The profiles of the draws, and what each asks of an item."""

    profiles: Any  # [J, D]
    blocks: Any  # [ceil(J / 16), D, 16]
    tiles: Any  # [4 ceil(J / 4), D]: the last profile repeated
    spread: Any  # all profiles lie so near to the centre of the survey
    lows: Any  # [16 ceil(J / 16)]: scores to reach
    bounds: Any  # [16 ceil(J / 16)]: room for the bounds of one item


class Queue(NamedTuple):
    """Items that had an event, and room to look at them side by side."""

    items: Any  # [16]
    chances: Any  # [16]: the probability with which the item came here
    tops: Any  # [16]: the greatest bound of a draw
    means: Any  # [1, D, 16]
    others: Any  # [3, 16]


@compiled
def _tail_bound(near: Any, total: Any, widest: Any, reach: Any) -> Any:
    """Bound the probability that a drawn item comes within reach, in every lane.

    The mean lies at a squared distance x of at least `near`; s = Σσ², w = max σ², τ = reach². With
    u = (s + √(s² + 4τx)) / 2τ, or 1 if that is less, the bound is the exponential of
    ((u − 1)(τ − x/u) − s log u) / 2w. It falls as x grows.
    """
    one, zero = everywhere(np.float32(1)), everywhere(np.float32(0))
    less, more = everywhere(np.float32(1 - MARGIN)), everywhere(np.float32(1 + MARGIN))
    least, per_log = everywhere(np.float32(1e-30)), everywhere(np.float32(math.log2(math.e)))
    x, s = multiply(near, less), multiply(total, less)
    tau = larger(multiply(multiply(reach, reach), more), least)
    twice = add(tau, tau)
    under = add(multiply(s, s), multiply(add(twice, twice), x))
    u = larger(divide(add(s, root(under)), twice), one)
    pull = multiply(subtract(u, one), subtract(tau, divide(x, u)))
    bits = subtract(multiply(pull, per_log), multiply(s, log_of_two(u)))
    width = larger(multiply(add(widest, widest), more), least)
    # What is not a number comes of an infinite reach: then the bound is 1.
    power = smaller(divide(bits, width), zero)
    bound = power_of_two(larger(power, everywhere(np.float32(-126))))
    return where_reached(reach, smaller(bound, one))


@compiled
def _drawn(mean: Any, scale: Any, profile: Any, tau: Any, bound: Any, state: Any) -> Any:
    """Make an event of probability `bound` one of law p(v) 1[D < τ]; return D, or -1 if none.

    p is the law of the item's vector and D its squared distance to the profile. Tilting p by
    exp(−λD), with λ = (u − 1) / 2w as in the bound, puts the draws where they are accepted.
    """
    x, s, w = 0.0, 0.0, 0.0
    for d in range(len(profile)):
        gap = np.float64(profile[d]) - np.float64(mean[d])
        spread = np.float64(scale[d]) ** 2
        x += gap * gap
        s += spread
        w = max(w, spread)
    tilt, level = 0.0, 0.0
    if x + s > tau:
        if w == 0.0:
            return -1.0
        tilt = ((s + math.sqrt(s * s + 4.0 * tau * x)) / (2.0 * tau) - 1.0) / (2.0 * w)
        level = _log_chance(mean, scale, profile, tau, tilt)
    if uniform(state) * bound >= math.exp(level):
        return -1.0
    distance = 0.0
    for d in range(len(profile)):
        width = np.float64(scale[d])
        factor = 1.0 / (1.0 + 2.0 * tilt * width * width)
        gap = (np.float64(profile[d]) - np.float64(mean[d])) * factor
        gap += width * math.sqrt(factor) * normal(state)
        distance += gap * gap
        if distance > tau:
            return -1.0
    if tilt > 0.0 and uniform(state) >= math.exp(tilt * (distance - tau)):
        return -1.0
    return distance


@compiled
def _log_chance(mean: Any, scale: Any, profile: Any, tau: Any, tilt: Any) -> Any:
    """Return log C with C = exp(λτ) E exp(−λD): Chernoff's bound of P(D < τ) at the tilt λ."""
    level, product = tilt * tau, 1.0
    for d in range(len(profile)):
        gap = np.float64(profile[d]) - np.float64(mean[d])
        factor = 1.0 + 2.0 * tilt * np.float64(scale[d]) ** 2
        level -= tilt * gap * gap / factor
        product *= factor
        if product > 1e200:
            level -= 0.5 * math.log(product)
            product = 1.0
    return level - 0.5 * math.log(product)


@compiled
def _fill_bounds(columns: Any, item: Any, near: Any, most: Any, draws: Any) -> Any:
    """Write a bound of an item's chance in every draw, at most `most`; return their sum."""
    total, nears = np.float32(0), everywhere(near)
    offer, spread = everywhere(columns.offers[item]), everywhere(columns.spreads[0, item])
    widest = everywhere(columns.spreads[1, item])
    for block in range(len(draws.blocks)):
        if near < 0:
            (nears,) = squared_distances(draws.blocks, block, columns.rows, 2 * item, 1)
        reach = subtract(offer, load(draws.lows, block * WIDTH))
        bound = smaller(_tail_bound(nears, spread, widest, reach), everywhere(most))
        store(draws.bounds, block * WIDTH, bound)
        total += sum_of(bound)
    return np.float64(total) * (1 + 1e-5)


@compiled
def _visit(
    columns: Any,
    item: Any,
    near: Any,
    chance: Any,
    most: Any,
    draws: Any,
    caps: Any,
    state: Any,
    heaps: Any,
) -> Any:
    """Draw an item in all draws in which it gets among the best; tell whether there was one.

    An event of probability `chance` brought us here, at least the probability that any draw has
    an event when each has one of probability at most `most`. `near` is the squared distance of
    the mean to all profiles, or negative if they differ.
    """
    left = uniform(state) * chance
    if left >= _fill_bounds(columns, item, near, most, draws):
        return False
    changed, offer, limit = False, np.float64(columns.offers[item]), heaps.scores.shape[1]
    for j in range(len(draws.profiles)):
        bound = np.float64(draws.bounds[j])
        if left >= bound:
            left = (left - bound) / (1.0 - bound)
            continue
        left, tau, scores = uniform(state), np.inf, heaps.scores[j]
        if heaps.sizes[j] == limit:
            # A little wider, so that equal scores come to be compared by item number.
            tau = (offer - scores[0]) ** 2 * (1 + 1e-9)
        mean, scale = columns.rows[item, 0], columns.rows[item, 1]
        distance = _drawn(mean, scale, draws.profiles[j], tau, bound, state)
        if distance < 0.0:
            continue
        score, size, held = offer - math.sqrt(distance), heaps.sizes[j], heaps.held[j]
        size = keep(scores, heaps.items[j], size, score, item, columns.groups, caps, held)
        heaps.sizes[j] = size
        if size == limit:
            draws.lows[j] = lowered(scores[0])
            changed = True
    return changed


@compiled
def _sift(columns: Any, queue: Any, waiting: Any, draws: Any, low: Any, state: Any) -> Any:
    """Keep the items of a queue that remain when the nearest profile is known; return how many.

    Chances and tops are replaced by what the nearest profile makes of them.
    """
    for place in range(waiting):
        item = queue.items[place]
        for d in range(columns.rows.shape[2]):
            queue.means[0, d, place] = columns.rows[item, 0, d]
        queue.others[0, place] = columns.spreads[0, item]
        queue.others[1, place] = columns.spreads[1, item]
        queue.others[2, place] = columns.offers[item]
    nearest = everywhere(np.float32(np.inf))
    for first in range(0, len(draws.tiles), TILE):
        for near in squared_distances(queue.means, 0, draws.tiles, first, TILE):
            nearest = smaller(near, nearest)
    total, widest = load(queue.others, 0), load(queue.others, WIDTH)
    reach = subtract(load(queue.others, 2 * WIDTH), everywhere(low))
    top = _tail_bound(nearest, total, widest, reach)
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
    draws: Any,
    caps: Any,
    low: Any,
    state: Any,
    heaps: Any,
) -> Any:
    """Visit the items of a queue; return the least score to reach thereafter."""
    if draws.spread > 0:
        waiting = _sift(columns, queue, waiting, draws, low, state)
    for place in range(waiting):
        item, chance, top = queue.items[place], queue.chances[place], queue.tops[place]
        near = np.float32(-1) if draws.spread > 0 else nears[item]
        if _visit(columns, item, near, chance, top, draws, caps, state, heaps):
            low = _least(draws)
    return low


@compiled
def thin(
    columns: Any,
    num_items: Any,
    rule: Any,
    draws: Any,
    nears: Any,
    pilot: Any,
    state: Any,
    keys: Any,
    heaps: Any,
) -> None:
    """Fill the heaps of all draws: first from the pilot, then from whatever else gets in.

    `nears` are squared distances to a centre around which the profiles lie.
    """
    one, unknown = np.float32(1), np.float32(-1)
    for item in pilot:
        _visit(columns, item, unknown, 1.0, one, draws, rule.caps, state, heaps)
    count, seen = len(draws.profiles), _in_order(pilot)
    low, waiting = _least(draws), np.int64(0)
    size = columns.rows.shape[2]
    queue = Queue(
        np.empty(WIDTH, np.int64),
        np.empty(WIDTH),
        np.empty(WIDTH, np.float32),
        np.zeros((1, size, WIDTH), np.float32),
        np.zeros((3, WIDTH), np.float32),
    )
    shares, tops = np.empty(WIDTH, np.float32), np.empty(WIDTH, np.float32)
    around, zero = everywhere(draws.spread), everywhere(np.float32(0))
    number, least = everywhere(np.float32(count)), everywhere(np.float32(2.0**-24))
    for block in range((num_items + WIDTH - 1) // WIDTH):
        at = block * WIDTH
        near = larger(subtract(root(load(nears, at)), around), zero)
        reach = subtract(load(columns.offers, at), everywhere(low))
        total, widest = load(columns.spreads[0], at), load(columns.spreads[1], at)
        top = _tail_bound(multiply(near, near), total, widest, reach)
        share = larger(multiply(top, number), least)
        found = below(random_lanes(at, keys[0], keys[1]), share) & at_most(zero, reach)
        if found == 0:
            continue
        store(shares, 0, share)
        store(tops, 0, top)
        for lane in range(WIDTH):
            item = at + lane
            if (found >> lane) & 1 == 0 or not may(item, num_items, rule) or among(item, seen):
                continue
            # What 24 random bits make of the share, exactly.
            chance = min(1.0, math.ceil(np.float64(shares[lane]) * 2.0**24) * 2.0**-24)
            queue.items[waiting], queue.chances[waiting] = item, chance
            queue.tops[waiting] = tops[lane]
            for d in range(0, size, WIDTH):
                prefetch(columns.rows, item * 2 * size + d)
            waiting += 1
            if waiting == WIDTH:
                low = _work_off(columns, queue, waiting, nears, draws, rule.caps, low, state, heaps)
                waiting = np.int64(0)
    _work_off(columns, queue, waiting, nears, draws, rule.caps, low, state, heaps)
