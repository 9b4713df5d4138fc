"""What a log says of its site: how many slates a day, of what, and how items come and go.

Shapes: I items, N interactions.
"""

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from slatewise.data.dataset import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.model.fitted import SlateModel

Ints = npt.NDArray[np.int64]

DAY: Final = 86_400_000_000
"""Microseconds."""
_STAYING: Final = 0.8
"""Share of the items of the first third of a log that are still seen in the last, from which on
items count as there for ever: of those seen now and then, some are missed by chance."""
_OFTEN: Final = 3
"""Least views in the first third for an item to be looked for in the last."""
_DAYS_OF_AN_ORDER: Final = 28.0
"""Days that a log without clock times is taken to span."""


@dataclass(frozen=True)
class Site:
    """The facts that decide how much exploring can bring."""

    source: str
    """where the slates of recommendations come from"""
    days: float
    """that the log spans"""
    slates_a_day: float
    """of that source"""
    slate: int
    """items of a slate"""
    items: int
    """on offer at the end of the log"""
    leaving: float
    """share of the items that leave in a day; as many come"""
    views: float
    """of an item on offer in the log, of all sources, in the middle of them"""
    scale: float
    """posterior standard deviation of an item's vector, over dimensions, in the middle of items"""

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


@dataclass(frozen=True)
class SiteLog:
    """A site, and the parts of its log that slates are drawn from."""

    site: Site
    on_offer: Ints
    """items on offer at the end of the log"""
    rows: Ints
    """interactions of the source"""
    seen: Ints
    """how many items were seen of each of their slates"""

    @classmethod
    def of(cls, model: SlateModel, dataset: SlateDataset, source: str | None = None) -> "SiteLog":
        """Read a log; without a source, recommendations are what is not called search."""
        name, lengths = _source(dataset, source), np.diff(dataset.slate_offsets)
        chosen = np.asarray(dataset.sources) == dataset.source_names.index(name)
        rows = np.flatnonzero(chosen & (lengths > 0))
        if not len(rows):
            raise SlatewiseError(f"the log has no slate from '{name}'.", "Name another source.")
        times, clock = np.asarray(dataset.times), bool(dataset.meta["clock_times"])
        days = max(1.0, float(np.ptp(times)) / DAY) if clock else _DAYS_OF_AN_ORDER
        views = np.bincount(np.asarray(dataset.slate_items), minlength=dataset.num_items)
        leaving, on_offer = 0.0, np.arange(dataset.num_items)
        if clock and days >= 2:
            leaving, on_offer = _turnover(dataset, times, days)
        scales = np.sqrt(np.square(model.item_scales[on_offer]).sum(axis=1))
        site = Site(
            name,
            days,
            len(rows) / days,
            max(1, int(np.quantile(lengths[rows], 0.9))),
            len(on_offer),
            leaving,
            float(np.median(views[on_offer])) if len(on_offer) else 0.0,
            float(np.median(scales)) if len(on_offer) else 0.0,
        )
        return cls(site, on_offer, rows, lengths[rows].astype(np.int64))


def _source(dataset: SlateDataset, given: str | None) -> str:
    names = dataset.source_names
    if given is not None:
        if given not in names:
            raise SlatewiseError(
                f"the log has no slates from '{given}'.", f"Choose from {', '.join(names)}."
            )
        return given
    others = [name for name in names if name != "search"]
    return (others or names)[0]


def _turnover(dataset: SlateDataset, times: Ints, days: float) -> tuple[float, Ints]:
    """Return the share of items that leave in a day, and the items of the last day.

    By how many of those seen in the first third of the log are still seen in its last.
    """
    lengths = np.diff(dataset.slate_offsets)
    when = np.repeat((times - times.min()) / max(1, np.ptp(times)), lengths)  # [F] from 0 to 1
    items, count = np.asarray(dataset.slate_items), dataset.num_items
    first = np.bincount(items[when <= 1 / 3], minlength=count)
    last = np.bincount(items[when >= 2 / 3], minlength=count)
    often = first >= _OFTEN
    staying = float((last[often] > 0).mean()) if often.any() else 1.0
    if staying >= _STAYING:
        return 0.0, np.arange(count)
    leaving = 1 - max(staying, 0.5 / max(1, int(often.sum()))) ** (1 / (2 / 3 * days))
    return leaving, np.unique(items[when >= 1 - min(1.0, 1 / days)]).astype(np.int64)
