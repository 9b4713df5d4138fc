"""The loops that numba compiles: over the users of a batch, over a log in time order, over items.

Everything stays in this file because numba's cache looks only at the file of the outermost
function. No fast arithmetic: serving and training must agree to the last bit.

Letters beside those of the project: H half-lives, R rows of an index.
"""

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

Kernel = Callable[..., Any]

# numba's own signature describes the Python function, not what the decorator makes of it.
_njit: Any = numba.njit

NEVER = -(2**62)
"""The tick of an item without events; far enough back to weigh nothing, near enough to subtract."""

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio: multiplied by it, neighbouring numbers end up far apart."""


def _compile(function: Kernel) -> Kernel:
    options = {"error_model": "numpy", "nogil": True}
    try:
        kernel: Kernel = _njit(cache=True, **options)(function)
    except RuntimeError:  # no directory to keep the cache in
        kernel = _njit(**options)(function)
    return kernel


# Showings.


@_compile
def _goes_on(
    n: Any, times: Any, sources: Any, clicks: Any, slate_offsets: Any, slate_items: Any
) -> Any:
    """Say whether interaction n is a further click on the slate of n - 1."""
    if times[n] != times[n - 1] or sources[n] != sources[n - 1]:
        return False
    if clicks[n] < 0 or clicks[n - 1] < 0 or clicks[n] == clicks[n - 1]:
        return False
    before, start, end = slate_offsets[n - 1], slate_offsets[n], slate_offsets[n + 1]
    if start - before != end - start:
        return False
    for j in range(end - start):  # noqa: SIM110 (numba knows no generators)
        if slate_items[before + j] != slate_items[start + j]:
            return False
    return True


@_compile
def mark_showings(
    user_offsets: Any,
    times: Any,
    sources: Any,
    clicks: Any,
    slate_offsets: Any,
    slate_items: Any,
    begins: Any,
) -> None:
    """Fill in whether each interaction begins a showing; see `showings.showing_starts`."""
    for b in range(len(user_offsets) - 1):
        first = user_offsets[b]
        for n in range(first, user_offsets[b + 1]):
            begins[n] = n == first or not _goes_on(
                n, times, sources, clicks, slate_offsets, slate_items
            )


@_compile
def count_training(
    user_offsets: Any,
    train_end: Any,
    begins: Any,
    sources: Any,
    clicks: Any,
    slate_offsets: Any,
    counts: Any,
) -> None:
    """Add interactions, clicks and views of the training part, by source: counts [sources, 3]."""
    for b in range(len(user_offsets) - 1):
        end = min(user_offsets[b] + train_end[b], user_offsets[b + 1])
        for n in range(user_offsets[b], end):
            counts[sources[n], 0] += 1
            counts[sources[n], 1] += clicks[n] >= 0
            if begins[n]:
                counts[sources[n], 2] += slate_offsets[n + 1] - slate_offsets[n]


# History.


@_compile
def _largest(user_offsets: Any, slate_offsets: Any) -> Any:
    """Return the most cells of a user and the longest slate."""
    most, longest = np.int64(1), np.int64(0)
    for b in range(len(user_offsets) - 1):
        cells = slate_offsets[user_offsets[b + 1]] - slate_offsets[user_offsets[b]]
        most = max(most, cells)
    for n in range(len(slate_offsets) - 1):
        longest = max(longest, slate_offsets[n + 1] - slate_offsets[n])
    return most, longest


@_compile
def _bits_for(cells: Any) -> Any:
    """Return the bits of a hash table that at most half fills with so many cells."""
    bits = np.int64(1)
    while (np.int64(1) << bits) < 2 * cells:
        bits += 1
    return bits


@_compile
def history(
    user_offsets: Any,
    begins: Any,
    clicks: Any,
    slate_offsets: Any,
    slate_items: Any,
    logs: Any,
    out: Any,
) -> Any:
    """Fill in the features [F, 3] of all cells; return -1, or the first bad interaction.

    Items of a user stand in a hash table. Its keys begin with the number of the user, so it need
    not be emptied between users; small users work in its first few kilobytes.
    """
    most, longest = _largest(user_offsets, slate_offsets)
    size = np.int64(1) << _bits_for(most)
    keys, counts = np.zeros(size, np.int64), np.zeros((size, 2), np.int32)
    slots = np.empty(longest, np.int64)
    for b in range(len(user_offsets) - 1):
        first, end = user_offsets[b], user_offsets[b + 1]
        bits = _bits_for(slate_offsets[end] - slate_offsets[first])
        shift, mask = np.uint64(64 - bits), (np.int64(1) << bits) - 1
        last = np.int64(-1)
        n = first
        while n < end:
            start, length = slate_offsets[n], slate_offsets[n + 1] - slate_offsets[n]
            for j in range(length):
                item = np.int64(slate_items[start + j])
                if item < 0:
                    return n
                key = ((b + 1) << 32) | item
                slot = np.int64((np.uint64(item) * _SPREAD) >> shift)
                while keys[slot] != key:
                    if (keys[slot] >> 32) != b + 1:
                        keys[slot] = key
                        counts[slot, 0] = counts[slot, 1] = 0
                        break
                    slot = (slot + 1) & mask
                slots[j] = slot
                out[start + j, 0] = logs[counts[slot, 0]]
                out[start + j, 1] = logs[counts[slot, 1]]
                out[start + j, 2] = item == last
            for j in range(length):
                counts[slots[j], 1] += 1
            while True:  # the clicks of this showing
                click = clicks[n]
                if click >= length:
                    return n
                if click >= 0:
                    counts[slots[click], 0] += 1
                    last = np.int64(slate_items[start + click])
                n += 1
                if n == end or begins[n]:
                    break
                out[slate_offsets[n] : slate_offsets[n + 1]] = out[start : start + length]
    return np.int64(-1)


# Propensity.


@_compile
def propensity_value(count: Any, clicks: Any, expected: Any, rate: Any, strength: Any) -> Any:
    """Return the log-odds of a user's clicks less those of an average user in the same slates."""
    if count == 0:
        return 0.0
    yes, no = strength * rate, strength * (1.0 - rate)
    own = math.log(clicks + yes) - math.log(count - clicks + no)
    return own - (math.log(expected + yes) - math.log(count - expected + no))


@_compile
def propensity(
    user_offsets: Any,
    begins: Any,
    sources: Any,
    clicks: Any,
    rates: Any,
    rate: Any,
    strength: Any,
    out: Any,
) -> Any:
    """Fill in the propensity [N] before each showing; return -1, or the first bad interaction."""
    for b in range(len(user_offsets) - 1):
        count, clicked, expected, value = np.int64(0), np.int64(0), 0.0, 0.0
        for n in range(user_offsets[b], user_offsets[b + 1]):
            if sources[n] >= len(rates):
                return n
            if begins[n]:
                value = propensity_value(count, clicked, expected, rate, strength)
            out[n] = value
            count += 1
            clicked += clicks[n] >= 0
            expected += rates[sources[n]]
    return np.int64(-1)


# Popularity. Of each item: the tick of its latest event; the decayed sums `closed` [H, 2] of
# clicks and views at that tick, of earlier ticks only; the counts `open` [2] in that tick.


@_compile
def _add(
    item: Any,
    now: Any,
    click: Any,
    view: Any,
    steps: Any,
    tick: Any,
    closed: Any,
    opened: Any,
) -> None:
    """Count one event at tick `now`; steps [H] are half-lives per tick."""
    past = tick[item]
    if past < now:
        for h in range(len(steps)):
            decay = np.exp2(-steps[h] * (now - past))
            for e in range(2):
                closed[item, h, e] = (closed[item, h, e] + np.float32(opened[item, e])) * decay
        opened[item, 0] = opened[item, 1] = 0
        tick[item] = now
    if past <= now:
        opened[item, 0] += click
        opened[item, 1] += view
        return
    for h in range(len(steps)):  # a late event
        weight = np.exp2(-steps[h] * (past - now))
        closed[item, h, 0] += click * weight
        closed[item, h, 1] += view * weight


@_compile
def _describe(clicks: Any, views: Any, rate: Any, strength: Any, h: Any, row: Any) -> None:
    """Fill in the two features of a half-life from its decayed clicks and views."""
    # As `closed` would hold them: the next event must not show in the last bit.
    clicks, views = np.float64(np.float32(clicks)), np.float64(np.float32(views))
    row[2 * h] = math.log((clicks / rate + strength) / (views + strength))
    row[2 * h + 1] = math.log1p(clicks)


@_compile
def describe_item(
    item: Any,
    now: Any,
    steps: Any,
    rate: Any,
    strength: Any,
    tick: Any,
    closed: Any,
    opened: Any,
    row: Any,
) -> Any:
    """Fill in the features [2 H] of an item at tick `now`; False if `now` lies too far back."""
    past = tick[item]
    if past > now:
        return False
    for h in range(len(steps)):
        clicks, views = closed[item, h, 0], closed[item, h, 1]
        decay = 1.0
        if past < now:  # what happens in a tick is known when it is over
            clicks += np.float32(opened[item, 0])
            views += np.float32(opened[item, 1])
            decay = np.exp2(-steps[h] * (now - past))
        _describe(clicks * decay, views * decay, rate, strength, h, row)
    return True


@_compile
def describe_items(
    items: Any,
    now: Any,
    steps: Any,
    rate: Any,
    strength: Any,
    tick: Any,
    closed: Any,
    opened: Any,
    out: Any,
) -> Any:
    """Fill in the features [K, 2 H] of items [K]; return -1, or the first that cannot be."""
    for k in range(len(items)):
        item = np.int64(items[k])
        if item < 0 or item >= len(tick):
            return np.int64(k)
        if not describe_item(item, now, steps, rate, strength, tick, closed, opened, out[k]):
            return np.int64(k)
    return np.int64(-1)


@_compile
def stream(
    order: Any,
    ticks: Any,
    begins: Any,
    clicks: Any,
    slate_offsets: Any,
    slate_items: Any,
    places: Any,
    steps: Any,
    rate: Any,
    strength: Any,
    tick: Any,
    closed: Any,
    opened: Any,
    out: Any,
) -> Any:
    """Go through interactions in time order: describe the cells of each, then count its events.

    Those with `places` >= 0 are described, from that row of `out` [·, 2 H] on. Returns -1, or the
    first bad interaction.
    """
    for m in range(len(order)):
        n = order[m]
        now, start, end = ticks[n], slate_offsets[n], slate_offsets[n + 1]
        if clicks[n] >= end - start:
            return n
        for j in range(start, end):
            item = np.int64(slate_items[j])
            if item < 0 or item >= len(tick):
                return n
            if places[n] >= 0:
                row = out[places[n] + j - start]
                describe_item(item, now, steps, rate, strength, tick, closed, opened, row)
        for j in range(start, end):
            click = np.int64(j - start == clicks[n])
            if begins[n] or click:
                view = np.int64(begins[n])
                item = np.int64(slate_items[j])
                _add(item, now, click, view, steps, tick, closed, opened)
    return np.int64(-1)


@_compile
def count_rows(
    order: Any, ticks: Any, slate_offsets: Any, slate_items: Any, tick: Any, counts: Any
) -> Any:
    """Count the ticks with events of each item [I]; return -1, or the first bad interaction."""
    for m in range(len(order)):
        n = order[m]
        for j in range(slate_offsets[n], slate_offsets[n + 1]):
            item = np.int64(slate_items[j])
            if item < 0 or item >= len(tick):
                return n
            if tick[item] != ticks[n]:
                tick[item] = ticks[n]
                counts[item] += 1
    return np.int64(-1)


@_compile
def fill_rows(
    order: Any,
    ticks: Any,
    begins: Any,
    clicks: Any,
    slate_offsets: Any,
    slate_items: Any,
    steps: Any,
    tick: Any,
    closed: Any,
    opened: Any,
    ends: Any,
    row_ticks: Any,
    row_sums: Any,
) -> None:
    """Write a row for every item and tick with events: the tick and the sums [H, 2] after it.

    `ends` [I] begins as where the rows of each item begin, and moves to where they end.
    """
    for m in range(len(order)):
        n = order[m]
        start = slate_offsets[n]
        for j in range(start, slate_offsets[n + 1]):
            item, click = np.int64(slate_items[j]), np.int64(j - start == clicks[n])
            if tick[item] != ticks[n]:
                ends[item] += 1
            _add(item, ticks[n], click, np.int64(begins[n]), steps, tick, closed, opened)
            row = ends[item] - 1
            row_ticks[row] = ticks[n]
            for h in range(len(steps)):
                for e in range(2):
                    row_sums[row, h, e] = closed[item, h, e] + np.float32(opened[item, e])


@_compile
def look_up(
    ticks: Any,
    slate_offsets: Any,
    slate_items: Any,
    starts: Any,
    row_ticks: Any,
    row_sums: Any,
    steps: Any,
    rate: Any,
    strength: Any,
    out: Any,
) -> Any:
    """Fill in the features [F, 2 H] of cells from an index; return -1, or the first bad slate."""
    for n in range(len(slate_offsets) - 1):
        now = ticks[n]
        for j in range(slate_offsets[n], slate_offsets[n + 1]):
            item = np.int64(slate_items[j])
            if item < 0 or item >= len(starts) - 1:
                return np.int64(n)
            low, high = starts[item], starts[item + 1]
            while low < high:  # the first row that is not before now
                middle = (low + high) // 2
                if row_ticks[middle] < now:
                    low = middle + 1
                else:
                    high = middle
            known = low > starts[item]
            for h in range(len(steps)):
                clicks, views, decay = np.float32(0), np.float32(0), 1.0
                if known:
                    clicks, views = row_sums[low - 1, h, 0], row_sums[low - 1, h, 1]
                    decay = np.exp2(-steps[h] * (now - row_ticks[low - 1]))
                _describe(clicks * decay, views * decay, rate, strength, h, out[j])
    return np.int64(-1)
