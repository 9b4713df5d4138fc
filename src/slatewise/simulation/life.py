"""Items that come and go: when each was published, and what is alive at a given hour."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from slatewise.errors import SlatewiseError
from slatewise.simulation.arrays import Bools, Doubles, Floats, Ints
from slatewise.simulation.catalogue import Catalogue, compact, zipf_quantile
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
    catalogue: Catalogue

    @classmethod
    def generate(
        cls, config: SimulationConfig, catalogue: Catalogue, rng: np.random.Generator
    ) -> Self:
        """Draw which item appears when: one in each of I equal spans of time.

        The items of a new group appear after some moment of the simulation.
        """
        items, life = config.catalogue.items, config.life
        order = rng.permutation(items)
        if life.new_groups:
            birth = np.zeros(catalogue.groups)  # [G], the share of the time before a group
            new = rng.permutation(catalogue.groups)[: round(life.new_groups * catalogue.groups)]
            birth[new] = rng.random(len(new))
            before = birth[catalogue.group]
            order = np.argsort(before + (1 - before) * rng.random(items))
        pace = (24 * config.days + life.hours) / items
        published = np.empty(items)
        published[order] = pace * (np.arange(items) + rng.random(items)) - life.hours
        onset = rng.random(items)  # below a half in the first half of its life, else none
        bursts = np.where(onset < 0.5, published + life.hours * onset, np.inf)
        return cls(published, order, bursts, life, catalogue)

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
        return self.at(hours).complete(np.empty((len(hours), 0), np.int64), k, rng)

    def at(self, hours: Doubles) -> "AliveItems":
        """Return what is on offer to B users at `hours` [B]."""
        return AliveItems(self, hours)

    @cached_property
    def by_group(self) -> tuple[Ints, Doubles, float]:
        """The items by group and oldest first [I], a key that rises along them [I], and its step.

        The key is the step times the group, plus hours since the first publication.
        """
        order = np.lexsort((self.published, self.catalogue.group))
        step = float(np.ptp(self.published)) + self.config.hours + 1
        since = self.published[order] - self.published.min()
        return order, self.catalogue.group[order] * step + since, step

    def _age(self, slates: Ints, hours: Doubles) -> Doubles:
        return np.asarray(hours[:, None] - self.published[slates])

    def span(self, hours: Doubles, k: int) -> tuple[Ints, Ints]:
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


@dataclass(frozen=True)
class AliveItems:
    """What is on offer to each of B users, as `Catalogue` is where items are there for ever."""

    life: Life
    hours: Doubles  # [B]

    def draw_in(self, groups: Ints, rng: np.random.Generator) -> Ints:
        """Draw an item of each of `groups` [B, C] by a Zipf law, newest first: [B, C].

        −1 where all items of a group are gone, or none has come yet.
        """
        order, keys, step = self.life.by_group
        now = self.hours[:, None] - self.life.published.min()
        oldest = np.maximum(now - self.life.config.hours, -0.5)  # within the group's own keys
        end = np.searchsorted(keys, groups * step + now, side="right")
        first = np.searchsorted(keys, groups * step + oldest, side="right")
        alive = end - first
        skew = self.life.catalogue.skew
        rank = zipf_quantile(rng.random(groups.shape), np.maximum(alive, 1), skew)
        return np.where(alive > 0, order[np.minimum(end - 1 - rank, len(order) - 1)], -1)

    def complete(self, items: Ints, k: int, rng: np.random.Generator) -> Ints:
        """Return slates [B, k] of the first k distinct items in each row of `items` [B, C].

        −1 stands for none. What is missing is drawn from all items alive, newest first, and where
        that does not suffice, uniformly.
        """
        first, end = self.life.span(self.hours, k)
        count = (end - first)[:, None]
        order, slates = self.life.order, compact(items, k)
        short = np.flatnonzero(slates[:, -1] < 0)
        if len(short):
            drawn = rng.random((len(short), 3 * k))
            rank = zipf_quantile(drawn, count[short], self.life.catalogue.skew)
            fresh = order[end[short, None] - 1 - rank]
            slates[short] = compact(np.hstack([slates[short], fresh]), k)
            short = short[slates[short, -1] < 0]
        while len(short):
            steps = (rng.random((len(short), 2 * k)) * count[short]).astype(int)
            fresh = order[first[short, None] + steps]
            slates[short] = compact(np.hstack([slates[short], fresh]), k)
            short = short[slates[short, -1] < 0]
        return slates
