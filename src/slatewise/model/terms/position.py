"""Where in its slate an item was seen: explains clicks, and ranks nothing.

People click what stands first, and ranking puts first what they like: from a log alone the two
cannot be distinguished. How much the position matters depends on where the slate came from, and on
how many slates the user has seen: who comes back looks further down.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import torch
from pydantic import PositiveFloat

from slatewise.config import Config
from slatewise.data.dataset import SlateDataset
from slatewise.model.part import Parameter
from slatewise.model.terms.term import Ranks, Term

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig

RETURNS: Final = (1, 5)
"""Slates seen before, from which on the position has another factor."""


class PositionSettings(Config):
    """Settings of the position term."""

    sigma_position: PositiveFloat = 1.0
    """Prior of what a position in the slate adds."""
    sigma_position_factor: PositiveFloat = 0.5
    """Prior of the logarithm of the factors of positions: by source, and for returning users."""


class Position(Term):
    """One number for each position in the slate, [S], times factors of source and of returning."""

    name = "position"
    ranks: ClassVar[Ranks] = "never"
    by_source: ClassVar[bool] = True
    Settings = PositionSettings

    @classmethod
    def parameters(
        cls, config: "ModelConfig", longest_slate: int, sources: Sequence[str] = ()
    ) -> dict[str, Parameter]:
        """Return what the first, second, … position adds, and the logarithms of its factors."""
        own, rows = config.of(cls), range(longest_slate)
        factors = (*sources, *(f"after {count}" for count in RETURNS))
        return {
            "position": Parameter(torch.zeros(longest_slate), own.sigma_position, rows=rows),
            "position_factor": Parameter(
                torch.zeros(len(factors)), own.sigma_position_factor, rows=factors, added=True
            ),
        }

    @classmethod
    def obstacle(cls, dataset: SlateDataset) -> str | None:
        """Return why a log cannot teach it: slates of one item have one position."""
        if (np.diff(dataset.slate_offsets) > 1).any():
            return None
        return "every slate has one item"


PART: Final = Position
