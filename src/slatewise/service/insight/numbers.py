"""What a version of a model knows of single items."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slatewise.evaluation.diversity import little_seen
from slatewise.service.insight.projection import scales_of
from slatewise.service.serving.live import Live


@dataclass(frozen=True)
class ItemNumbers:
    """What a model knows of an item."""

    views: int
    """in training; 0 for an item that came since"""
    scale: float
    """posterior standard deviation of its vector, the root mean square over dimensions"""
    bias: float
    """posterior mean of its bias; 0 where the model has none"""


def item_numbers(live: Live, ids: Sequence[str]) -> dict[str, ItemNumbers]:
    """Return what a version knows of items; those that it does not know are left out."""
    live.count_views()
    return live.consistently(lambda: _numbers(live, ids))


def _numbers(live: Live, ids: Sequence[str]) -> dict[str, ItemNumbers]:
    rows = live.catalogue.known(ids)[0]
    columns = zip(
        live.catalogue.ids_of(rows),
        live.catalogue.views_of(rows).tolist(),
        scales_of(live.table, rows).tolist(),
        live.table.biases_of(rows).tolist(),
        strict=True,
    )
    return {str(item): ItemNumbers(*values) for item, *values in columns}


class LittleSeen:
    """The least seen quarter of the items on offer, by their views in training."""

    def __init__(self, live: Live) -> None:
        live.count_views()
        self._live = live
        shown = np.flatnonzero(live.table.available)
        views = live.catalogue.views_of(shown)
        self.below = int(views[little_seen(views)].max(initial=-1)) + 1
        """views that are no longer few"""

    def __call__(self, ids: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return which of items [n] are little seen; one that the model does not know is."""
        catalogue = self._live.catalogue
        rows = np.array([-1 if (row := catalogue.find(one)) is None else row for one in ids])
        views = np.where(rows >= 0, catalogue.views_of(np.maximum(rows, 0)), 0)
        return np.asarray(views < self.below)
