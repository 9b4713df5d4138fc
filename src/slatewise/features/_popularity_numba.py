"""The loops over a log in time order that numba compiles: popularity; see `_numba` for the rules.

Of each item they keep the ticks of its `first` and of its latest event; the decayed sums `closed`
[H, 3] of clicks, views and expected clicks at the latest, of earlier ticks only; the counts
`opened` [3] in it: all four are `sums`. `numbers` are half-lives per tick [H], hours of a tick, and
rates [2] and strengths [2] of the click rate and the click lift. H half-lives.
"""

import math
from typing import Any

import numpy as np

from slatewise.compiled.compilation import exact

NEVER = -(2**62)
"""The tick of an item without events; far enough back to weigh nothing, near enough to subtract."""
NOT_YET = 2**62
"""The first tick of an item without events."""
OLDEST = 28 * 24.0
"""Hours after which an item is as old as any."""


@exact
def _add(item: Any, now: Any, click: Any, view: Any, share: Any, steps: Any, sums: Any) -> None:
    """Count one event at tick `now`, of which `share` of a click is expected.

    Steps [H] are half-lives per tick.
    """
    first, tick, closed, opened = sums
    first[item] = min(first[item], now)
    past = tick[item]
    if past < now:
        for h in range(len(steps)):
            decay = np.exp2(-steps[h] * (now - past))
            for e in range(3):
                closed[item, h, e] = (closed[item, h, e] + np.float32(opened[item, e])) * decay
        opened[item] = 0
        tick[item] = now
    if past <= now:
        opened[item, 0] += click
        opened[item, 1] += view
        opened[item, 2] += share
        return
    for h in range(len(steps)):  # a late event
        weight = np.exp2(-steps[h] * (past - now))
        closed[item, h, 0] += click * weight
        closed[item, h, 1] += view * weight
        closed[item, h, 2] += share * weight


@exact
def _describe(clicks: Any, views: Any, expected: Any, numbers: Any, h: Any, row: Any) -> None:
    """Fill in the four features of a half-life from its decayed sums."""
    _, _, rates, strengths = numbers
    # As `closed` would hold them: the next event must not show in the last bit.
    clicks, views = np.float64(np.float32(clicks)), np.float64(np.float32(views))
    expected = np.float64(np.float32(expected))
    row[4 * h] = math.log((clicks / rates[0] + strengths[0]) / (views + strengths[0]))
    row[4 * h + 1] = math.log1p(clicks)
    row[4 * h + 2] = math.log((clicks / rates[1] + strengths[1]) / (expected + strengths[1]))
    row[4 * h + 3] = math.log1p(views)


@exact
def _age(first: Any, now: Any, hours: Any) -> Any:
    """Return the logarithm of an item's age, of `hours` a tick; 0 before its first event."""
    return math.log1p(min(hours * max(now - first, 0), OLDEST))


@exact
def describe_item(item: Any, now: Any, numbers: Any, sums: Any, row: Any) -> Any:
    """Fill in the features [4 H + 1] of an item at tick `now`; False if `now` lies too far back."""
    steps, hours, _, _ = numbers
    first, tick, closed, opened = sums
    past = tick[item]
    if past > now:
        return False
    for h in range(len(steps)):
        clicks, views, expected = closed[item, h, 0], closed[item, h, 1], closed[item, h, 2]
        decay = 1.0
        if past < now:  # what happens in a tick is known when it is over
            clicks += np.float32(opened[item, 0])
            views += np.float32(opened[item, 1])
            expected += np.float32(opened[item, 2])
            decay = np.exp2(-steps[h] * (now - past))
        _describe(clicks * decay, views * decay, expected * decay, numbers, h, row)
    row[4 * len(steps)] = _age(first[item], now, hours)
    return True


@exact
def describe_items(items: Any, now: Any, numbers: Any, sums: Any, out: Any) -> Any:
    """Fill in the features [K, 4 H + 1] of items [K]; return -1, or the first that cannot be."""
    for k in range(len(items)):
        item = np.int64(items[k])
        if item < 0 or item >= len(sums[0]):
            return np.int64(k)
        if not describe_item(item, now, numbers, sums, out[k]):
            return np.int64(k)
    return np.int64(-1)


@exact
def stream(
    order: Any,
    ticks: Any,
    begins: Any,
    shares: Any,
    clicks: Any,
    slate_offsets: Any,
    slate_items: Any,
    rows: Any,
    numbers: Any,
    sums: Any,
    out: Any,
) -> Any:
    """Go through interactions in time order: describe the cells of each, then count its events.

    Of each of its items `shares` [N] of a click is expected. Those with `rows` >= 0 are
    described, from that row of `out` [·, 4 H + 1] on. Returns -1, or the first bad interaction.
    """
    for m in range(len(order)):
        n = order[m]
        now, start, end = ticks[n], slate_offsets[n], slate_offsets[n + 1]
        if clicks[n] >= end - start:
            return n
        for j in range(start, end):
            item = np.int64(slate_items[j])
            if item < 0 or item >= len(sums[0]):
                return n
            if rows[n] >= 0:
                describe_item(item, now, numbers, sums, out[rows[n] + j - start])
        for j in range(start, end):
            click = np.int64(j - start == clicks[n])
            if begins[n] or click or shares[n]:
                view = np.int64(begins[n])
                item = np.int64(slate_items[j])
                _add(item, now, click, view, shares[n], numbers[0], sums)
    return np.int64(-1)


@exact
def _move_on(closed: Any, row: Any, row_ticks: Any, row_counts: Any, steps: Any) -> None:
    """Take the sums [H, 3] before the tick of a row to those before the tick of the next."""
    for h in range(len(steps)):
        decay = np.exp2(-steps[h] * (row_ticks[row + 1] - row_ticks[row]))
        for e in range(3):
            closed[h, e] = (closed[h, e] + row_counts[row, e]) * decay


@exact
def write_checkpoints(
    first: Any,
    end: Any,
    every: Any,
    starts: Any,
    row_ticks: Any,
    row_counts: Any,
    steps: Any,
    marks: Any,
    sums: Any,
) -> None:
    """Write the sums [H, 3] at the checkpoints of the items from `first` to `end`.

    Those of an item begin at its `marks` [I + 1]: before its first row there is nothing to write.
    """
    closed = np.zeros(sums.shape[1:], np.float32)
    for item in range(first, end):
        closed[:] = 0
        mark = marks[item]
        for row in range(starts[item], starts[item] + every * (marks[item + 1] - mark)):
            _move_on(closed, row, row_ticks, row_counts, steps)
            if (row + 1 - starts[item]) % every == 0:
                sums[mark] = closed
                mark += 1


@exact
def look_up(
    order: Any,
    items: Any,
    ticks: Any,
    every: Any,
    starts: Any,
    row_ticks: Any,
    row_counts: Any,
    marks: Any,
    sums: Any,
    numbers: Any,
    out: Any,
) -> None:
    """Fill in the features [K, 4 H + 1] of items [K] at ticks [K], those in `order`.

    Goes on from the checkpoint before, or from where the last one ended if that is nearer: best
    where `order` is by item, then by tick.
    """
    steps, hours, _, _ = numbers
    closed = np.zeros((len(steps), 3), np.float32)
    at, last = np.int64(-1), np.int64(-1)  # `closed` are the sums before row `at` of item `last`
    for m in range(len(order)):
        k = order[m]
        item, now = np.int64(items[k]), ticks[k]
        low, high = starts[item], starts[item + 1]
        while low < high:  # the first row that is not before now
            middle = (low + high) // 2
            if row_ticks[middle] < now:
                low = middle + 1
            else:
                high = middle
        known, row = low > starts[item], low - 1
        if known:
            passed = min((row - starts[item]) // every, marks[item + 1] - marks[item])
            if item != last or at > row or at < starts[item] + every * passed:
                at, last = starts[item] + every * passed, item
                if passed:
                    closed[:] = sums[marks[item] + passed - 1]
                else:
                    closed[:] = 0
            while at < row:
                _move_on(closed, at, row_ticks, row_counts, steps)
                at += 1
        for h in range(len(steps)):
            clicks = views = expected = np.float32(0)
            decay = 1.0
            if known:
                clicks = closed[h, 0] + row_counts[row, 0]
                views = closed[h, 1] + row_counts[row, 1]
                expected = closed[h, 2] + row_counts[row, 2]
                decay = np.exp2(-steps[h] * (now - row_ticks[row]))
            _describe(clicks * decay, views * decay, expected * decay, numbers, h, out[k])
        begun = row_ticks[starts[item]] if known else now
        out[k, 4 * len(steps)] = _age(begun, now, hours)
