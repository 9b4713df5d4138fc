"""Where in its slate an item was seen: explains clicks, and ranks nothing.

People click what stands first, and ranking puts first what they like: from a log alone the two
cannot be told apart.
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


class PositionSettings(Config):
    """Settings of the position term."""

    sigma_position: PositiveFloat = 1.0
    """Prior of what a position in the slate adds."""


class Position(Term):
    """One number for each position in the slate, [S]."""

    name = "position"
    ranks: ClassVar[Ranks] = "never"
    Settings = PositionSettings

    @classmethod
    def parameters(
        cls, config: "ModelConfig", longest_slate: int, sources: Sequence[str] = ()
    ) -> dict[str, Parameter]:
        """Return what the first, second, … position adds."""
        scale, rows = config.of(cls).sigma_position, range(longest_slate)
        return {"position": Parameter(torch.zeros(longest_slate), scale, rows=rows)}

    @classmethod
    def obstacle(cls, dataset: SlateDataset) -> str | None:
        """Return why a log cannot teach it: slates of one item have one position."""
        if (np.diff(dataset.slate_offsets) > 1).any():
            return None
        return "every slate has one item"


PART: Final = Position
