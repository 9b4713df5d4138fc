"""Draws of the items that matter; docs/thompson-proofs.md proves their law.

J draws have a profile each. In every draw an item has an event with a probability that is at
least that of getting among the best so far, and most items have no event in any draw.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from slatewise.compiled.compilation import compiled, inlined, uncounted
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
    smaller,
    store,
    subtract,
)
from slatewise.ranking.loops.heap import among, keep, lowered, may
from slatewise.ranking.loops.offers import ROUNDING, offer_of
from slatewise.ranking.loops.pieces import (
    best_profile,
    chance,
    drawn_score,
    fill_bounds,
    least_reach,
    widened,
)
from slatewise.ranking.loops.randomness import uniform


class Centre(NamedTuple):
    """Where the profiles lie: numbers alone, for arrays are counted whenever they are passed."""

    spread: Any  # no profile lies farther from their middle
    scatter: Any  # their variance around it, in one dimension
    length: Any  # no profile is longer
    height: Any  # no coordinate of a profile is larger


class Draws(NamedTuple):
    """The profiles of the draws, and what each asks of an item."""

    profiles: Any  # [J, D]
    blocks: Any  # [ceil(J / 16), D, 16]
    tiles: Any  # [4 ceil(J / 4), D]: the last profile repeated
    lengths: Any  # [4 ceil(J / 4)]: of these
    centre: Any  # where they lie
    lows: Any  # [16 ceil(J / 16)]: scores to reach
    weights: Any  # [ceil(J / 16), P, 16]
    ends: Any  # [2, P]: the greatest and the least weights
    own: Any  # [16 ceil(J / 16)]: offsets of the item at hand, from above
    bounds: Any  # [16 ceil(J / 16)]: room for the bounds of one item
    room: Any  # [D]: for random numbers


_TOTAL, _WIDEST, _OFFER, _BIAS_SD, _NEAR = range(5)
"""Rows of `Queue.others`: the variance of an item summed over dimensions, its greatest one, its
offer, the standard deviation of its bias, and its distance from the middle of the profiles."""
_BITS = 2.0**-24
"""The step of random lanes, which are floats of 24 random bits."""


class Queue(NamedTuple):
    """Items that had an event, and room to look at them side by side."""

    items: Any  # [16]
    chances: Any  # [16]: the probability with which the item came here
    tops: Any  # [16]: the greatest bound of a draw
    means: Any  # [1, D, 16]
    features: Any  # [P, 16]
    others: Any  # [5, 16]: rows _TOTAL, _WIDEST, _OFFER, _BIAS_SD and _NEAR


@uncounted
def _visit(
    relevance: Any,
    columns: Any,
    item: Any,
    near: Any,
    chance: Any,
    most: Any,
    added: Any,
    index: Any,
    draws: Any,
    caps: Any,
    state: Any,
    heaps: Any,
) -> Any:
    """Draw an item in all draws in which it gets among the best; tell whether there was one.

    An event of probability `chance` brought us here, at least the probability that any draw has
    an event when each has one of probability at most `most`. `near` measures the mean against
    all profiles, negative if they differ. An item with offsets has them at `index`,
    others have none at -1.
    """
    # One uniform number decides all draws. Given that the gate was passed it is uniform below
    # `chance`. A draw without an event leaves it at or above the bound, so that its share of what
    # remains, (left - bound) / (1 - bound), is uniform again: no other number is needed until an
    # event has used it up.
    left = uniform(state) * chance
    if left >= fill_bounds(relevance, columns, item, near, most, draws):
        return False
    changed, limit = False, heaps.scores.shape[1]
    for j in range(len(draws.profiles)):
        bound = np.float64(draws.bounds[j])
        if left >= bound:
            left = (left - bound) / (1.0 - bound)
            continue
        left = uniform(state)
        offer = offer_of(columns, item, added.weights, j)
        if index >= 0:
            offer += added.offsets[j, index]
        score = drawn_score(relevance, columns, item, offer, j, draws, heaps, state)
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
    offers, count = load(queue.others, _OFFER * WIDTH), draws.ends.shape[1]
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


@inlined
def _closer(relevance: Any, columns: Any, block: Any, draws: Any, reach: Any, bias_sd: Any) -> Any:
    """Bound the chances of a block of items, each by its best profile."""
    near = best_profile(relevance, columns.means, block, draws.tiles, draws.lengths)
    total = load(columns.spreads[0], block * WIDTH)
    widest = load(columns.spreads[1], block * WIDTH)
    return chance(relevance, columns.spreads, draws.centre, near, total, widest, reach, bias_sd)


@uncounted
def _sift(
    relevance: Any,
    columns: Any,
    queue: Any,
    waiting: Any,
    nears: Any,
    draws: Any,
    low: Any,
    state: Any,
) -> Any:
    """Keep the items of a queue that remain when their best draw is known; return how many.

    Chances and tops are replaced by what the best profile and the best weights make of them.
    """
    varied = draws.centre.spread > 0
    for index in range(waiting):
        item = queue.items[index]
        if varied:
            for d in range(columns.rows.shape[2]):
                queue.means[0, d, index] = columns.rows[item, 0, d]
        for p in range(draws.ends.shape[1]):
            queue.features[p, index] = columns.features[item // WIDTH, p, item % WIDTH]
        queue.others[_TOTAL, index] = columns.spreads[0, item]
        queue.others[_WIDEST, index] = columns.spreads[1, item]
        queue.others[_OFFER, index] = columns.offers[item]
        queue.others[_NEAR, index] = nears[item]
        if len(columns.spreads) > 2:
            queue.others[_BIAS_SD, index] = columns.spreads[2, item]
    near = load(queue.others, _NEAR * WIDTH)
    if varied:
        near = best_profile(relevance, queue.means, 0, draws.tiles, draws.lengths)
    total, widest = load(queue.others, _TOTAL * WIDTH), load(queue.others, _WIDEST * WIDTH)
    reach, bias_sd = _best_reach(queue, draws, low), load(queue.others, _BIAS_SD * WIDTH)
    top = chance(relevance, columns.spreads, draws.centre, near, total, widest, reach, bias_sd)
    store(queue.tops, 0, smaller(top, load(queue.tops, 0)))
    left = 0
    for index in range(waiting):
        # Thinned once more: the item came here with `chances`, too often by chances / most.
        most = min(1.0, np.float64(queue.tops[index]) * len(draws.profiles))
        if uniform(state) * queue.chances[index] < most:
            queue.items[left], queue.chances[left] = queue.items[index], most
            queue.tops[left] = queue.tops[index]
            left += 1
    return left


@uncounted
def _set_own(offsets: Any, draws: Any) -> None:
    for j in range(len(draws.profiles)):
        draws.own[j] = np.float32(offsets[j] + abs(offsets[j]) * ROUNDING)


@uncounted
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
    for index in range(1, len(result)):
        number, before = result[index], index - 1
        while before >= 0 and result[before] > number:
            result[before + 1] = result[before]
            before -= 1
        result[before + 1] = number
    return result


@uncounted
def _work_off(
    relevance: Any,
    columns: Any,
    queue: Any,
    waiting: Any,
    nears: Any,
    added: Any,
    draws: Any,
    num_items: Any,
    rule: Any,
    seen: Any,
    low: Any,
    state: Any,
    heaps: Any,
) -> Any:
    """Visit the items of a queue; return the least score to reach thereafter."""
    varied, caps = draws.centre.spread > 0, rule.caps
    if varied or draws.ends.shape[1] > 0:
        waiting = _sift(relevance, columns, queue, waiting, nears, draws, low, state)
    for index in range(waiting):
        item = queue.items[index]
        # Not before: of the items that pass the first gate, one in thirteen is left here.
        if not may(item, num_items, rule) or among(item, seen):
            continue
        near = np.float32(-1) if varied else nears[item]
        gate, top = queue.chances[index], queue.tops[index]
        # No starred arguments here: a tuple of them would count references to all arrays.
        if _visit(relevance, columns, item, near, gate, top, added, -1, draws, caps, state, heaps):
            low = _least(draws)
    return low


@compiled
def thin(
    relevance: Any,
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

    `nears` measure all means against the centre of the profiles, `tops` are the greatest offers
    in any draw. Items with offsets are those that the filter lets pass, and excluded by the rule.
    """
    # Always visited: measured against each profile (near < 0), without a gate, bounds up to 1.
    first = np.float32(-1), 1.0, np.float32(1)
    rest = draws, rule.caps, state, heaps
    for item in pilot:
        _visit(relevance, columns, item, *first, added, -1, *rest)
    for index in range(len(added.items)):
        item = added.items[index]
        if columns.offers[item] > -np.inf:
            _set_own(added.offsets[:, index], draws)
            _visit(relevance, columns, item, *first, added, index, *rest)
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
    varied, blocks, several = draws.centre.spread > 0, np.int64(0), np.int64(0)
    shares, bounds = np.empty(WIDTH, np.float32), np.empty(WIDTH, np.float32)
    number, least = everywhere(np.float32(count)), everywhere(np.float32(_BITS))
    lowest, bias_sd = everywhere(least_reach(relevance, columns)), everywhere(np.float32(0))
    for block in range((num_items + WIDTH - 1) // WIDTH):
        at = block * WIDTH
        near = widened(relevance, load(nears, at), draws.centre)
        reach = subtract(load(tops, at), everywhere(low))
        total, widest = load(columns.spreads[0], at), load(columns.spreads[1], at)
        if len(columns.spreads) > 2:
            bias_sd = load(columns.spreads[2], at)
        top = chance(relevance, columns.spreads, draws.centre, near, total, widest, reach, bias_sd)
        share, random = larger(multiply(top, number), least), random_lanes(at, keys[0], keys[1])
        found = below(random, share) & at_most(lowest, reach)
        if found == 0:
            continue
        blocks, several = blocks + 1, several + (found & (found - 1) != 0)
        if varied and 2 * several > blocks:
            # Where most blocks have two items or more that pass, to look at all sixteen, which lie
            # side by side, takes less time than to gather those: at 100,000 items, but not at 1.3
            # million, where few pass. The random number is the same: below the second share, too.
            top = smaller(_closer(relevance, columns, block, draws, reach, bias_sd), top)
            share = larger(multiply(top, number), least)
            found &= below(random, share)
            if found == 0:
                continue
        store(shares, 0, share)
        store(bounds, 0, top)
        for lane in range(WIDTH):
            item = at + lane
            if (found >> lane) & 1 == 0:
                continue
            # What 24 random bits make of the share, exactly.
            gate = min(1.0, math.ceil(np.float64(shares[lane]) / _BITS) * _BITS)
            queue.items[waiting], queue.chances[waiting] = item, gate
            queue.tops[waiting] = bounds[lane]
            for d in range(0, size, WIDTH):
                prefetch(columns.rows, item * 2 * size + d)
            waiting += 1
            if waiting == WIDTH:
                low = _work_off(
                    relevance,
                    columns,
                    queue,
                    waiting,
                    nears,
                    added,
                    draws,
                    num_items,
                    rule,
                    seen,
                    low,
                    state,
                    heaps,
                )
                waiting = np.int64(0)
    work = queue, waiting, nears, added, draws, num_items, rule, seen
    _work_off(relevance, columns, *work, low, state, heaps)
