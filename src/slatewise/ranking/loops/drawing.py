"""All of one request for draws: known items, the survey, the pilot, the thinning."""

import math
from typing import Any

import numpy as np

from slatewise.compiled.compilation import compiled
from slatewise.compiled.lanes import WIDTH
from slatewise.ranking.loops.heap import best_first, keep, lowered, may
from slatewise.ranking.loops.offers import extremes, offer_of
from slatewise.ranking.loops.passes import lengths_of, survey
from slatewise.ranking.loops.pieces import TILE, score
from slatewise.ranking.loops.randomness import normal
from slatewise.ranking.loops.thinning import Centre, Draws, thin

PILOT_FEW, PILOT_MANY, PILOT_LEAST = 5, 12, 64
"""The pilot is 5 to 12 times as large as a ranking, more for more items, and has at least 64 items.
Measured at 100,000 items, one draw takes two fifths longer with 12 than with 5; at 1.3 million,
draws at σ = .5 take a tenth longer with 5, and with 20 there is no further gain."""


@compiled
def draw(
    relevance: Any,
    columns: Any,
    num_items: Any,
    rule: Any,
    rest: Any,
    profiles: Any,
    known: Any,
    added: Any,
    nears: Any,
    tops: Any,
    state: Any,
    keys: Any,
    heaps: Any,
) -> None:
    """Fill the heaps [J, k] for profiles [J, D], best first.

    Known items come with their vectors and offsets, a few others in `added` with offsets; `rest`
    is the rule that excludes both. `nears` [C] is room for a measure of every item, and with
    features `tops` [C] for an offer; without, it is the offers.
    """
    given = columns, num_items, rule, profiles, known, added.weights
    _keep_known(relevance, *given, state, heaps)
    middle, centre = _centre(profiles)
    limit = heaps.scores.shape[1]
    times = min(PILOT_MANY, max(PILOT_FEW, num_items // 100_000))
    times = max(times, (PILOT_LEAST + limit - 1) // limit)
    hopes, pilot = np.empty(limit * times), np.empty(limit * times, np.int64)
    ends = extremes(added.weights, 0, len(profiles))
    room = nears, tops, hopes, pilot
    size = survey(relevance, columns, num_items, rest, middle, centre, times, ends, *room)
    best_first(hopes[:size], pilot[:size])
    draws = _draws(profiles, centre, added.weights, ends, heaps)
    found = nears, tops, pilot[:size]
    thin(relevance, columns, num_items, rest, draws, *found, added, state, keys, heaps)
    for j in range(len(profiles)):
        size = heaps.sizes[j]
        best_first(heaps.scores[j, :size], heaps.items[j, :size])


@compiled
def _keep_known(
    relevance: Any,
    columns: Any,
    num_items: Any,
    rule: Any,
    profiles: Any,
    known: Any,
    weights: Any,
    state: Any,
    heaps: Any,
) -> None:
    for c in range(len(known.items)):
        item = known.items[c]
        if columns.offers[item] == -np.inf or not may(item, num_items, rule):
            continue
        for j in range(len(profiles)):
            value, size = offer_of(columns, item, weights, j), heaps.sizes[j]
            value += score(relevance, profiles[j], known.vectors[j, c])
            value += known.offsets[j, c]
            if len(columns.spreads) > 2:  # the vector is known, the bias is not
                value += np.float64(columns.spreads[2, item]) * normal(state)
            scores, items, held = heaps.scores[j], heaps.items[j], heaps.held[j]
            size = keep(scores, items, size, value, item, columns.groups, rule.caps, held)
            heaps.sizes[j] = size


@compiled
def _centre(profiles: Any) -> Any:
    """Return the middle [1, D] of the profiles, and where they lie around it."""
    count, size = profiles.shape
    middle = np.empty((1, size), np.float32)
    for d in range(size):
        total = 0.0
        for j in range(count):
            total += np.float64(profiles[j, d])
        middle[0, d] = total / count
    farthest, squares, length, height = 0.0, 0.0, 0.0, 0.0
    for j in range(count):
        total, own = 0.0, 0.0
        for d in range(size):
            value = np.float64(profiles[j, d])
            total += (value - np.float64(middle[0, d])) ** 2
            own += value * value
            height = max(height, abs(value))
        squares += total
        farthest, length = max(farthest, total), max(length, own)
    spread = np.float32(math.sqrt(farthest) * (1 + 1e-5))
    longest = np.float32(math.sqrt(length) * (1 + 1e-5))
    scatter = np.float32(squares / (count * size))
    return middle, Centre(spread, scatter, longest, np.float32(height * (1 + 1e-5)))


@compiled
def _draws(profiles: Any, centre: Any, weights: Any, ends: Any, heaps: Any) -> Any:
    count, size = profiles.shape
    blocks = _in_lanes(profiles)
    tiles = np.empty(((count + TILE - 1) // TILE * TILE, size), np.float32)
    # Element by element: numba takes two seconds to compile the assignment of a row.
    for j in range(len(tiles)):
        for d in range(size):
            tiles[j, d] = profiles[min(j, count - 1), d]
    lows = np.empty(len(blocks) * WIDTH, np.float32)
    for j in range(len(lows)):
        lows[j] = np.inf
    for j in range(count):
        full = heaps.sizes[j] == heaps.scores.shape[1]
        lows[j] = lowered(heaps.scores[j, 0]) if full else -np.inf
    rooms = np.zeros(len(lows), np.float32), np.empty(len(lows), np.float32)
    given = profiles, blocks, tiles, lengths_of(tiles), centre
    return Draws(*given, lows, _in_lanes(weights), ends, *rooms, np.empty(size))


@compiled
def _in_lanes(rows: Any) -> Any:
    """Lay out rows [J, n] sixteen side by side, as floats: [ceil(J / 16), n, 16]."""
    blocks = np.zeros(((len(rows) + WIDTH - 1) // WIDTH, rows.shape[1], WIDTH), np.float32)
    for j in range(len(rows)):
        for d in range(rows.shape[1]):
            blocks[j // WIDTH, d, j % WIDTH] = rows[j, d]
    return blocks
