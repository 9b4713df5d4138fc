"""Posterior mean: the items of greatest expected relevance."""

from dataclasses import dataclass

from slatewise.strategies.ranker import Ranker
from slatewise.strategies.users import Ints, Users


@dataclass(frozen=True)
class PosteriorMean:
    """Rank by E exp(utility) over the posterior; not in the paper.

    Relevance is not linear in the parameters, so this is not greedy: an uncertain item may be
    worth more, or less, than its mean says.
    """

    draws: int = 20
    """of the user's profile; over the items the expectation is exact"""

    name = "posterior-mean"

    def slates(self, ranker: Ranker, users: Users, k: int) -> Ints:
        """Return slates [B, k]."""
        return ranker.by_expectation(users, k, self.draws)
