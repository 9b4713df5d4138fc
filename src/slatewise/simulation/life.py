"""Items that come and go: when each was published, and what is alive at a given hour."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from slatewise.errors import SlatewiseError
from slatewise.simulation.arrays import Bools, Doubles, Floats, Ints
from slatewise.simulation.catalogue import compact, zipf_quantile
from slatewise.simulation.config import LifeConfig, SimulationConfig


@dataclass(frozen=True)
class Life:
    """Publication times of all items; what a platform knows of them.

    Hours count from the start of the simulation. Items appear at an even pace, so that about as
    many are alive at one hour as at another.
    """

    published: Doubles  # [I], hours; negative for what was there at the start
    order: Ints  # [I], the items, oldest first
    bursts: Doubles  # [I], hours at which an item's burst begins; infinite for none
    config: LifeConfig
    skew: float

    @classmethod
    def generate(cls, config: SimulationConfig, rng: np.random.Generator) -> Self:
        """Draw which item appears when: one in each of I equal spans of time."""
        items, life = config.catalogue.items, config.life
        order = rng.permutation(items)
        pace = (24 * config.days + life.hours) / items
        published = np.empty(items)
        published[order] = pace * (np.arange(items) + rng.random(items)) - life.hours
        onset = rng.random(items)  # below a half in the first half of its life, else none
        bursts = np.where(onset < 0.5, published + life.hours * onset, np.inf)
        return cls(published, order, bursts, life, config.catalogue.exposure_skew)

    def alive(self, slates: Ints, hours: Doubles) -> Bools:
        """Mark the items of `slates` [B, S] that are on offer at `hours` [B]: [B, S]."""
        age = self._age(slates, hours)
        return np.asarray((age >= 0) & (age < self.config.hours))

    def utility(self, slates: Ints, hours: Doubles) -> Floats:
        """Return what age and bursts add to the items of `slates` [B, S] at `hours` [B]: [B, S]."""
        config = self.config
        lost = np.log(2) / config.half_life if config.half_life else 0.0
        utility = -lost * self._age(slates, hours)
        if config.burst:
            since = hours[:, None] - self.bursts[slates]
            left = np.exp2(-np.maximum(since, 0) / config.burst_half_life)
            utility += config.burst * np.where(since >= 0, left, 0)
        return np.asarray(utility, dtype=np.float32)

    def draw(self, hours: Doubles, k: int, rng: np.random.Generator) -> Ints:
        """Draw slates of distinct items alive at `hours` [B], by a Zipf law, newest first: [B, k].

        Repeated draws are replaced by uniform draws from the items alive.
        """
        first, end = self._span(hours, k)
        count = (end - first)[:, None]
        rank = zipf_quantile(rng.random((len(hours), 3 * k)), count, self.skew)
        slates = compact(self.order[end[:, None] - 1 - rank], k)
        short = np.flatnonzero(slates[:, -1] < 0)
        while len(short):
            index = first[short, None] + (rng.random((len(short), 2 * k)) * count[short]).astype(
                int
            )
            slates[short] = compact(np.hstack([slates[short], self.order[index]]), k)
            short = short[slates[short, -1] < 0]
        return slates

    def _age(self, slates: Ints, hours: Doubles) -> Doubles:
        return np.asarray(hours[:, None] - self.published[slates])

    def _span(self, hours: Doubles, k: int) -> tuple[Ints, Ints]:
        """Return which part of `order` is alive at `hours` [B]: [B], [B]."""
        times = self.published[self.order]
        first = np.searchsorted(times, hours - self.config.hours, side="right")
        end = np.searchsorted(times, hours, side="right")
        if (end - first < k).any():
            hour = hours[end - first < k][0]
            raise SlatewiseError(
                f"Fewer than {k} items are alive at hour {hour:.1f}.",
                f"The world lasts from hour 0 to hour {times[-1]:.0f}: raise `days`.",
            )
        return first, end
