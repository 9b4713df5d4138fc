"""The loop over users behind `past`: what passed between a user, an item and its group before.

See `_numba` for the rules. Shapes: N interactions, F items seen, K pairs of a user and an item, L
pairs of a user and a group.
"""

import math
from typing import Any

import numpy as np

from slatewise.compiled.compilation import exact

SLATES = 1_000.0
"""Slates after which what a user did is forgotten."""
MINUTES = 28 * 24 * 60.0
"""The same in minutes."""
SESSION = 30 * 60_000_000
"""Microseconds without a slate after which another session begins."""
STRENGTH = 5.0
"""Views that the prior of a user's click rate in a group is worth, and slates that of her own."""


@exact
def _recency(passed: Any, longest: Any) -> Any:
    """Return log((1 + longest) / (1 + passed)): greatest just now, 0 once it is forgotten.

    A user's rows whose times are not known have the time 0: nothing passed between them.
    """
    return math.log((1.0 + longest) / (1.0 + max(0.0, min(passed, longest))))


# The state of a user: whole numbers, and sums.
SLATES_SEEN, CLICKS, LAST_PAIR, LAST_KIND, CLICK_IN, SEEN_AT, CLICK_AT, IN_SESSION = range(8)
EXPECTED, FAST, MIDDLE, SLOW = range(4)


@exact
def _count(time: Any, rate: Any, click: Any, view: Any, cells: Any, state: Any) -> None:
    """Take an interaction into account: its slate, if it is seen for the first time, and its click.

    `cells` are the pairs of the user with the items of the slate, and with their groups.
    """
    whole, sums, shown, clicked, kind_shown, kind_clicked = state
    pairs, kinds = cells
    if view:
        if time - whole[SEEN_AT] > SESSION:
            whole[IN_SESSION] = 0
        whole[SLATES_SEEN] += 1
        whole[IN_SESSION] += 1
        whole[SEEN_AT] = time
        sums[EXPECTED] += rate
        for j in range(len(pairs)):
            shown[pairs[j], 0] += 1
            shown[pairs[j], 1], shown[pairs[j], 2] = whole[SLATES_SEEN], time
            kind_shown[kinds[j]] += 1
    surprise = -rate
    if click >= 0:
        surprise += 1.0
        pair, kind = pairs[click], kinds[click]
        whole[CLICKS] += 1
        whole[LAST_PAIR], whole[LAST_KIND] = pair, kind
        whole[CLICK_IN], whole[CLICK_AT] = whole[SLATES_SEEN], time
        clicked[pair, 0] += 1
        clicked[pair, 1], clicked[pair, 2] = whole[SLATES_SEEN], time
        kind_clicked[kind, 0] += 1
        kind_clicked[kind, 1] = whole[SLATES_SEEN]
    sums[FAST] = 0.5 * sums[FAST] + 0.5 * surprise
    sums[MIDDLE] = 0.8 * sums[MIDDLE] + 0.2 * surprise
    sums[SLOW] = 0.95 * sums[SLOW] + 0.05 * surprise


@exact
def _describe_slate(time: Any, length: Any, rate: Any, state: Any, row: Any) -> None:
    """Fill in what the user did before a slate, and its length: [11]."""
    whole, sums, _, _, _, _ = state
    slates, clicks = whole[SLATES_SEEN], whole[CLICKS]
    row[:] = 0.0
    row[0], row[1] = math.log1p(slates), math.log1p(clicks)
    row[2] = math.log((clicks + STRENGTH * rate) / (sums[EXPECTED] + STRENGTH * rate))
    row[3], row[4], row[5] = sums[FAST], sums[MIDDLE], sums[SLOW]
    if clicks > 0:
        row[6] = _recency(slates - whole[CLICK_IN], SLATES)
        row[8] = _recency((time - whole[CLICK_AT]) / 6e7, MINUTES)
    if slates > 0:
        row[7] = _recency((time - whole[SEEN_AT]) / 6e7, MINUTES)
        if time - whole[SEEN_AT] <= SESSION:
            row[9] = math.log1p(whole[IN_SESSION])
    row[10] = math.log(max(length, 1))


@exact
def _describe_item(time: Any, pair: Any, kind: Any, state: Any, row: Any) -> None:
    """Fill in what passed before between the user and an item, or its group: [12]."""
    whole, _, shown, clicked, kind_shown, kind_clicked = state
    slates, clicks = whole[SLATES_SEEN], whole[CLICKS]
    row[:] = 0.0
    if shown[pair, 0] > 0:
        row[0], row[1] = math.log1p(clicked[pair, 0]), math.log1p(shown[pair, 0])
        row[2] = _recency(slates - shown[pair, 1], SLATES)
        row[3] = _recency((time - shown[pair, 2]) / 6e7, MINUTES)
    if clicked[pair, 0] > 0:
        row[4] = _recency(slates - clicked[pair, 1], SLATES)
        row[5] = _recency((time - clicked[pair, 2]) / 6e7, MINUTES)
        row[6] = pair == whole[LAST_PAIR]
    row[7], row[8] = math.log1p(kind_clicked[kind, 0]), math.log1p(kind_shown[kind])
    # Beside how often she clicks at all: in a group that she never saw, as often as elsewhere.
    usual = (clicks + 1.0) / (clicks + slates + 2.0)
    rate = (kind_clicked[kind, 0] + STRENGTH * usual) / (kind_shown[kind] + STRENGTH)
    row[9] = math.log(rate / usual)
    if kind_clicked[kind, 0] > 0:
        row[10] = _recency(slates - kind_clicked[kind, 1], SLATES)
        row[11] = kind == whole[LAST_KIND]


@exact
def past(
    user_offsets: Any,
    times: Any,
    sources: Any,
    clicks: Any,
    begins: Any,
    slate_offsets: Any,
    pairs: Any,
    kinds: Any,
    counts: Any,
    rates: Any,
    rate: Any,
    cells: Any,
    steps: Any,
) -> Any:
    """Fill in the features [F, 12] of items seen and [N, 11] of interactions.

    `pairs` [F] and `kinds` [F] number the pairs of user and item, and of user and group, of which
    there are `counts`. The past of a slate are the user's interactions before it in the order of
    the log, also at an equal time; those on the same slate (`begins`) share its past. Returns -1,
    or the first bad interaction.
    """
    shown, clicked = np.zeros((counts[0], 3), np.int64), np.zeros((counts[0], 3), np.int64)
    kind_shown, kind_clicked = np.zeros(counts[1], np.int64), np.zeros((counts[1], 2), np.int64)
    whole, sums = np.zeros(8, np.int64), np.zeros(4)
    state = (whole, sums, shown, clicked, kind_shown, kind_clicked)
    for n in range(len(times)):
        if sources[n] >= len(rates) or clicks[n] >= slate_offsets[n + 1] - slate_offsets[n]:
            return np.int64(n)
    for b in range(len(user_offsets) - 1):
        whole[:], sums[:] = 0, 0.0
        done = user_offsets[b]  # interactions before it are taken into account
        first = done  # where the slate of n begins
        for n in range(user_offsets[b], user_offsets[b + 1]):
            first = n if begins[n] else first
            while done < first:
                start, end = slate_offsets[done], slate_offsets[done + 1]
                own = (pairs[start:end], kinds[start:end])
                _count(times[done], rates[sources[done]], clicks[done], begins[done], own, state)
                done += 1
            start, end = slate_offsets[n], slate_offsets[n + 1]
            _describe_slate(times[n], end - start, rate, state, steps[n])
            for j in range(start, end):
                _describe_item(times[n], pairs[j], kinds[j], state, cells[j])
    return np.int64(-1)


@exact
def past_of_last(
    times: Any,
    sources: Any,
    clicks: Any,
    begins: Any,
    slate_offsets: Any,
    pairs: Any,
    kinds: Any,
    counts: Any,
    rates: Any,
    rate: Any,
    cells: Any,
    step: Any,
) -> Any:
    """Fill in what `past` has for the last interaction of one user, later than all others.

    For its K items, [K, 12], and itself, [11]: a ranking asks about one slate after a past of any
    length, which is counted here and not described. Returns -1, or the first bad interaction.
    """
    shown, clicked = np.zeros((counts[0], 3), np.int64), np.zeros((counts[0], 3), np.int64)
    kind_shown, kind_clicked = np.zeros(counts[1], np.int64), np.zeros((counts[1], 2), np.int64)
    whole, sums = np.zeros(8, np.int64), np.zeros(4)
    state = (whole, sums, shown, clicked, kind_shown, kind_clicked)
    last = len(times) - 1
    for n in range(last + 1):
        start, end = slate_offsets[n], slate_offsets[n + 1]
        if sources[n] >= len(rates) or clicks[n] >= end - start:
            return np.int64(n)
        if n < last:
            own = (pairs[start:end], kinds[start:end])
            _count(times[n], rates[sources[n]], clicks[n], begins[n], own, state)
    start, end = slate_offsets[last], slate_offsets[last + 1]
    _describe_slate(times[last], end - start, rate, state, step)
    for j in range(start, end):
        _describe_item(times[last], pairs[j], kinds[j], state, cells[j - start])
    return np.int64(-1)
