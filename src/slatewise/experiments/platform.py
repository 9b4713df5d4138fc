"""A simulated platform: a marketplace, its users, and the log of what they met, day by day."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from slatewise.experiments.daily_log import DailyLog, DaySlates
from slatewise.experiments.online import OnlineConfig
from slatewise.simulation import Marketplace, Policy, SimulationConfig, Users, named_policy
from slatewise.simulation.arrays import Ints


@dataclass(frozen=True)
class Population:
    """All users of all days; an index is a user's id."""

    users: Users
    arm: Ints  # [U], the arm that each is in, for ever
    arrival: Ints  # [U], the first day; negative before the experiment
    stay: int

    @classmethod
    def generate(
        cls,
        config: OnlineConfig,
        market: Marketplace,
        days: int,
        arms: int,
        rng: np.random.Generator,
    ) -> Self:
        """Draw who arrives when, so that about as many are there on every day.

        Arms get equal shares: who is in which is a random permutation, whatever else is true of
        a user.
        """
        first = -config.window - config.stay + 1  # those are about to leave when the log begins
        count = round(config.people() * (days - first) / config.stay)
        users = market.new_users(count, rng)
        arrival = rng.integers(first, days, size=count)
        return cls(users, rng.permutation(count) % arms, arrival, config.stay)

    def __len__(self) -> int:
        """Return the number of all users, U."""
        return len(self.arm)

    def present(self, day: int) -> Ints:
        """Return those who have arrived and not yet left: [B]."""
        return np.flatnonzero((self.arrival <= day) & (day < self.arrival + self.stay))

    def forget(self, who: Ints) -> None:
        """Take the last interaction of `who` [B] for one without a click, as the platform must.

        That is what it believes of an interaction that it did not record; users are who they are.
        """
        self.users.history[who, self.users.steps[who] - 1] = -1


class Platform:
    """Lets users meet slates and records them; days count from the start of the experiment."""

    def __init__(
        self, config: OnlineConfig, world: SimulationConfig, days: int, arms: int, folder: Path
    ) -> None:
        self._config, self._seed, self._arms = config, world.seed, arms
        self.market = Marketplace(world)
        rng = self._stream(0)
        self.population = Population.generate(config, self.market, days, arms, rng)
        self.log = DailyLog(self.market, folder, config.window, config.split)

    def warm_up(self) -> None:
        """Fill a window of log before day 0; the simulator's own policy recommends to all arms."""
        usual = named_policy(self.market.config.policy, self.market.catalogue)
        for day in range(-self._config.window, 0):
            self.day(day, [usual] * self._arms)

    def day(self, day: int, policies: Sequence[Policy], *, lost: bool = False) -> DaySlates:
        """Let everybody meet the slates of a day, recommendations by the policy of each arm.

        With `lost`, searches go unrecorded: users meet them and click, but neither training nor
        the histories that recommendations are made from will know.
        """
        met = self._meet(day, policies, self._stream(1, day + self._config.window), lost=lost)
        self.log.record(day, met.only(~met.searched) if lost else met)
        return met

    def _meet(
        self, day: int, policies: Sequence[Policy], rng: np.random.Generator, *, lost: bool
    ) -> DaySlates:
        """Go through the slates of the day: everybody's first, then the second of some, …"""
        population = self.population
        present = population.present(day)
        visits = rng.poisson(self._config.slates_a_day, size=len(present))
        parts = [DaySlates.empty(self.market.config.max_slate)]
        for round_ in range(visits.max(initial=0)):
            again = present[visits > round_]
            for arm, policy in enumerate(policies):
                who = again[population.arm[again] == arm]
                seen = self.market.interact(population.users, policy, rng, who)
                parts.append(DaySlates.of(seen, arm, round_))
                if lost:
                    population.forget(who[seen.searched])
        return DaySlates.joined(parts)

    def _stream(self, *path: int) -> np.random.Generator:
        """Return a random stream of its own for each day: none depends on draws of another."""
        return np.random.default_rng(np.random.SeedSequence([self._seed, *path]))
