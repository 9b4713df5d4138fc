"""A slate, and all that is needed to make the very same again."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from slatewise.features.user_history import UserHistory
from slatewise.model.fitted import ItemId
from slatewise.notebook import html_table
from slatewise.ranking import Filter
from slatewise.slates.users import Ints, Users

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, repr=False)
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
    history: UserHistory
    """what the user did before, in rows of the table"""
    filter: Filter
    """what could be shown"""
    notes: list[str] = field(default_factory=list)
    """what the slate could not take into account"""
    source: int | None = None
    """where it will be shown, as the model numbers it; None for its usual source"""
    time: int | None = None
    """when it is shown, as that of `Users`"""

    def __len__(self) -> int:
        """Return how many items are shown; fewer than asked for if there were no more."""
        return len(self.items)

    def _repr_html_(self) -> str:
        rows = [
            (position + 1, item, group, f"{relevance:.3g}", f"{uncertainty:.2g}")
            for position, (item, group, relevance, uncertainty) in enumerate(
                zip(self.items, self.groups, self.relevance, self.uncertainty, strict=True)
            )
        ]
        columns = ("position", "item", "group", "relevance", "uncertainty")
        return html_table(f"Slate by {self.strategy}, seed {self.seed}", columns, rows)

    def __repr__(self) -> str:
        """Return the items, the strategy and the seed."""
        return f"Slate({self.items}, strategy={self.strategy!r}, seed={self.seed})"

    @property
    def user(self) -> Users:
        """The user that this slate was made for."""
        return Users([self.history], [self.filter], [self.seed], self.source, self.time)
