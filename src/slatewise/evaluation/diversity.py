"""How varied slates are: within each slate, and over the catalogue.

Slates are item numbers [B, k]; −1 stands for an empty position. B slates, k positions, I items,
G groups, D dimensions.
"""

from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from slatewise.data.ragged import Int64Array
from slatewise.errors import SlatewiseError
from slatewise.evaluation.rows import Bools, Floats, Integers

_CELLS: Final = 1 << 22
"""Numbers held at once while distances are taken."""


@dataclass(frozen=True)
class Diversity:
    """The measures of a set of slates."""

    distinct_groups: float
    """Mean number of groups in a slate."""
    intra_list_distance: float
    """Mean over slates of the mean distance of two of its items; slates of one item left out."""
    coverage: float
    """Share of the catalogue that was shown at least once."""
    gini: float
    """Inequality of exposure: 0 if all items are shown alike, near 1 if few have all of it."""
    little_seen: float
    """Share of the positions that went to items of few earlier views."""

    @classmethod
    def of(
        cls,
        slates: Integers,
        groups: Integers,
        vectors: npt.NDArray[np.floating[Any]],
        views: Integers,
        *,
        below: int | None = None,
    ) -> Self:
        """Measure slates [B, k] of a catalogue with groups [I], vectors [I, D] and views [I].

        Vectors are what distance is taken of (a model's item means, say); views were counted before
        the slates were made, and fewer than `below` are few (see `little_seen`). A measure that
        nothing is known of is nan.
        """
        shown = exposure(slates, len(groups))
        return cls(
            distinct_groups=_mean(distinct_groups(slates, groups).astype(np.float64)),
            intra_list_distance=_mean(intra_list_distance(slates, vectors)),
            coverage=coverage(shown),
            gini=gini(shown),
            little_seen=exposure_share(shown, little_seen(views, below)),
        )


def distinct_groups(slates: Integers, groups: Integers) -> Int64Array:
    """Count the groups of each slate [B, k], given those of all items [I]: [B]."""
    _check(slates, len(groups))
    of = np.sort(np.where(slates >= 0, groups[slates], -1), axis=1)  # [B, k]
    fresh = np.ones(of.shape, dtype=np.bool_)
    fresh[:, 1:] = of[:, 1:] != of[:, :-1]
    return np.asarray((fresh & (of >= 0)).sum(axis=1))


def intra_list_distance(slates: Integers, vectors: npt.NDArray[np.floating[Any]]) -> Floats:
    """Mean Euclidean distance of two items of each slate [B, k], given vectors [I, D]: [B].

    nan for a slate of fewer than two items.
    """
    _check(slates, len(vectors))
    rows = max(1, _CELLS // max(1, slates.shape[1] * vectors.shape[1]))
    parts = [
        _mean_distances(slates[start : start + rows], vectors)
        for start in range(0, len(slates), rows)
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def _mean_distances(slates: Integers, vectors: npt.NDArray[np.floating[Any]]) -> Floats:
    points = vectors[slates].astype(np.float64)  # [B, k, D]
    filled = slates >= 0
    total, pairs = np.zeros(len(slates)), np.zeros(len(slates))
    for apart in range(1, slates.shape[1]):  # all pairs of positions, without a [B, k, k] table
        distance = np.linalg.norm(points[:, apart:] - points[:, :-apart], axis=2)
        both = filled[:, apart:] & filled[:, :-apart]
        total += (distance * both).sum(axis=1)
        pairs += both.sum(axis=1)
    out = np.full(len(slates), np.nan)
    out[pairs > 0] = total[pairs > 0] / pairs[pairs > 0]
    return out


def exposure(slates: Integers, items: int) -> Int64Array:
    """Count how often each of the I items is in the slates [B, k]: [I].

    Counts of several batches may be added.
    """
    _check(slates, items)
    return np.bincount(slates[slates >= 0], minlength=items)


def coverage(shown: Integers) -> float:
    """Share of items that were shown at all, from their counts [I]."""
    return _mean((shown > 0).astype(np.float64))


def gini(shown: Integers) -> float:
    """Gini coefficient of exposure [I]: mean difference of two items / twice the mean.

    nan if nothing was shown.
    """
    ordered, n = np.sort(shown).astype(np.float64), len(shown)
    total = ordered.sum()
    weight = 2 * np.arange(1, n + 1) - n - 1  # [I], how many items are below less how many above
    return float(weight @ ordered / (n * total)) if total > 0 else float("nan")


def little_seen(views: Integers, below: int | None = None) -> Bools:
    """Mark the items with fewer than `below` views [I]: [I].

    Without a number, the least seen quarter of the catalogue, and all that were seen as often.
    """
    if below is None and len(views):
        below = int(np.quantile(views, 0.25, method="inverted_cdf")) + 1
    return np.asarray(views < (below or 0))


def exposure_share(shown: Integers, items: Bools) -> float:
    """Share of all exposure [I] that the marked items [I] had; nan if nothing was shown."""
    total = shown.sum()
    return float(shown[items].sum() / total) if total else float("nan")


def _mean(values: Floats) -> float:
    """Mean of the values that are defined, nan if there is none."""
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else float("nan")


def _check(slates: Integers, items: int) -> None:
    if slates.size and (slates.min() < -1 or slates.max() >= items):
        raise SlatewiseError(
            f"The slates hold items outside 0..{items - 1}.",
            "Number the items as groups, vectors and views do; −1 stands for an empty position.",
        )
