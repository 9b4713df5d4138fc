"""The loops of co-clicks that numba compiles: counting pairs of clicks, and looking them up.

No fast arithmetic: the same log gives the same table, to the last bit.
"""

import math
from typing import Any

import numpy as np

from slatewise.compiled.compilation import exact


@exact
def count_partners(offsets: Any, items: Any, window: Any, partners: Any, totals: Any) -> None:
    """Add to `partners` [I] how many clicks on other items stand near the clicks on each.

    And to `totals` [I] what they count, 1 / their distance in clicks.
    """
    for b in range(len(offsets) - 1):
        for here in range(offsets[b], offsets[b + 1]):
            # Each pair once, and counted for both: the table is symmetric but for its totals.
            for near in range(here + 1, min(here + window + 1, offsets[b + 1])):
                if items[near] != items[here]:
                    partners[items[here]] += 1
                    partners[items[near]] += 1
                    totals[items[here]] += 1.0 / (near - here)
                    totals[items[near]] += 1.0 / (near - here)


@exact
def gather_partners(
    offsets: Any,
    items: Any,
    window: Any,
    first: Any,
    end: Any,
    ends: Any,
    partners: Any,
    weights: Any,
) -> None:
    """Write the partners of items `first` … `end`, each with 1 / its distance in clicks.

    `ends` [end − first] says where those of each item begin, and afterwards where they end.
    """
    for b in range(len(offsets) - 1):
        for here in range(offsets[b], offsets[b + 1]):
            item = items[here]
            if item < first or item >= end:
                continue
            start = max(here - window, offsets[b])
            for near in range(start, min(here + window + 1, offsets[b + 1])):
                if items[near] != item:
                    partners[ends[item - first]] = items[near]
                    weights[ends[item - first]] = 1.0 / abs(near - here)
                    ends[item - first] += 1


@exact
def add_up(starts: Any, partners: Any, weights: Any, totals: Any, most: Any, kept: Any) -> None:
    """Add up equal partners of each item, and keep the `most` of greatest likeness, in place.

    Those of item n are moved to `starts[n]` …, ascending; `kept` [n] is how many. `totals` [I] are
    the weights of all partners of every item.
    """
    # Both sorts are stable: of partners with equal likeness the lower item stays, everywhere.
    for n in range(len(starts) - 1):
        start, end = starts[n], starts[n + 1]
        order = np.argsort(partners[start:end], kind="mergesort")
        found = np.empty(end - start, partners.dtype)
        sums = np.zeros(end - start, np.float64)
        count = 0
        for index in order:
            partner = partners[start + index]
            if count == 0 or found[count - 1] != partner:
                found[count] = partner
                count += 1
            sums[count - 1] += weights[start + index]
        chosen = np.arange(count)
        if count > most:
            likeness = sums[:count] / np.sqrt(totals[found[:count]])
            chosen = np.sort(np.argsort(-likeness, kind="mergesort")[:most])
        for index in range(len(chosen)):
            partners[start + index] = found[chosen[index]]
            weights[start + index] = sums[chosen[index]]
        kept[n] = len(chosen)


@exact
def _share(item: Any, clicked: Any, starts: Any, neighbours: Any, shares: Any) -> Any:
    """Return the share of an item after a click on another, 0 if it is no neighbour."""
    if clicked < 0 or clicked >= len(starts) - 1:
        return 0.0
    end = starts[clicked + 1]
    index = starts[clicked] + np.searchsorted(neighbours[starts[clicked] : end], item)
    if index < end and neighbours[index] == item:
        return float(shares[index])
    return 0.0


@exact
def _own(items: Any, item: Any, clicked: Any, window: Any) -> Any:
    """Return what a user's own clicks [C] have added to a pair, and to all of the second."""
    pair, every = 0.0, 0.0
    for here in range(len(items)):
        if items[here] != clicked:
            continue
        for near in range(max(here - window, 0), min(here + window + 1, len(items))):
            if items[near] != clicked:
                every += 1.0 / abs(near - here)
                if items[near] == item:
                    pair += 1.0 / abs(near - here)
    return pair, every


@exact
def features(
    user_offsets: Any,
    begins: Any,
    clicked: Any,
    slate_offsets: Any,
    slate_items: Any,
    counted: Any,
    window: Any,
    starts: Any,
    neighbours: Any,
    shares: Any,
    totals: Any,
    recency: Any,
    by_likeness: Any,
    out: Any,
) -> None:
    """Fill in Σ over recent clicks of recency · share, for every item seen: out [F, P].

    Or of recency · likeness, where `by_likeness` [P] says so. `recency` [R, P] is what the last,
    last but one … click counts. `counted` [B] are how many
    interactions of each user were counted into the shares: in these, her own clicks count for
    nothing.
    """
    longest = 0
    for b in range(len(user_offsets) - 1):
        longest = max(longest, user_offsets[b + 1] - user_offsets[b])
    past = np.empty(longest, np.int64)
    for b in range(len(user_offsets) - 1):
        first, end = user_offsets[b], user_offsets[b + 1]
        own_end = min(first + counted[b], end)
        own = clicked[first:own_end][clicked[first:own_end] >= 0]
        known = pending = 0
        for n in range(first, end):
            # Further clicks on a slate know no more than the first: all were made of one slate.
            if begins[n]:
                known = pending
            for cell in range(slate_offsets[n], slate_offsets[n + 1]):
                item = slate_items[cell]
                for column in range(out.shape[1]):
                    out[cell, column] = 0.0
                for ago in range(min(len(recency), known)):
                    before = past[known - 1 - ago]
                    share = _share(item, before, starts, neighbours, shares)
                    if share == 0:
                        continue
                    total, of_item = float(totals[before]), float(totals[item])
                    # In training her clicks are in the table, also those that are predicted: what
                    # she added to it is taken out, as if only others had been counted.
                    if n < own_end:
                        pair, every = _own(own, item, before, window)
                        share = max(share * total - pair, 0.0)
                        total -= every
                        of_item -= _own(own, before, item, window)[1]
                        share = share / total if total > 0 else 0.0
                    likeness = share * math.sqrt(total / of_item) if of_item > 0 else 0.0
                    for column in range(out.shape[1]):
                        value = likeness if by_likeness[column] else share
                        out[cell, column] += recency[ago, column] * value
            if clicked[n] >= 0:
                past[pending] = clicked[n]
                pending += 1
