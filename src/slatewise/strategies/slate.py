"""A slate, and all that is needed to make the very same again."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slatewise.features.showings import Showing
from slatewise.model.fitted import ItemId
from slatewise.ranking import Filter
from slatewise.strategies.history import PastSlate
from slatewise.strategies.users import Ints, Users

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Slate:
    """What a user is shown, first item first."""

    items: list[ItemId]
    groups: list[str]
    relevance: Doubles
    """[k] expected relevance exp(utility), over the posterior"""
    uncertainty: Doubles
    """[k] posterior standard deviation of the relevance"""
    strategy: str
    seed: int
    """with the same model, clicks and filters, this seed gives this slate"""
    unknown: list[ItemId]
    """items of the history that the model does not know, and that were ignored"""
    numbers: Ints
    """[k] the items, as rows of the table"""
    clicks: Ints
    """the user's known clicks, as rows of the table"""
    filter: Filter
    """what could be shown"""
    unclicked: tuple[PastSlate, ...] = ()
    """the slates of the history that the user did not click on"""
    shown: Sequence[Showing] = ()
    """all of the history, as slates"""

    def __len__(self) -> int:
        """Return how many items are shown; fewer than asked for if there were no more."""
        return len(self.items)

    @property
    def user(self) -> Users:
        """The user that this slate was made for."""
        return Users([self.clicks], [self.filter], [self.seed], [self.unclicked], [self.shown])
