"""Thompson sampling: the best items if one draw from the posterior were the truth."""

from dataclasses import dataclass

from slatewise.strategies.ranker import Ranker
from slatewise.strategies.users import Ints, Users


@dataclass(frozen=True)
class Thompson:
    """Draw everything once and be greedy (strategy:singleTS)."""

    name = "thompson"

    def slates(self, ranker: Ranker, users: Users, k: int) -> Ints:
        """Return slates [B, k]."""
        return ranker.by_draws(users, k, draws=1)[:, 0]
