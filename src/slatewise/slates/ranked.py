"""A given list of items, ordered for a user."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from slatewise.model.fitted import ItemId

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RankedItems:
    """Items in the order of their utility to a user, best first; nothing about it is random."""

    items: list[ItemId]
    groups: list[str]
    utilities: Doubles
    """[k] in closed form, of all terms that rank: what every slate is made by"""
    probabilities: Doubles
    """[k] that a click on one of the items given falls on this one, position apart"""
    left_out: list[ItemId]
    """items given that the model does not know, or that are not on offer"""
    unknown: list[ItemId]
    """items of the history that the model does not know, and that were ignored"""
    notes: list[str] = field(default_factory=list)
    """what the ranking could not take into account"""

    def __len__(self) -> int:
        """Return how many items there are."""
        return len(self.items)


def click_shares(utilities: Doubles) -> Doubles:
    """Return how a click is shared by items [n] with these utilities: their softmax, [n]."""
    relevance: Doubles = np.exp(utilities - utilities.max()) if len(utilities) else utilities
    shares: Doubles = relevance / relevance.sum()
    return shares
