"""Who asks for a slate: histories, filters and seeds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from slatewise.data.interactions import Interactions
from slatewise.data.ragged import offsets_of
from slatewise.features.showings import Showing
from slatewise.ranking import Filter
from slatewise.strategies.history import Events, PastSlate, as_shown

Ints = npt.NDArray[np.int64]

NO_FILTER = Filter()
_EVERY_SOURCE = np.arange(256)
"""Places of `Events` by which every source counts, and has its own number."""


@dataclass(frozen=True)
class Users:
    """B users, each with what she clicked, what she must not be shown, and a seed of her own."""

    clicks: Sequence[Ints]
    """[B] the items each clicked, oldest first, as numbers"""
    filters: Sequence[Filter]
    """[B]"""
    seeds: Sequence[int]
    """[B] of everything random in the slate of a user"""
    unclicked: Sequence[Sequence[PastSlate]] | None = None
    """[B] the slates that each saw without a click, oldest first; None where nobody has any"""
    showings: Sequence[Sequence[Showing]] | None = None
    """[B] all that each saw, oldest first; None where no more is known than clicks and slates
    without one"""

    @classmethod
    def of_clicks(cls, clicks: Sequence[Ints], seed: int, *, show_clicked: bool) -> "Users":
        """Take users who may be shown everything, or all but their own clicks; b has seed + b."""
        filters = [NO_FILTER if show_clicked else Filter(exclude=row) for row in clicks]
        return cls(clicks, filters, [seed + number for number in range(len(clicks))])

    def __len__(self) -> int:
        """Return B."""
        return len(self.clicks)

    @property
    def slates(self) -> Sequence[Sequence[PastSlate]]:
        """[B] the slates that each saw without a click, oldest first."""
        return [()] * len(self) if self.unclicked is None else self.unclicked

    @property
    def shown(self) -> Sequence[Sequence[Showing]]:
        """[B] all that each saw, oldest first; a click of which no more is known is a slate."""
        if self.showings is not None:
            return self.showings
        return [as_shown(*user) for user in zip(self.clicks, self.slates, strict=True)]

    def interactions(self) -> Interactions:
        """Return clicks, and slates without a click, as interactions."""
        rows = zip(self.clicks, self.slates, strict=True)
        users = [Events.of(clicks, unclicked, _EVERY_SOURCE) for clicks, unclicked in rows]
        kinds = torch.from_numpy(_joined([user.kinds for user in users]))  # [N]
        items = torch.from_numpy(_joined([user.items for user in users]))  # [F]
        met = offsets_of(np.array([len(user.kinds) for user in users], dtype=np.int64))
        seen = offsets_of(_joined([np.diff(user.offsets) for user in users]))
        as_clicks = Interactions.of_clicks(kinds, torch.from_numpy(met))
        return replace(
            as_clicks,
            sources=kinds.clamp(min=0).byte(),
            clicks=torch.where(kinds < 0, 0, -1).int(),
            slate_offsets=torch.from_numpy(seen),
            slate_items=items.int(),
        )


def _joined(parts: Sequence[Ints]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *parts])
