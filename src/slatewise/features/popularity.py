"""Popularity: clicks and views of each item by all users, fading with time, and its age.

An event at time s weighs 2^(−(t − s) / h) at time t: C and V are the sums over the clicks and views
of an item, h the half-life. For each half-life there are two features:

| feature | value |
|---|---|
| `click_rate` | log((C / r + strength) / (V + strength)), with r the training clicks per view |
| `clicks` | log(1 + C) |

The first says how an item does among those who see it, shrunk towards 0, the average; the second
how many want it at all. One more, `age`, is log(1 + hours since the item was first seen), up to
four weeks. All are 0 for a new item.

Time is divided into ticks of `refresh` seconds, and an event is known from the next tick on. So
nothing at t or later is ever seen; between two ticks each item has one number, which serving
refreshes as often; and events of one tick are one row of memory.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor

from slatewise.config import Config
from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.data.ragged import Int64Array
from slatewise.errors import SlatewiseError
from slatewise.features.showings import showing_starts, training_counts

Floats = npt.NDArray[np.float32]
Positive = Annotated[float, Field(gt=0)]

SECOND: Final = 1_000_000
"""Microseconds, in which times are kept."""
AGE: Final = "age"
"""The column that comes last."""


class PopularityConfig(Config):
    """How fast the past fades."""

    half_lives: Annotated[tuple[Positive, ...], Field(min_length=1)] = (1.0, 24.0)
    """After how many hours an event counts half; two features each."""
    refresh: Annotated[float, Field(ge=1e-6)] = 60.0
    """Seconds of a tick: how often the numbers are renewed."""
    strength: Positive = 20.0
    """How many views the prior of a click rate is worth."""


class Popularity(Config):
    """The numbers that the features are computed with; saved as they are."""

    settings: PopularityConfig
    rate: Positive
    """Training clicks per view."""

    @classmethod
    def fit(cls, dataset: SlateDataset, settings: PopularityConfig | None = None) -> "Popularity":
        """Count the click rate in the training part; times that are only an order are refused."""
        require_clock(dataset)
        _, clicks, views = training_counts(dataset).sum(axis=0)
        return cls(
            settings=settings or PopularityConfig(), rate=float((clicks + 0.5) / (views + 1))
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The 2 H + 1 columns of all features."""
        fading = [
            f"{name}_{hours:g}h"
            for hours in self.settings.half_lives
            for name in ("click_rate", "clicks")
        ]
        return *fading, AGE

    @property
    def steps(self) -> npt.NDArray[np.float64]:
        """[H] half-lives that a tick takes."""
        ticks = self.settings.refresh / np.array(self.settings.half_lives) / 3_600
        return ticks.astype(np.float64)

    @property
    def numbers(self) -> tuple[npt.NDArray[np.float64], float, float, float]:
        """What the loops describe an item with: steps [H], hours of a tick, rate, strength."""
        settings = self.settings
        return self.steps, settings.refresh / 3_600, self.rate, settings.strength

    def ticks(self, times: Int64Array) -> Int64Array:
        """Return the tick of each time."""
        return times // max(1, round(self.settings.refresh * SECOND))

    def cells(self, dataset: SlateDataset, out: Floats | None = None) -> Tensor:
        """Return the features of every item seen in a dataset, at its time: [F, 2 H + 1] float32.

        One pass over the log in time order, with memory for the items and for the result, which
        goes to `out` if that is given: it may be mapped to a file.
        """
        require_clock(dataset)
        everything = dataset.interactions()
        if out is None:
            out = np.empty((len(dataset.slate_items), len(self.names)), dtype=np.float32)
        stream(self, everything, Sums.empty(dataset.num_items, self), dataset.slate_offsets, out)
        return torch.from_numpy(out)


@dataclass(frozen=True)
class Sums:
    """What is known of I items: the ticks of first and latest event of each, and sums up to it."""

    first: Int64Array
    """[I] of the first event"""
    tick: Int64Array
    """[I] of the latest"""
    closed: Floats
    """[I, H, 2] decayed clicks and views of all ticks before the latest"""
    opened: Int64Array
    """[I, 2] clicks and views in it"""

    @classmethod
    def empty(cls, num_items: int, popularity: Popularity) -> "Sums":
        """Return the sums before any event."""
        from slatewise.features import _popularity_numba as loops  # noqa: PLC0415 (numba takes time to load)

        return cls(
            np.full(num_items, loops.NOT_YET, dtype=np.int64),
            np.full(num_items, loops.NEVER, dtype=np.int64),
            np.zeros((num_items, len(popularity.settings.half_lives), 2), dtype=np.float32),
            np.zeros((num_items, 2), dtype=np.int64),
        )

    @property
    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """All four, as the loops take them."""
        return self.first, self.tick, self.closed, self.opened


def stream(
    popularity: Popularity,
    events: Interactions,
    sums: Sums,
    rows: Int64Array | None = None,
    out: Floats | None = None,
) -> None:
    """Add events to the sums in time order; before each, describe its items where asked.

    The items of interaction n go to `out` [·, 2 H + 1] from row `rows[n]` on, if that is not -1.
    """
    from slatewise.features import _popularity_numba as loops  # noqa: PLC0415 (numba takes time to load)

    ticks = popularity.ticks(events.times.cpu().numpy())
    bad = loops.stream(
        np.argsort(ticks, kind="stable"),
        ticks,
        showing_starts(events).numpy(),
        events.clicks.cpu().numpy(),
        events.slate_offsets.cpu().numpy(),
        events.slate_items.cpu().numpy(),
        np.full(len(ticks), -1) if rows is None else rows,
        popularity.numbers,
        sums.arrays,
        np.empty((0, len(popularity.names)), dtype=np.float32) if out is None else out,
    )
    if bad >= 0:
        raise ValueError(f"interaction {bad} has an unknown item or a click outside its slate")


def require_clock(dataset: SlateDataset) -> None:
    """Refuse a dataset whose times are only an order."""
    if not dataset.meta["clock_times"]:
        raise SlatewiseError(
            f"{dataset.path}: popularity fades by the hour, and the times of this log are only an "
            "order.",
            "Prepare the log with clock times (--time-unit for numbers), or leave popularity out.",
        )
