"""Popularity: clicks and views of each item by all users, fading with time, and its age.

An event at time s weighs 2^(−(t − s) / h) at time t: C and V are the sums over the clicks and views
of an item, h the half-life, and E the clicks expected of the views, 1 / length of its slate each.
For each half-life there are four features:

| feature | value |
|---|---|
| `click_rate` | log((C / r + strength) / (V + strength)), with r the training clicks per view |
| `clicks` | log(1 + C) |
| `click_lift` | the same as `click_rate` with E for V, and training clicks per slate for r |
| `views` | log(1 + V) |

The first says how an item does among those who see it, shrunk towards 0, the average; the second
how many want it at all; the third how it does beside what it is shown with, since a click counts
more where many items compete; the fourth how much it is shown. One more, `age`, is log(1 + hours
since the item was first seen), up to four weeks. All are 0 for a new item.

Time is divided into ticks of `refresh` seconds, and an event is known from the next tick on. So
nothing at t or later is ever seen; between two ticks each item has one number, which serving
refreshes as often; and events of one tick are one row of memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field, model_validator
from torch import Tensor

from slatewise.config import Config
from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.data.ragged import Int64Array
from slatewise.errors import SlatewiseError
from slatewise.features.showings import showing_starts, training_counts

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Positive = Annotated[float, Field(gt=0)]

SECOND: Final = 1_000_000
"""Microseconds, in which times are kept."""
AGE: Final = "age"
"""The column that comes last."""


HALF_LIVES: Final = (2.0, 24.0, 96.0)
"""Hours that are worth a look in any log."""
FADING: Final = ("click_rate", "clicks", "click_lift", "views")
"""The columns of each half-life."""


class PopularityConfig(Config):
    """How fast the past fades."""

    half_lives: Annotated[tuple[Positive, ...], Field(min_length=1)] = HALF_LIVES
    """After how many hours an event counts half; four features each."""
    refresh: Annotated[float, Field(ge=1e-6)] = 60.0
    """Seconds of a tick: how often the numbers are renewed."""
    strength: Positive = 20.0
    """How many views the prior of a click rate is worth."""

    @property
    def tick(self) -> int:
        """Microseconds of a tick."""
        return max(1, round(self.refresh * SECOND))


class Popularity(Config):
    """The numbers that the features are computed with; saved as they are."""

    settings: PopularityConfig
    rate: Positive
    """Training clicks per view."""
    slate_rate: Positive
    """Training clicks per slate."""

    @model_validator(mode="before")
    @classmethod
    def _is_of_this_release(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and "slate_rate" not in values:
            raise ValueError("this popularity is of an earlier release: train the model again")
        return values

    @classmethod
    def fit(cls, dataset: SlateDataset, settings: PopularityConfig | None = None) -> "Popularity":
        """Count the click rate in the training part; times that are only an order are refused."""
        require_clock(dataset)
        slates, clicks, views = training_counts(dataset).sum(axis=0)
        return cls(
            settings=settings or PopularityConfig(),
            rate=float((clicks + 0.5) / (views + 1)),
            slate_rate=float((clicks + 0.5) / (slates + 1)),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The 4 H + 1 columns of all features."""
        fading = [f"{name}_{hours:g}h" for hours in self.settings.half_lives for name in FADING]
        return *fading, AGE

    @property
    def steps(self) -> Doubles:
        """[H] half-lives that a tick takes."""
        ticks = self.settings.refresh / np.array(self.settings.half_lives) / 3_600
        return ticks.astype(np.float64)

    @property
    def numbers(self) -> tuple[Doubles, float, Doubles, Doubles]:
        """What the loops take: steps [H], hours of a tick, rates [2] and strengths [2]."""
        rates = np.array([self.rate, self.slate_rate])
        # As many views, or the clicks expected of as many in slates of average length.
        strengths = self.settings.strength * np.array([1.0, self.rate / self.slate_rate])
        return self.steps, self.settings.refresh / 3_600, rates, strengths

    def ticks(self, times: Int64Array) -> Int64Array:
        """Return the tick of each time."""
        return times // self.settings.tick

    def cells(self, dataset: SlateDataset, out: Floats | None = None) -> Tensor:
        """Return the features of every item seen in a dataset, at its time: [F, 4 H + 1] float32.

        One pass over the log in time order, with memory for the items and for the result, which
        goes to `out` if that is given: it may be mapped to a file.
        """
        require_clock(dataset)
        if out is None:
            out = np.empty((len(dataset.slate_items), len(self.names)), dtype=np.float32)
        stream(self, dataset, Sums.empty(dataset.num_items, self), dataset.slate_offsets, out)
        return torch.from_numpy(out)


@dataclass(frozen=True)
class Sums:
    """What is known of I items: the ticks of first and latest event of each, and sums up to it."""

    first: Int64Array
    """[I] of the first event"""
    tick: Int64Array
    """[I] of the latest"""
    closed: Floats
    """[I, H, 3] decayed clicks, views and expected clicks of all ticks before the latest"""
    opened: Doubles
    """[I, 3] the same in it"""

    @classmethod
    def empty(cls, num_items: int, popularity: Popularity) -> "Sums":
        """Return the sums before any event."""
        from slatewise.features import _popularity_numba as loops  # noqa: PLC0415 (numba takes time to load)

        return cls(
            np.full(num_items, loops.NOT_YET, dtype=np.int64),
            np.full(num_items, loops.NEVER, dtype=np.int64),
            np.zeros((num_items, len(popularity.settings.half_lives), 3), dtype=np.float32),
            np.zeros((num_items, 3)),
        )

    @property
    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """All four, as the loops take them."""
        return self.first, self.tick, self.closed, self.opened


def stream(
    popularity: Popularity,
    log: Interactions | SlateDataset,
    sums: Sums,
    rows: Int64Array | None = None,
    out: Floats | None = None,
) -> None:
    """Add the events of a log to the sums in time order; before each, describe its items if asked.

    The items of interaction n go to `out` [·, 4 H + 1] from row `rows[n]` on, if that is not -1.
    """
    from slatewise.features import _popularity_numba as loops  # noqa: PLC0415 (numba takes time to load)

    begins = showing_starts(log).numpy()
    events = log.interactions() if isinstance(log, SlateDataset) else log
    ticks = popularity.ticks(events.times.cpu().numpy())
    bad = loops.stream(
        time_order(ticks),
        ticks,
        begins,
        expected_shares(events, begins),
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


def time_order(ticks: Int64Array) -> Int64Array:
    """Return the order of ticks [N], equal ones as they come.

    Sixteen bits at a time, which numpy sorts eight times as fast as whole numbers.
    """
    low = ticks - ticks.min(initial=np.iinfo(np.int64).max)
    order = np.argsort(low.astype(np.uint16), kind="stable")
    high = low >> 16
    while high.any():
        order = order[np.argsort(high[order].astype(np.uint16), kind="stable")]
        high >>= 16
    return order


def expected_shares(events: Interactions, begins: npt.NDArray[np.bool_]) -> Doubles:
    """Return the clicks expected of each item of a slate if all are alike: [N].

    One over its length, and 0 for a further click on a slate, which does not begin [N] a showing.
    """
    out: Doubles = begins / np.maximum(events.scroll_lengths.cpu().numpy(), 1)
    return out


def required_log(log: SlateDataset | None, what: str) -> SlateDataset:
    """Return the log, or refuse to tell what is known from it alone."""
    if log is None:
        raise SlatewiseError(
            f"{what} is not known without a log.",
            "Give the dataset too, such as ModelRecommender(model, log=dataset).",
        )
    return log


def require_clock(dataset: SlateDataset) -> None:
    """Refuse a dataset whose times are only an order."""
    if not dataset.meta["clock_times"]:
        raise SlatewiseError(
            f"{dataset.path}: popularity fades by the hour, and the times of this log are only an "
            "order.",
            "Prepare the log with clock times (--time-unit for numbers), or leave popularity out.",
        )
