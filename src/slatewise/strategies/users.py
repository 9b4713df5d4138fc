"""Who asks for a slate: click histories, filters and seeds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from slatewise.data.interactions import Interactions
from slatewise.data.ragged import offsets_of
from slatewise.ranking import Filter

Ints = npt.NDArray[np.int64]

NO_FILTER = Filter()


@dataclass(frozen=True)
class Users:
    """B users, each with what she clicked, what she must not be shown, and a seed of her own."""

    clicks: Sequence[Ints]
    """[B] the items each clicked, oldest first, as numbers"""
    filters: Sequence[Filter]
    """[B]"""
    seeds: Sequence[int]
    """[B] of everything random in the slate of a user"""

    @classmethod
    def of_clicks(cls, clicks: Sequence[Ints], seed: int, *, show_clicked: bool) -> "Users":
        """Take users who may be shown everything, or all but their own clicks; b has seed + b."""
        filters = [NO_FILTER if show_clicked else Filter(exclude=row) for row in clicks]
        return cls(clicks, filters, [seed + number for number in range(len(clicks))])

    def __len__(self) -> int:
        """Return B."""
        return len(self.clicks)

    def interactions(self) -> Interactions:
        """Return the clicks as interactions."""
        lengths = np.array([len(row) for row in self.clicks], dtype=np.int64)
        flat = np.concatenate([*self.clicks, np.empty(0, np.int64)])
        return Interactions.of_clicks(torch.from_numpy(flat), torch.from_numpy(offsets_of(lengths)))
