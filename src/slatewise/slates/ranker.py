"""What a strategy asks of a posterior over a catalogue."""

from typing import Protocol

from slatewise.slates.users import Ints, Users


class Ranker(Protocol):
    """Ranks items for users, best first; −1 fills places for which there is no item.

    A draw resamples everything the posterior is uncertain of: dynamics, initial state and items.
    """

    def by_mean(self, users: Users, k: int) -> Ints:
        """Rank by relevance at the posterior mean: [B, k]."""
        ...

    def by_draws(self, users: Users, k: int, draws: int) -> Ints:
        """Rank by relevance in J posterior draws each: [B, J, k]."""
        ...

    def by_expectation(self, users: Users, k: int, draws: int) -> Ints:
        """Rank by relevance averaged over the posterior, users over so many draws: [B, k]."""
        ...

    def at_random(self, users: Users, k: int) -> Ints:
        """Take items uniformly from all that may be shown: [B, k]."""
        ...

    def interleave(self, users: Users, rankings: Ints, k: int) -> Ints:
        """Merge rankings [B, J, k] into slates within the users' filters: [B, k]."""
        ...
