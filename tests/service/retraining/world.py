"""A small marketplace, and something that answers for its log as a store does."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from slatewise.service.records import Item, SlateRecord, Visit
from slatewise.simulation import load_config, write_log

DAY = 86_400_000_000
START = 1_704_067_200_000_000
"""The first moment of 2024, when simulations begin."""


class Shelf:
    """Visits and items in memory, read as a store is read."""

    def __init__(self, visits: Sequence[Visit], items: Sequence[Item]) -> None:
        self.visits, self.items = list(visits), list(items)

    def export(self, start: int, end: int, batch: int = 700) -> Iterator[list[Visit]]:
        inside = [visit for visit in self.visits if start <= visit.slate.time < end]
        inside.sort(key=lambda visit: visit.slate.time)
        for first in range(0, len(inside), batch):
            yield inside[first : first + batch]

    def all_items(self) -> Iterator[list[Item]]:
        yield self.items


def simulated(folder: Path, seed: int = 1) -> Shelf:
    """Return what 300 users did in a market of 200 items: four days, some 1,100 slates each."""
    write_log(load_config("tiny", seed=seed), folder)
    log = pl.read_parquet(folder / "log.parquet")
    items = pl.read_parquet(folder / "items.parquet")
    visits = [
        Visit(
            SlateRecord(
                slate_id=f"s{number}",
                user_id=f"user {row['user_id']}",
                time=START + (round(row["time"].timestamp() * 1e6) - START) // 8,
                source=row["source"],
                items=tuple(map(str, row["slate"])),
            ),
            seen=len(row["slate"]),
            clicked=() if row["click"] is None else (str(row["click"]),),
        )
        for number, row in enumerate(log.iter_rows(named=True))
    ]
    shop = [Item(str(item), str(group)) for item, group in items.select("item_id", "group").rows()]
    return Shelf(visits, shop)


def at_random(visits: Iterable[Visit], seed: int) -> list[Visit]:
    """Return the visits with every click on any item of its slate, whatever it shows."""
    rng = np.random.default_rng(seed)
    return [
        replace(visit, clicked=(str(rng.choice(visit.slate.items)),)) if visit.clicked else visit
        for visit in visits
    ]
