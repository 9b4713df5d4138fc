"""The loops over users that numba compiles: counts, history, propensity.

No fast arithmetic: serving and training must agree to the last bit.
"""

import math
from typing import Any

import numpy as np

from slatewise.compiled.compilation import exact

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio: multiplied by it, neighbouring numbers end up far apart."""


# Counts.


@exact
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


@exact
def _largest(user_offsets: Any, slate_offsets: Any) -> Any:
    """Return the most cells of a user and the longest slate."""
    most, longest = np.int64(1), np.int64(0)
    for b in range(len(user_offsets) - 1):
        cells = slate_offsets[user_offsets[b + 1]] - slate_offsets[user_offsets[b]]
        most = max(most, cells)
    for n in range(len(slate_offsets) - 1):
        longest = max(longest, slate_offsets[n + 1] - slate_offsets[n])
    return most, longest


@exact
def _bits_for(cells: Any) -> Any:
    """Return the bits of a hash table that `cells` fill at most by half."""
    bits = np.int64(1)
    while (np.int64(1) << bits) < 2 * cells:
        bits += 1
    return bits


@exact
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


@exact
def propensity_value(count: Any, clicks: Any, expected: Any, rate: Any, strength: Any) -> Any:
    """Return the log-odds of a user's clicks less those of an average user in the same slates."""
    if count == 0:
        return 0.0
    yes, no = strength * rate, strength * (1.0 - rate)
    own = math.log(clicks + yes) - math.log(count - clicks + no)
    return own - (math.log(expected + yes) - math.log(count - expected + no))


@exact
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
    """Fill in the propensity [N] before each showing."""
    for b in range(len(user_offsets) - 1):
        count, clicked, expected, value = np.int64(0), np.int64(0), 0.0, 0.0
        for n in range(user_offsets[b], user_offsets[b + 1]):
            if begins[n]:
                value = propensity_value(count, clicked, expected, rate, strength)
            out[n] = value
            count += 1
            clicked += clicks[n] >= 0
            expected += rates[sources[n]]
