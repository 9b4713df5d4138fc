"""How arms did from period to period: click rates, and what went to little-seen items."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from slatewise.evaluation.ab import Interval, click_rate
from slatewise.service.analysis import queries
from slatewise.service.analysis.report import FOREVER, beginning, finite
from slatewise.service.analysis.tally import CountedSlates, Tally
from slatewise.service.settings import ServiceConfig
from slatewise.service.store import Store
from slatewise.service.store.clock import DAY, iso

Bools = npt.NDArray[np.bool_]

MOST: Final = 40
"""Periods at most: as many as a figure can show."""
_MINUTE: Final = 60_000_000
_WIDTHS: Final = tuple(_MINUTE * n for n in (1, 5, 15, 60, 180, 720)) + tuple(
    DAY * n for n in (1, 2, 7)
)
SAMPLE: Final = 500
"""Newest slates of a period by which the share of little-seen items is counted."""


@dataclass(frozen=True)
class ArmPeriod:
    """An arm in one period."""

    seen: int
    """slates with an answer"""
    rate: Interval
    """clicks per slate seen"""
    little_seen: float
    """share of the positions of sampled slates that went to little-seen items, or nan"""


@dataclass(frozen=True)
class History:
    """Periods of equal width, in order; those without a slate are left out."""

    width: int
    """microseconds"""
    periods: Mapping[int, Mapping[str, ArmPeriod]]
    """by the start of the period, in microseconds since 1970, and by arm"""


def history(
    tally: Tally,
    store: Store,
    config: ServiceConfig,
    is_little_seen: Callable[[Sequence[str]], Bools],
) -> History:
    """Return how arms did since they can be compared, in up to 40 periods.

    `is_little_seen` says of items [n] whether they are, as far as is known now.
    """
    slates = tally.slates(beginning(tally, config), FOREVER)
    width = period_width(int(np.ptp(slates.time)) if len(slates.time) else 0)
    newest = list(slates.by_period(width).items())[-MOST:]
    return History(
        width,
        {
            number * width: _period(store, some, number * width, width, is_little_seen)
            for number, some in newest
        },
    )


def period_width(duration: int) -> int:
    """Return the narrowest width by which a duration has few enough periods, in microseconds."""
    return next((width for width in _WIDTHS if duration <= (MOST - 1) * width), _WIDTHS[-1])


def _period(
    store: Store,
    slates: CountedSlates,
    start: int,
    width: int,
    is_little_seen: Callable[[Sequence[str]], Bools],
) -> dict[str, ArmPeriod]:
    rows = store.read(partial(queries.newest, start=start, end=start + width, limit=SAMPLE))
    shown: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
    for arm, items in rows:
        shown[arm].append(items)
    counts, totals = slates.count(), slates.totals()
    return {
        arm: ArmPeriod(
            seen=counts[arm][1],
            rate=click_rate(totals[arm]),
            little_seen=_share(shown[arm], is_little_seen),
        )
        for arm, (made, _) in counts.items()
        if made
    }


def _share(
    slates: Sequence[tuple[str, ...]], is_little_seen: Callable[[Sequence[str]], Bools]
) -> float:
    items = list(chain.from_iterable(slates))
    return float(is_little_seen(items).mean()) if items else float("nan")


def history_json(found: History) -> dict[str, Any]:
    """Return it for programs; None stands for what is not known."""
    return {
        "seconds": found.width / 1e6,
        "periods": [
            {
                "start": iso(start),
                "arms": {
                    name: {
                        "seen": arm.seen,
                        "click_rate": arm.rate.to_json(),
                        "little_seen": finite(arm.little_seen),
                    }
                    for name, arm in arms.items()
                },
            }
            for start, arms in found.periods.items()
        ],
    }
