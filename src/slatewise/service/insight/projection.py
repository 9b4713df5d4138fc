"""Items and users in two dimensions: the principal components of the items' posterior means."""

from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from slatewise.ranking import ItemTable
from slatewise.service.serving.live import Live

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

SAMPLE: Final = 50_000
"""Items from which the axes are found; more would not turn them visibly."""

_known: WeakKeyDictionary[Live, "Projection"] = WeakKeyDictionary()


@dataclass(frozen=True)
class Projection:
    """A plane through the vectors of items."""

    centre: Floats
    """[D]"""
    axes: Floats
    """[D, 2] orthonormal, as far as there are two dimensions"""
    explained: tuple[float, float]
    """share of the variance of the means along each axis"""

    @classmethod
    def fit(cls, vectors: Floats) -> "Projection":
        """Find the plane in which vectors [n, D] differ most; which way its axes point is fixed."""
        count, dimensions = vectors.shape
        centre = vectors.mean(axis=0, dtype=np.float64) if count else np.zeros(dimensions)
        apart = vectors - centre
        values, found = np.linalg.eigh(apart.T @ apart / max(count, 1))
        axes = np.zeros((dimensions, 2))
        axes[:, : min(dimensions, 2)] = found[:, ::-1][:, :2]
        largest = axes[np.abs(axes).argmax(axis=0), [0, 1]]
        axes *= np.where(largest < 0, -1.0, 1.0)
        total, best = float(values.sum()), [*values[::-1][:2].tolist(), 0.0]
        shares = (best[0] / total, best[1] / total) if total > 0 else (0.0, 0.0)
        return cls(centre.astype(np.float32), axes.astype(np.float32), shares)

    def of(self, vectors: npt.NDArray[np.floating[Any]]) -> Floats:
        """Return where vectors [n, D] are: [n, 2]."""
        return np.asarray((vectors - self.centre) @ self.axes, np.float32)


def projection_of(live: Live) -> Projection:
    """Return the plane of a version, by the items that training knew, or by all before training.

    It is found once: items that come and go do not turn the map.
    """
    known = _known.get(live)
    if known is not None:
        return known
    live.count_views()
    trained = len(live.catalogue.views)
    rows = sample(np.arange(trained or live.table.num_items), SAMPLE)
    found = Projection.fit(live.table.means_of(rows))
    if trained:
        _known[live] = found
    return found


def sample(rows: Ints, most: int) -> Ints:
    """Return up to `most` of the rows [n], each with the same chance, the same every time."""
    if len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng(0).choice(rows, most, replace=False))


def scales_of(table: ItemTable, rows: Ints) -> Floats:
    """Return the posterior standard deviation of items [n], the root mean square of D: [n]."""
    return np.asarray(np.sqrt(table.variances_of(rows) / table.dimensions))
