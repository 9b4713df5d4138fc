"""A marketplace whose truth is known, with a model that makes slates for it."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import torch

from slatewise.model.config import ModelConfig
from slatewise.model.posterior import Posterior
from slatewise.simulation import (
    CatalogueConfig,
    IntentConfig,
    Marketplace,
    RandomPolicy,
    SimulationConfig,
    Users,
)
from slatewise.slates import Strategy
from slatewise.slates.users import Users as Asking
from tests.slates.dense import DenseRanker

Ints = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]
ITEMS, GROUPS, D, K = 40, 5, 4, 4


@dataclass(frozen=True)
class World:
    """Users who clicked a little, and wait for a slate; nothing changes any more."""

    market: Marketplace
    users: Users
    clicks: list[Ints]
    ranker: DenseRanker

    def slates(self, strategy: Strategy, seed: int, who: Ints | None = None) -> Ints:
        """One slate of each of the users `who` (all if None), [N, k]."""
        clicks = self.clicks if who is None else [self.clicks[user] for user in who]
        asked = Asking.of_clicks(clicks, seed, show_clicked=True)
        return strategy.slates(self.ranker, asked, K)

    def probability(self, slates: Ints, who: Ints | None = None) -> Doubles:
        """The exact probability of a click of users `who` on slates [N, k]: [N]."""
        return self.market.click_probability(self.users, slates, who)

    def clicked(self, who: Ints, slates: Ints, rng: np.random.Generator) -> Doubles:
        """What users do with slates [N, k]: 1 at the click, [N, k]."""
        scroll = self.market.scroll.draw(len(who), rng)
        choice = self.market.choice_probabilities(self.users, slates, scroll, who)
        return one_of(np.asarray(choice.items), rng)


def one_of(probabilities: Doubles, rng: np.random.Generator) -> Doubles:
    """Draw one place or none of each row [N, k]: 1 there, [N, k]."""
    below = np.cumsum(probabilities, axis=1)
    drawn = rng.random(len(below))[:, None]
    return ((drawn < below) & (drawn >= below - probabilities)).astype(np.float64)


@cache
def world(users: int) -> World:
    config = SimulationConfig(
        catalogue=CatalogueConfig(items=ITEMS, groups=GROUPS, dimensions=D, group_distance=5.0),
        intent=IntentConfig(satiation=0, switch=0.1),
        max_slate=K,
        mean_scroll=3.0,
        search_share=0,
        seed=1,
    )
    market, rng = Marketplace(config), np.random.default_rng(0)
    people = market.new_users(users, rng)
    for _ in range(8):
        market.interact(people, RandomPolicy(market.catalogue), rng)
    clicks = [row[row >= 0] for row in people.observed(np.arange(users))]
    return World(market, people, clicks, DenseRanker(posterior(market)))


def posterior(market: Marketplace) -> Posterior:
    """Items near where they are, and not too sure of it."""
    seeded = torch.Generator().manual_seed(0)
    groups = torch.from_numpy(market.catalogue.group)
    config = ModelConfig(dynamics="linear", dimensions=D, sigma_max=2.0)
    found = Posterior(config, groups, range(GROUPS), K, seeded, ["recommendation"])
    with torch.no_grad():
        noise = 0.3 * torch.randn(ITEMS, D, generator=seeded)
        found.items.mean.copy_(torch.from_numpy(market.space.vectors) + noise)
        found.items.raw.fill_(float(torch.logit(torch.tensor(0.8 / 2.0))))
    return found
