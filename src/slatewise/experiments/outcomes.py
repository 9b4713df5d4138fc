"""What a unit of an online study keeps: per user and day, per arm, per night.

`shown`   a row per day and arm, with a list over all users who met recommendation slates, of
          whatever arm: how many slates, how many clicks were to be expected had the arm made them
          (exact probabilities, summed), how many of them it made (`served`), and clicks on those
`slates`  a row per day and arm: how varied the recommendation slates were
`arms`    a row per arm: how its slates of all days together covered the catalogue
`nights`  a row per night and model: what it learned from
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np

from slatewise.data.dataset import SlateDataset
from slatewise.evaluation.diversity import Diversity, coverage, exposure, gini
from slatewise.experiments.daily_log import DaySlates
from slatewise.experiments.online import Arm, OnlineConfig
from slatewise.experiments.store import Row, Tables
from slatewise.model.fitted import SlateModel
from slatewise.simulation import Marketplace
from slatewise.simulation.arrays import Bools, Ints


class Outcomes:
    """Collects the rows, day after day."""

    def __init__(
        self, config: OnlineConfig, seed: int, arms: Sequence[Arm], market: Marketplace
    ) -> None:
        self._config, self._seed, self._arms, self._market = config, seed, arms, market
        self._tables: Tables = {"shown": [], "slates": [], "nights": []}
        self._exposure: list[Ints] = [np.zeros(market.catalogue.items, np.int64) for _ in arms]

    def add(
        self, day: int, met: DaySlates, models: Mapping[str, SlateModel], dataset: SlateDataset
    ) -> None:
        """Keep what users met on a day, what the models had learned from, and when."""
        self._night(day, models, dataset)
        recommended = met.only(~met.searched)
        for number, arm in enumerate(self._arms):
            mine = recommended.only(recommended.arm == number)
            head: Row = {"seed": self._seed, "arm": arm.name, "day": day}
            self._tables["shown"].append(head | _per_user(recommended, number))
            varied = self._varied(mine.slates, models[arm.variant])
            self._tables["slates"].append(head | {"slates": len(mine.user), **asdict(varied)})
            self._exposure[number] += exposure(mine.slates, len(self._exposure[number]))

    def _night(self, day: int, models: Mapping[str, SlateModel], dataset: SlateDataset) -> None:
        names = dataset.source_names
        searched = dataset.sources == (names.index("search") if "search" in names else -1)
        about = {
            "seed": self._seed,
            "day": day,
            "interactions": dataset.num_interactions,
            "users": dataset.num_users,
            "search_share": float(searched.mean()),
            "views_per_item": len(dataset.slate_items) / dataset.num_items,
        }
        for name, model in models.items():
            self._tables["nights"].append(about | {"variant": name, **model.metrics})

    def _varied(self, slates: Ints, model: SlateModel) -> Diversity:
        return Diversity.of(
            slates,
            self._market.catalogue.group,
            self._market.space.vectors,  # the truth: one ruler for all models
            self._views(model),
            below=self._config.few_views,
        )

    def _views(self, model: SlateModel) -> Ints:
        """Return how often training saw the items of the marketplace: [I]."""
        views = np.zeros(self._market.catalogue.items, np.int64)
        views[np.array(model.item_ids, np.int64)] = model.views.numpy()
        return views

    def _offered(self) -> Bools:
        """Mark the items that were on offer on the days of the experiment: [I]."""
        life = self._market.life
        if life is None:
            return np.ones(self._market.catalogue.items, np.bool_)
        start = 24 * self._config.window
        return (life.published + life.config.hours > start) & (
            life.published < 24 * self._market.config.days
        )

    def tables(self) -> Tables:
        """Return everything."""
        offered = self._offered()
        arms = [
            {
                "seed": self._seed,
                "arm": arm.name,
                "variant": arm.variant,
                "strategy": arm.strategy,
                "coverage": coverage(shown[offered]),
                "gini": gini(shown[offered]),
            }
            for arm, shown in zip(self._arms, self._exposure, strict=True)
        ]
        return self._tables | {"arms": arms}


def _per_user(met: DaySlates, arm: int) -> Row:
    """Add up, for each user, slates, and clicks expected and realised of an arm."""
    users, index = np.unique(met.user, return_inverse=True)
    mine = met.arm == arm

    def counted(rows: Bools) -> Ints:
        return np.bincount(index, rows, len(users)).astype(np.int64)

    return {
        "users": users,
        "slates": np.bincount(index, minlength=len(users)),
        "expected": np.bincount(index, met.judged[:, arm], len(users)).round(6),
        "served": counted(mine),
        "clicks": counted(mine & (met.clicks >= 0)),
    }
