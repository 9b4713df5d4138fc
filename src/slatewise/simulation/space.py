"""Where items and groups truly lie; known to users and search, never to a policy."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from slatewise.simulation.arrays import Floats, Ints
from slatewise.simulation.catalogue import Catalogue
from slatewise.simulation.config import CatalogueConfig


@dataclass(frozen=True)
class Space:
    """The latent space: item vectors around group means, and how the groups relate."""

    vectors: Floats  # [I, D]
    means: Floats  # [G, D]
    spread: Floats  # [G], typical distance of an item (and of an intent) from its group mean
    companion: Ints  # [G], where a switch out of a group mostly goes
    neighbours: Ints  # [G, N], the nearest other groups

    @classmethod
    def generate(
        cls,
        catalogue: Catalogue,
        config: CatalogueConfig,
        neighbours: int,
        rng: np.random.Generator,
    ) -> Self:
        """Draw the means on a sphere, so that no group is central, and the items around them."""
        d, groups = config.dimensions, catalogue.groups
        means = rng.standard_normal((groups, d), dtype=np.float32)  # [G, D]
        means *= config.group_distance / np.sqrt(2) / np.linalg.norm(means, axis=1, keepdims=True)
        low, high = np.log([config.spread_low, config.spread_high])
        spread = np.exp(rng.uniform(low, high, size=groups)).astype(np.float32)  # [G]
        # One cycle through all groups: every group is a companion, none of itself (unless alone).
        cycle = rng.permutation(groups)
        companion = np.empty(groups, dtype=np.int64)
        companion[cycle] = np.roll(cycle, -1)
        vectors = around(means, spread, catalogue.group, rng)
        return cls(vectors, means, spread, companion, _nearest(means, neighbours))

    def intents(self, groups: Ints, rng: np.random.Generator) -> Floats:
        """Draw a fresh intent in each of `groups` [B]: [B, D]."""
        return around(self.means, self.spread, groups, rng)


def around(means: Floats, spread: Floats, groups: Ints, rng: np.random.Generator) -> Floats:
    """Draw points around the means [G, D] of `groups` [B], at the groups' spread [G]: [B, D]."""
    d = means.shape[1]
    points = rng.standard_normal((len(groups), d), dtype=np.float32)  # [B, D]
    points *= (spread / np.float32(np.sqrt(d)))[groups, None]
    points += means[groups]
    return points


def _nearest(means: Floats, count: int) -> Ints:
    if len(means) == 1:
        return np.zeros((1, 1), dtype=np.int64)
    distance = np.linalg.norm(means[:, None] - means[None], axis=2)  # [G, G]
    return np.argsort(distance, axis=1)[:, 1 : count + 1]
