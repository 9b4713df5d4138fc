"""The loops of baselines that count, compiled by numba: over training users, and over followers.

The followers of an item are the items clicked right after it: its `keys`, earlier item * I + later
item, stand from `starts[item]` to the next, ascending, with their `counts`.
"""

from typing import Any

import numpy as np

from slatewise.compiled.compilation import exact


@exact
def count_users(
    users: Any,
    user_offsets: Any,
    train_end: Any,
    begins: Any,
    clicks: Any,
    slate_offsets: Any,
    slate_items: Any,
    item_clicks: Any,
    item_views: Any,
    keys: Any,
) -> Any:
    """Add the training clicks and views [I] of users, and write the keys of successions.

    Returns how many keys there are; there must be room for one a click.
    """
    count, items = np.int64(0), np.int64(len(item_clicks))
    for m in range(len(users)):
        user = users[m]
        last = np.int64(-1)
        for n in range(
            user_offsets[user], min(user_offsets[user] + train_end[user], user_offsets[user + 1])
        ):
            start = slate_offsets[n]
            if begins[n]:
                for j in range(start, slate_offsets[n + 1]):
                    item_views[slate_items[j]] += 1
            if clicks[n] >= 0:
                item = np.int64(slate_items[start + clicks[n]])
                item_clicks[item] += 1
                if last >= 0:
                    keys[count] = last * items + item
                    count += 1
                last = item
    return count


@exact
def successions(last: Any, items: Any, starts: Any, keys: Any, counts: Any, out: Any) -> None:
    """Look up how often each of items [K] followed that of `last` [K], 0 where that is -1: [K]."""
    for k in range(len(items)):
        out[k] = 0
        if last[k] < 0:
            continue
        key = last[k] * np.int64(len(starts) - 1) + items[k]
        low, high = starts[last[k]], starts[last[k] + 1]
        end = high
        while low < high:
            middle = (low + high) // 2
            if keys[middle] < key:
                low = middle + 1
            else:
                high = middle
        if low < end and keys[low] == key:
            out[k] = counts[low]


@exact
def followers_before(
    last: Any,
    targets: Any,
    own: Any,
    ahead: Any,
    starts: Any,
    keys: Any,
    counts: Any,
    prior: Any,
    rank_of: Any,
    out: Any,
) -> None:
    """Count how followers of `last` [M] change the rank of targets [M] with scores `own`: [M].

    Those before the target by their own score, less those among the `ahead` [M] first by the prior.
    """
    for m in range(len(targets)):
        out[m] = 0
        if last[m] < 0:
            continue
        first = last[m] * np.int64(len(starts) - 1)
        rank = rank_of[targets[m]]
        for p in range(starts[last[m]], starts[last[m] + 1]):
            item = keys[p] - first
            score = counts[p] + prior[item]
            if score > own[m] or (score == own[m] and rank_of[item] < rank):
                out[m] += 1
            if rank_of[item] < ahead[m]:
                out[m] -= 1


@exact
def best_after(
    last: Any,
    best: Any,
    allowed: Any,
    starts: Any,
    keys: Any,
    counts: Any,
    prior: Any,
    rank_of: Any,
    out: Any,
) -> None:
    """Find the k items of greatest score after each of `last` [B]: [B, k], best first.

    Only followers that are `allowed` [I] and the k `best` of all by the prior can be among them.
    """
    k = len(best)
    scores = np.empty(k)
    for b in range(len(last)):
        row = out[b]
        for j in range(k):
            row[j] = best[j]
            scores[j] = prior[best[j]]
        if last[b] < 0:
            continue
        first = last[b] * np.int64(len(starts) - 1)
        for p in range(starts[last[b]], starts[last[b] + 1]):
            item = keys[p] - first
            score = counts[p] + prior[item]
            if not allowed[item] or score < scores[k - 1]:
                continue
            # What is among them already moves up; anything else takes the place of the last.
            place = k - 1
            for j in range(k):
                if row[j] == item:
                    place = j
            if row[place] != item and not (
                score > scores[place] or rank_of[item] < rank_of[row[place]]
            ):
                continue
            while place > 0 and (
                score > scores[place - 1]
                or (score == scores[place - 1] and rank_of[item] < rank_of[row[place - 1]])
            ):
                row[place], scores[place] = row[place - 1], scores[place - 1]
                place -= 1
            row[place], scores[place] = item, score
