"""Items that come and go: when each was published, and what is alive at a given hour."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from slatewise.errors import SlatewiseError
from slatewise.simulation.arrays import Bools, Doubles, Floats, Ints
from slatewise.simulation.catalogue import compact, zipf_quantile
from slatewise.simulation.config import SimulationConfig


@dataclass(frozen=True)
class Life:
    """Publication times of all items; what a platform knows of them.

    Hours count from the start of the simulation. Items appear at an even pace, so that about as
    many are alive at one hour as at another.
    """

    published: Doubles  # [I], hours; negative for what was there at the start
    order: Ints  # [I], the items, oldest first
    hours: float
    half_life: float
    skew: float

    @classmethod
    def generate(cls, config: SimulationConfig, rng: np.random.Generator) -> Self:
        """Draw which item appears when: one in each of I equal spans of time."""
        items, life = config.catalogue.items, config.life
        order = rng.permutation(items)
        pace = (24 * config.days + life.hours) / items
        published = np.empty(items)
        published[order] = pace * (np.arange(items) + rng.random(items)) - life.hours
        return cls(published, order, life.hours, life.half_life, config.catalogue.exposure_skew)

    def alive(self, slates: Ints, hours: Doubles) -> Bools:
        """Mark the items of `slates` [B, S] that are on offer at `hours` [B]: [B, S]."""
        age = self._age(slates, hours)
        return np.asarray((age >= 0) & (age < self.hours))

    def fading(self, slates: Ints, hours: Doubles) -> Floats:
        """What the items of `slates` [B, S] have lost in utility since publication: [B, S]."""
        rate = np.log(2) / self.half_life if self.half_life else 0.0
        return (rate * self._age(slates, hours)).astype(np.float32)

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
        first = np.searchsorted(times, hours - self.hours, side="right")
        end = np.searchsorted(times, hours, side="right")
        if (end - first < k).any():
            hour = hours[end - first < k][0]
            raise SlatewiseError(
                f"Fewer than {k} items are alive at hour {hour:.1f}.",
                f"The world lasts from hour 0 to hour {times[-1]:.0f}: raise `days`.",
            )
        return first, end
