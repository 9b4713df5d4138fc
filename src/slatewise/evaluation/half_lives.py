"""Which half-lives popularity has in a log, also where no click was a choice between items.

Where slates have one item, `search_half_lives` has nothing to compare an item with. There, clicking
nothing is what it is compared with: the same greedy search, by the likelihood of click or none.

Shapes: N interactions, F items seen, H half-lives tried.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from slatewise.data import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.evaluation.counts import training_batches
from slatewise.evaluation.predictions import Slates
from slatewise.evaluation.rows import Floats
from slatewise.features.linear_choice import LinearChoice

TRIED: Final = tuple(4.0**power for power in range(7))
"""Hours: from one to half a year, as far as the log reaches."""
USERS: Final = 3_000
"""Users that a half-life is searched by, at most."""
MOST: Final = 2
NEAR: Final = 1.5
"""Half-lives within this factor of each other say the same."""
HOUR: Final = 3_600_000_000
"""Microseconds, in which times are kept."""


def half_lives_of(dataset: SlateDataset) -> tuple[float, ...]:
    """Search the half-lives of popularity; the usual ones where times are only an order."""
    # Configurations need pydantic, which judging a recommender does without.
    from slatewise.features import search_half_lives  # noqa: PLC0415
    from slatewise.model.config import ModelConfig  # noqa: PLC0415

    if not dataset.meta["clock_times"]:
        return tuple(ModelConfig().half_lives)
    try:
        found = search_half_lives(dataset).chosen
    except SlatewiseError:  # no click was a choice between items
        found = _Search.of(dataset).best()
    return _beside_usual(found, dataset)


def _beside_usual(found: tuple[float, ...], dataset: SlateDataset) -> tuple[float, ...]:
    """Add the usual half-lives that the log is long enough for and that are not found yet."""
    from slatewise.features.popularity import HALF_LIVES  # noqa: PLC0415

    hours = int(dataset.times.max() - dataset.times.min()) / HOUR
    more = [
        usual
        for usual in HALF_LIVES
        if usual <= hours and all(max(usual / one, one / usual) > NEAR for one in found)
    ]
    return *found, *more


@dataclass(frozen=True)
class _Search:
    slates: Slates
    tried: tuple[float, ...]
    features: Floats
    """[F, H, 2] click rate and clicks"""
    sources: Floats
    """[N, sources] 1 at the source of each"""

    @classmethod
    def of(cls, dataset: SlateDataset) -> "_Search":
        from slatewise.features import (  # noqa: PLC0415
            Popularity,
            PopularityConfig,
            PopularityIndex,
        )

        hours = int(dataset.times.max() - dataset.times.min()) / HOUR
        tried = tuple(half_life for half_life in TRIED if half_life <= max(hours, TRIED[0]))
        users = np.random.default_rng(0).permutation(np.flatnonzero(dataset.train_end > 0))
        (batch,) = training_batches(dataset, users[:USERS], batch_users=USERS)
        known = Popularity.fit(dataset, PopularityConfig(half_lives=tried))
        cells = PopularityIndex.of(known, dataset).cells(batch).double()[:, :-1]  # without the age
        cells = cells[batch.choices(batch.first_choices)]
        slates = Slates.of(batch, batch.first_choices)
        one = np.eye(len(dataset.source_names))[slates.sources.astype(np.int64)]
        return cls(slates, tried, cells.reshape(len(cells), -1, 4)[:, :, :2].numpy(), one)

    def best(self) -> tuple[float, ...]:
        """Add half-lives while the likelihood pays for two more weights (BIC)."""
        chosen: list[int] = []
        value = self._log_density(chosen)
        while len(chosen) < min(MOST, len(self.tried)):
            found = {
                h: self._log_density([*chosen, h])
                for h in range(len(self.tried))
                if h not in chosen
            }
            best = max(found, key=found.__getitem__)
            if chosen and found[best] - value <= np.log(len(self.slates)):
                break
            chosen, value = [*chosen, best], found[best]
        return tuple(self.tried[h] for h in chosen)

    def _log_density(self, half_lives: list[int]) -> float:
        items = self.features[:, half_lives].reshape(len(self.features), -1)
        weights, sources = items.shape[1], self.sources.shape[1]
        choice = LinearChoice.with_no_click(
            self.slates.offsets,
            self.slates.clicks,
            np.pad(items, ((0, 0), (0, sources))),
            np.pad(self.sources, ((0, 0), (weights, 0))),
        )
        return choice.log_density(choice.fit())
