"""Hidden units of the items of slates, pooled over each slate, and their gradients.

Shapes as in `kernels.pooled`: N slates, F items of all of them, G groups, U units.
"""

from typing import Any

import numpy as np

from slatewise.compiled.compilation import reordered

_ZERO, _ONE = np.float32(0), np.float32(1)


@reordered
def pool(
    items: Any,
    slates: Any,
    groups: Any,
    of_group: Any,
    offsets: Any,
    units: Any,
    greatest: Any,
    mean: Any,
) -> None:
    """Fill in units [F, U], sums of items, slates and groups, and pool them [N, U]."""
    for n in range(len(slates)):
        greatest[n, :] = _ZERO
        mean[n, :] = _ZERO
        for cell in range(offsets[n], offsets[n + 1]):
            group = of_group[cell]
            for u in range(slates.shape[1]):
                value = items[cell, u] + slates[n, u] + groups[group, u]
                value = value if value > _ZERO else _ZERO
                units[cell, u] = value
                mean[n, u] += value
                greatest[n, u] = value if value > greatest[n, u] else greatest[n, u]
        share = _ONE / np.float32(max(np.int64(1), offsets[n + 1] - offsets[n]))
        for u in range(slates.shape[1]):
            mean[n, u] *= share


@reordered
def pool_back(
    units: Any,
    greatest: Any,
    of_group: Any,
    offsets: Any,
    unit_slopes: Any,
    greatest_slopes: Any,
    mean_slopes: Any,
    of_items: Any,
    of_slates: Any,
    of_groups: Any,
) -> None:
    """Fill the gradients of items [F, U], and add to those of slates [N, U] and groups [G, U].

    `greatest_slopes` [N, U] are used up: of equal units the first is the greatest.
    """
    for n in range(len(greatest)):
        share = _ONE / np.float32(max(np.int64(1), offsets[n + 1] - offsets[n]))
        for cell in range(offsets[n], offsets[n + 1]):
            group = of_group[cell]
            for u in range(units.shape[1]):
                is_greatest = units[cell, u] == greatest[n, u]
                slope = unit_slopes[cell, u] + share * mean_slopes[n, u]
                slope += greatest_slopes[n, u] if is_greatest else _ZERO
                greatest_slopes[n, u] = _ZERO if is_greatest else greatest_slopes[n, u]
                slope = slope if units[cell, u] > _ZERO else _ZERO
                of_items[cell, u] = slope
                of_slates[n, u] += slope
                of_groups[group, u] += slope


@reordered
def spread(items: Any, slates: Any, offsets: Any, units: Any) -> None:
    """Fill units [F, U] with what items and their slates add up to."""
    for n in range(len(slates)):
        for cell in range(offsets[n], offsets[n + 1]):
            for u in range(slates.shape[1]):
                value = items[cell, u] + slates[n, u]
                units[cell, u] = value if value > _ZERO else _ZERO


@reordered
def spread_back(units: Any, slopes: Any, offsets: Any, of_items: Any, of_slates: Any) -> None:
    """Fill the gradients of items [F, U], and add to those of slates [N, U]."""
    for n in range(len(of_slates)):
        for cell in range(offsets[n], offsets[n + 1]):
            for u in range(units.shape[1]):
                slope = slopes[cell, u] if units[cell, u] > _ZERO else _ZERO
                of_items[cell, u] = slope
                of_slates[n, u] += slope
