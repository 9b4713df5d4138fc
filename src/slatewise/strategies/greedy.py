"""Greedy: the best items at the posterior mean."""

from dataclasses import dataclass

from slatewise.strategies.ranker import Ranker
from slatewise.strategies.users import Ints, Users


@dataclass(frozen=True)
class Greedy:
    """Take the maximum a posteriori for the truth (strategy:greedy)."""

    name = "greedy"

    def slates(self, ranker: Ranker, users: Users, k: int) -> Ints:
        """Return slates [B, k]."""
        return ranker.by_mean(users, k)
