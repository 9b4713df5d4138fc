"""What acts on utility beside intent: quality, readiness to click, position, fatigue, contrast.

Readiness to click is added to the utility of every item, which is the same as taking it away from
that of no click. All effects are exactly known, so choice probabilities stay exact.
"""

import numpy as np

from slatewise.simulation.arrays import Floats, Ints
from slatewise.simulation.catalogue import Catalogue
from slatewise.simulation.config import EffectsConfig
from slatewise.simulation.intent import Users


class Effects:
    """The effects of one world."""

    def __init__(
        self, config: EffectsConfig, catalogue: Catalogue, longest: int, rng: np.random.Generator
    ) -> None:
        self.config, self._longest = config, longest
        shared = np.sqrt(config.quality_shared) * rng.standard_normal(catalogue.groups)  # [G]
        own = np.sqrt(1 - config.quality_shared) * rng.standard_normal(catalogue.items)  # [I]
        quality = config.quality_sd * (shared[catalogue.group] + own)
        self.quality: Floats = quality.astype(np.float32)  # [I]
        position = config.position_bias * np.log(np.arange(1, longest + 1))
        self._position: Floats = position.astype(np.float32)  # [S]

    @property
    def any(self) -> bool:
        """Whether anything acts at all."""
        c = self.config
        return any((c.quality_sd, c.propensity_sd, c.position_bias, c.fatigue))

    def initialise(self, users: Users, rng: np.random.Generator) -> None:
        """Give new users their propensity, and room to remember what they see."""
        if self.config.propensity_sd:
            drawn = rng.standard_normal(len(users), dtype=np.float32)
            users.propensity = np.float32(self.config.propensity_sd) * drawn
        memory = self.config.fatigue_memory if self.config.fatigue else 0
        users.seen = np.full((len(users), memory, self._longest), -1, dtype=np.int64)

    def utility(self, users: Users, who: Ints, slates: Ints) -> Floats:
        """Sum of the effects on the items of `slates` [B, S] for the users `who` [B]: [B, S]."""
        total = users.propensity[who, None] + self.quality[slates] - self._position
        if self.config.fatigue:
            n = times_seen(users.seen.reshape(len(users.seen), -1)[who], slates)
            total -= np.float32(self.config.fatigue) * np.log1p(n).astype(np.float32)
        return np.asarray(total)


def standing_out(appeal: Floats) -> Floats:
    """Return how far each appeal of [B, S] lies above the best before it, ±2 at most: [B, S].

    People read from the top: what stands further down changes nothing. The first has nothing to
    stand out from.
    """
    best = np.maximum.accumulate(appeal, axis=1)
    beyond = np.zeros_like(appeal)
    beyond[:, 1:] = np.clip(appeal[:, 1:] - best[:, :-1], -2, 2)
    return beyond


def times_seen(seen: Ints, slates: Ints) -> Ints:
    """Count how often each item of `slates` [B, S] is among the items `seen` [B, R]: [B, S]."""
    count = np.zeros(slates.shape, dtype=np.int64)
    for column in seen.T:  # one [B, S] comparison each keeps memory low
        count += slates == column[:, None]
    return count
