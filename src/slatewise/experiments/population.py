"""Who is on the platform: users who arrive, stay for a while in one arm, and leave."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from slatewise.experiments.online import OnlineConfig
from slatewise.simulation import Marketplace, Users
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
