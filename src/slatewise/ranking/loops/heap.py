"""The best so far: a heap with the worst of them on top, within a filter and caps by group."""

from typing import Any

import numpy as np

from slatewise.compiled.compilation import compiled, uncounted


@uncounted
def _worse(score: Any, item: Any, other: Any, other_item: Any) -> Any:
    return score < other or (score == other and item > other_item)


@uncounted
def _sift_down(scores: Any, items: Any, size: Any, index: Any) -> None:
    score, item = scores[index], items[index]
    while 2 * index + 1 < size:
        child = 2 * index + 1
        right = child + 1
        if right < size and _worse(scores[right], items[right], scores[child], items[child]):
            child = right
        if not _worse(scores[child], items[child], score, item):
            break
        scores[index], items[index] = scores[child], items[child]
        index = child
    scores[index], items[index] = score, item


@uncounted
def _sift_up(scores: Any, items: Any, index: Any) -> None:
    score, item = scores[index], items[index]
    while index > 0:
        above = (index - 1) // 2
        if not _worse(score, item, scores[above], items[above]):
            break
        scores[index], items[index] = scores[above], items[above]
        index = above
    scores[index], items[index] = score, item


@uncounted
def _worst_of_group(scores: Any, items: Any, size: Any, groups: Any, group: Any) -> Any:
    worst = np.int64(-1)
    for index in range(size):
        if groups[items[index]] == group and (
            worst < 0 or _worse(scores[index], items[index], scores[worst], items[worst])
        ):
            worst = np.int64(index)
    return worst


@uncounted
def keep(
    scores: Any, items: Any, size: Any, score: Any, item: Any, groups: Any, caps: Any, held: Any
) -> Any:
    """Take an item in if it is among the best within the caps; return the new size.

    The best set within caps is a maximal basis of a matroid (a partition, cut off at a size), so
    that exchanging the worst of the one circuit that the item closes keeps it the best.
    """
    limit, replaced = len(scores), np.int64(-1)
    if len(caps):
        cap = caps[groups[item]]
        if cap == 0:
            return size
        if cap > 0 and held[groups[item]] == cap:
            replaced = _worst_of_group(scores, items, size, groups, groups[item])
    if replaced < 0 and size < limit:
        scores[size], items[size] = score, item
        _sift_up(scores, items, size)
        if len(caps):
            held[groups[item]] += 1
        return size + 1
    replaced = max(replaced, np.int64(0))
    if _worse(scores[replaced], items[replaced], score, item):
        if len(caps):
            held[groups[items[replaced]]] -= 1
            held[groups[item]] += 1
        scores[replaced], items[replaced] = score, item
        _sift_down(scores, items, size, replaced)
    return size


@uncounted
def among(item: Any, numbers: Any) -> Any:
    """Whether an item is one of the numbers [n], which are in order."""
    low, high = 0, len(numbers)
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] < item:
            low = middle + 1
        else:
            high = middle
    return low < len(numbers) and numbers[low] == item


@uncounted
def may(item: Any, num_items: Any, rule: Any) -> Any:
    """Whether the filter lets an item pass; an append under way may show items beyond the end."""
    if item >= num_items or (len(rule.allowed) and not rule.allowed[item]):
        return False
    return not among(item, rule.excluded)


@compiled
def room(columns: Any, num_items: Any, rule: Any, k: Any) -> Any:
    """Count the items that one ranking can hold within filter and caps, up to k."""
    held = np.zeros(len(rule.caps), np.int64)
    found = np.int64(0)
    for item in range(num_items):
        if found == k:
            break
        if columns.offers[item] == -np.inf or not may(item, num_items, rule):
            continue
        if len(rule.caps):
            group = columns.groups[item]
            if rule.caps[group] >= 0 and held[group] >= rule.caps[group]:
                continue
            held[group] += 1
        found += 1
    return found


@compiled
def best_first(scores: Any, items: Any) -> None:
    """Put a heap in order."""
    for size in range(len(scores) - 1, 0, -1):
        scores[0], scores[size] = scores[size], scores[0]
        items[0], items[size] = items[size], items[0]
        _sift_down(scores, items, size, np.int64(0))


@compiled
def best_of(candidates: Any, values: Any, groups: Any, caps: Any, scores: Any, items: Any) -> None:
    """Fill scores and items [k] with the best of candidates [n] by values [n], best first.

    Where fewer fit within the caps, the last positions stay as they are.
    """
    held = np.zeros(len(caps), np.int64)
    size = np.int64(0)  # a plain 0 would be compiled for by itself
    for index in range(len(candidates)):
        item, score = candidates[index], np.float64(values[index])
        if size < len(scores) or score >= scores[0]:
            size = keep(scores, items, size, score, item, groups, caps, held)
    best_first(scores[:size], items[:size])


@uncounted
def lowered(threshold: Any) -> Any:
    """Return a float that is not larger, even where the threshold was rounded up."""
    return np.float32(threshold - abs(threshold) * 2.0**-21)
