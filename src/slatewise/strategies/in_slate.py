"""In-slate Thompson sampling: several draws mixed within every slate."""

from dataclasses import dataclass

from slatewise.strategies.ranker import Ranker
from slatewise.strategies.users import Ints, Users


@dataclass(frozen=True)
class InSlateThompson:
    """Draw everything J times, rank by each draw, and interleave (strategy:inslateTS)."""

    draws: int = 12
    """J"""

    name = "in-slate-thompson"

    def slates(self, ranker: Ranker, users: Users, k: int) -> Ints:
        """Return slates [B, k]."""
        return ranker.interleave(users, ranker.by_draws(users, k, self.draws), k)
