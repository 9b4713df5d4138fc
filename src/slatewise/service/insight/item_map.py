"""The items on offer, in two dimensions; of a large catalogue a sample, and all of its groups."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from slatewise.service.insight.projection import (
    Floats,
    Ints,
    Projection,
    projection_of,
    sample,
    scales_of,
)
from slatewise.service.serving.live import Live

_ROWS: Final = 100_000
"""Items that are projected at once: 10 MB."""


@dataclass(frozen=True)
class MapGroup:
    """A group of items."""

    name: str
    items: int
    """of it that are on offer"""
    x: float
    """the mean of its items"""
    y: float
    scale: float
    """the mean posterior standard deviation of its items"""
    views: int
    """of its items in training"""


@dataclass(frozen=True)
class ItemMap:
    """N items, which are all on offer or a sample of them."""

    version: str
    offered: int
    """items on offer"""
    explained: tuple[float, float]
    groups: list[MapGroup]
    ids: list[str]
    """[N]"""
    points: Floats
    """[N, 2]"""
    group: Ints
    """[N] into `groups`"""
    views: Ints
    """[N] in training"""
    scales: Floats
    """[N] posterior standard deviations"""


def item_map(live: Live, most: int) -> ItemMap:
    """Return the items on offer, or a uniform sample of `most`; groups are counted over all."""
    return live.consistently(lambda: _item_map(live, most))


def _item_map(live: Live, most: int) -> ItemMap:
    projection, table, catalogue = projection_of(live), live.table, live.catalogue
    shown = np.flatnonzero(table.available)
    rows = sample(shown, most)
    numbers, group = np.unique(table.groups[shown], return_inverse=True)
    names = [catalogue.group_names[number] for number in numbers.tolist()]
    return ItemMap(
        version=live.version,
        offered=len(shown),
        explained=projection.explained,
        groups=_groups(live, projection, shown, group, names),
        ids=[str(item) for item in catalogue.ids_of(rows)],
        points=projection.of(table.means_of(rows)),
        group=np.searchsorted(numbers, table.groups[rows]),
        views=catalogue.views_of(rows),
        scales=scales_of(table, rows),
    )


def _groups(
    live: Live, projection: Projection, shown: Ints, group: Ints, names: list[str]
) -> list[MapGroup]:
    """Average over the items of each group, a part of the catalogue at a time."""
    sums = np.zeros((len(names), 5))  # items, x, y, scale, views
    for start in range(0, len(shown), _ROWS):
        rows, of = shown[start : start + _ROWS], group[start : start + _ROWS]
        points = projection.of(live.table.means_of(rows))
        columns = (None, points[:, 0], points[:, 1], scales_of(live.table, rows))
        for number, weights in enumerate((*columns, live.catalogue.views_of(rows))):
            sums[:, number] += np.bincount(of, weights, len(names))
    means = sums[:, 1:4] / sums[:, :1]
    return [
        MapGroup(name, int(count), x, y, scale, int(views))
        for name, count, (x, y, scale), views in zip(
            names, sums[:, 0].tolist(), means.tolist(), sums[:, 4].tolist(), strict=True
        )
    ]
