"""Strategies by name, as people write them in commands and configurations."""

from collections.abc import Callable
from typing import Final, Protocol

from slatewise.errors import SlatewiseError
from slatewise.plugins import is_import_path, load_object
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


NEEDS: Final = ("name", "slates(ranker, users, k)")
"""What an object must have to be a strategy."""


def named_strategy(name: str) -> Strategy:
    """Return a strategy by its name, with its defaults, or by its import path."""
    if is_import_path(name):
        own: Strategy = load_object(name, "strategy", NEEDS, instance=True)
        return own
    if name not in STRATEGIES:
        raise SlatewiseError(
            f"there is no strategy '{name}'.",
            f"Choose one of {', '.join(STRATEGIES)}, or give an import path.",
        )
    return STRATEGIES[name]()
