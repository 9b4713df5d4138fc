"""ε-mix: a strategy with some of its places given to chance, for comparison."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from slatewise.strategies.greedy import Greedy
from slatewise.strategies.ranker import Ranker
from slatewise.strategies.users import Ints, Users

if TYPE_CHECKING:
    from slatewise.strategies.named import Strategy


Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class EpsilonMix:
    """Fill each place with an item at random with probability ε, else as another strategy would."""

    epsilon: float = 0.1
    rest: "Strategy" = field(default_factory=Greedy)

    name = "epsilon-mix"

    def slates(self, ranker: Ranker, users: Users, k: int) -> Ints:
        """Return slates [B, k]."""
        chance = np.stack([_coins(seed, k) for seed in users.seeds]) < self.epsilon  # [B, k]
        own, random = self.rest.slates(ranker, users, k), ranker.at_random(users, k)
        place = np.cumsum(~chance, axis=1) - 1  # [B, k] which of its own items is next
        mixed = np.where(chance, random, np.take_along_axis(own, np.maximum(place, 0), axis=1))
        # An item of chance may be one of its own, or its group full: its own items make up for it.
        return ranker.interleave(users, np.concatenate([mixed, own], axis=1)[:, None], k)


def _coins(seed: int, k: int) -> Doubles:
    return np.random.default_rng([seed, 1]).random(k)
