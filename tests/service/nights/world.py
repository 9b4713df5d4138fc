"""A small shop with an obvious truth, and something that answers for its log as a store does.

Everybody wants the items of one of three groups for ever: of a slate, the first of that group is
clicked four times in five. Two slates in five have none of it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np

from slatewise.service.nights import Night, retrain
from slatewise.service.settings import ServiceConfig
from slatewise.service.store import Store
from slatewise.service.store.features import Features
from slatewise.service.store.records import Item, ItemState, Outcome, SlateRecord, Visit

DAY = 86_400_000_000
START = 1_704_067_200_000_000
"""The first moment of 2024, in microseconds."""
DAYS = 4
GROUPS = ("chairs", "lamps", "stoves")
ITEMS = [Item(f"{group}-{number}", group) for group in GROUPS for number in range(6)]


class Shelf:
    """Visits and items in memory, read as a store is read."""

    def __init__(
        self,
        visits: Sequence[Visit],
        items: Sequence[Item] = ITEMS,
        features: Mapping[int, Features] | None = None,
    ) -> None:
        self.visits, self.items = list(visits), list(items)
        self.features = features or {}

    def export(self, start: int, end: int) -> Iterator[list[Visit]]:
        inside = [visit for visit in self.visits if start <= visit.slate.time < end]
        inside.sort(key=lambda visit: visit.slate.time)
        for first in range(0, len(inside), 700):
            yield inside[first : first + 700]

    def training(self) -> AbstractContextManager[None]:
        return nullcontext()

    def take_version(self, model: str, least: int) -> int:
        return least

    def shelf(self, model: str) -> None:
        return None

    def last_shown(self) -> int:
        return max((visit.slate.time for visit in self.visits), default=0)

    def all_items(self) -> Iterator[list[Item]]:
        yield self.items

    def item_features(self, numbers: Sequence[int]) -> dict[int, Features]:
        return {number: self.features[number] for number in numbers}


def visits(users: int = 90, a_day: int = 5, seed: int = 0) -> list[Visit]:
    """Return what these users did in four days."""
    rng = np.random.default_rng(seed)
    names = [item.item_id for item in ITEMS]
    found = []
    for number in range(users * a_day * DAYS):
        user = number % users
        slate = tuple(map(str, rng.choice(names, size=4, replace=False)))
        wanted = [item for item in slate if item.startswith(GROUPS[user % 3])]
        clicked = tuple(wanted[:1]) if rng.random() < 0.8 else ()
        time = START + int(rng.uniform(0, DAYS * DAY))
        record = SlateRecord(f"slate {number}", f"user {user}", time, "search", slate)
        found.append(Visit(record, len(slate), clicked))
    return found


def at_random(found: Iterable[Visit], start: float, end: float) -> list[Visit]:
    """Return the same visits where, between two days, clicks are on anything in the slate."""
    rng = np.random.default_rng(1)
    return [
        replace(visit, clicked=(str(rng.choice(visit.slate.items)),))
        if visit.clicked and start * DAY <= visit.slate.time - START < end * DAY
        else visit
        for visit in found
    ]


def fill(store: Store, found: Sequence[Visit], items: Sequence[Item] = ITEMS) -> None:
    """Write visits and items into a real store."""
    outcomes = [Outcome(v.slate.slate_id, v.seen, v.clicked, v.slate.time + 1) for v in found]
    store.write([visit.slate for visit in found], outcomes)
    store.put_items([(item.item_id, item.group, ItemState.SHOWN) for item in items])


def settings(**retraining: object) -> ServiceConfig:
    """Return a service with one small model that is trained for a moment."""
    main = {
        "model": {"likelihood": "slate", "dimensions": 2, "dynamics": "linear"},
        "training": {
            "max_epochs": 8,
            "patience": 3,
            "validation_draws": 1,
            "batch_users": 27,
            "learning_rate": 0.1,
        },
    }
    values = {
        "models": {"main": main},
        "retraining": {"min_slates": 100, "tolerance": 0.05} | retraining,
    }
    return ServiceConfig.build(values, "the test")


def night(
    directory: Path,
    store: Shelf | Store,
    day: float,
    config: ServiceConfig | None = None,
    *,
    fresh: bool = False,
) -> Night:
    """Retrain after so many days."""
    now = START + round(day * DAY)
    (found,) = retrain(directory, config or settings(), store, now=now, fresh=fresh)
    return found
