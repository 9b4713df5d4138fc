"""Strategies by name, as people write them in commands and configurations."""

from collections.abc import Callable
from typing import Final, Protocol

from slatewise.errors import SlatewiseError
from slatewise.strategies.epsilon import EpsilonMix
from slatewise.strategies.greedy import Greedy
from slatewise.strategies.in_slate import InSlateThompson
from slatewise.strategies.posterior_mean import PosteriorMean
from slatewise.strategies.ranker import Ranker
from slatewise.strategies.thompson import Thompson
from slatewise.strategies.users import Ints, Users


class Strategy(Protocol):
    """Turns what a posterior says of users into their slates."""

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    def slates(self, ranker: Ranker, users: Users, k: int) -> Ints:
        """Return slates [B, k] of distinct items, −1 where there is none left to show.

        The same users with the same seeds get the same slates.
        """
        ...


STRATEGIES: Final[dict[str, Callable[[], Strategy]]] = {
    strategy.name: strategy
    for strategy in (Greedy, Thompson, InSlateThompson, PosteriorMean, EpsilonMix)
}


def named_strategy(name: str) -> Strategy:
    """Return the strategy that goes by `name`, with its defaults."""
    if name not in STRATEGIES:
        raise SlatewiseError(
            f"there is no strategy '{name}'.", f"Choose one of {', '.join(STRATEGIES)}."
        )
    return STRATEGIES[name]()
