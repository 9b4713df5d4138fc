"""Interactions as tensors, for any set of users at once, on any device."""

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from slatewise.data.ragged import Int64Array

if TYPE_CHECKING:
    from slatewise.data.dataset import SlateDataset


@dataclass(frozen=True)
class SeveralClicks:
    """What interactions that are clicks on one slate know of each other."""

    further: Tensor
    """[N] int32: clicks made before on the same slate, 0 for the first click or none"""
    stops: Tensor
    """[N] bool: whether the user had enough after this click, with items left to click"""
    taken: Tensor
    """[F] bool: whether an item seen had been clicked before, and is no longer a choice"""

    @classmethod
    def of(
        cls,
        further: npt.NDArray[np.int32],
        clicks: npt.NDArray[np.int32],
        slate_offsets: Int64Array,
    ) -> "SeveralClicks":
        """Work out the rest from how many clicks [N] came before each interaction."""
        taken = np.zeros(int(slate_offsets[-1]), dtype=np.bool_)
        for count in range(1, int(further.max(initial=0)) + 1):
            rows = np.flatnonzero(further >= count)
            taken[slate_offsets[rows] + clicks[rows - count]] = True
        goes_on = np.concatenate([further[1:] > 0, [False]])[: len(further)]
        left = np.diff(slate_offsets) - further - 1
        stops = (np.asarray(clicks) >= 0) & ~goes_on & (left > 0)
        return cls(
            torch.from_numpy(further),
            torch.from_numpy(stops),
            torch.from_numpy(taken),
        )

    def gathered(self, rows: Tensor, cells: Tensor) -> "SeveralClicks":
        """Return the same of some interactions and their cells."""
        return SeveralClicks(self.further[rows], self.stops[rows], self.taken[cells])

    def to(self, device: torch.device | str) -> "SeveralClicks":
        """Return the same on a device."""
        return SeveralClicks(*(part.to(device) for part in (self.further, self.stops, self.taken)))


@dataclass(frozen=True)
class Interactions:
    """The interactions of B users, ragged in two levels: users have interactions, those slates."""

    user_offsets: Tensor
    """[B + 1] int64: user b has the interactions from `user_offsets[b]` to the next"""
    train_end: Tensor
    """[B] int32"""
    valid_end: Tensor
    """[B] int32"""
    times: Tensor
    """[N] int64"""
    sources: Tensor
    """[N] uint8"""
    clicks: Tensor
    """[N] int32: position in the slate, -1 for no click"""
    slate_offsets: Tensor
    """[N + 1] int64: the slate of n is `slate_items[slate_offsets[n] : slate_offsets[n + 1]]`"""
    slate_items: Tensor
    """[F] int32"""
    cell_features: Tensor | None = None
    """[F, P] features of each item seen for a model's terms, if computed: float32, on a GPU of half
    precision or of one byte"""
    step_features: Tensor | None = None
    """[N, Q] float32: features of each interaction, if computed"""
    cell_scales: Tensor | None = None
    """[P] by which features of one byte are multiplied; None where they are as they are"""
    several: SeveralClicks | None = None
    """which interactions are further clicks on one slate; None where no slate has several"""

    @classmethod
    def of_dataset(cls, dataset: "SlateDataset", device: torch.device | str) -> "Interactions":
        """Wrap the mapped arrays; a device other than the CPU gets one copy of each."""
        arrays: dict[str, Any] = {
            field.name: torch.from_numpy(getattr(dataset, field.name)).to(device)
            for field in fields(cls)
            if field.default is not None
        }
        further = dataset.further_clicks
        if further is None:
            return cls(**arrays)
        several = SeveralClicks.of(further, dataset.clicks, dataset.slate_offsets)
        return cls(**arrays, several=several.to(device))

    @classmethod
    def of_clicks(cls, items: Tensor, offsets: Tensor) -> "Interactions":
        """Make an interaction of each click, on a slate of one: user b has `items[offsets[b] : …]`.

        A user's state moves with clicks only, so this is all a profile needs: items [K], offsets
        [B + 1].
        """
        count = len(items)
        lengths = offsets.diff().int()
        zeros = torch.zeros(count, dtype=torch.int32, device=items.device)
        return cls(
            user_offsets=offsets,
            train_end=lengths,
            valid_end=lengths,
            times=zeros.long(),
            sources=zeros.byte(),
            clicks=zeros,
            slate_offsets=torch.arange(count + 1, device=items.device),
            slate_items=items.int(),
        )

    @property
    def num_users(self) -> int:
        """B, the number of users."""
        return len(self.train_end)

    @property
    def scroll_lengths(self) -> Tensor:
        """[N] how many items of each slate were seen."""
        return self.slate_offsets.diff()

    @property
    def clicked_items(self) -> Tensor:
        """[N] the item clicked, -1 for none."""
        index = self.slate_offsets[:-1] + self.clicks.clamp(min=0)
        return torch.where(self.clicks >= 0, self.slate_items[index], -1)

    @property
    def first_choices(self) -> Tensor:
        """[N] whether an interaction is not a further click on a slate."""
        if self.several is None:
            return torch.ones_like(self.clicks, dtype=torch.bool)
        return self.several.further == 0

    def choices(self, scored: Tensor) -> Tensor:
        """Mark the items that could be chosen in interactions that `scored` [N] marks: [F] bool.

        What was clicked before on the same slate is no longer among them.
        """
        seen = torch.repeat_interleave(scored, self.scroll_lengths)
        return seen if self.several is None else seen & ~self.several.taken

    def features_of(self, cells: Tensor) -> Tensor | None:
        """Return the features of some of the items seen, as numbers: [cells, P]."""
        found = _taken(self.cell_features, cells)
        return found if found is None or self.cell_scales is None else found * self.cell_scales

    def with_items(self, items: Tensor) -> "Interactions":
        """Return the same interactions with other numbers for the items seen: [F]."""
        return replace(self, slate_items=items)

    def to(self, device: torch.device | str) -> "Interactions":
        """Return the same interactions on a device."""
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        moved: dict[str, Any] = {
            name: None if part is None else part.to(device) for name, part in parts.items()
        }
        return Interactions(**moved)

    def of_users(self, users: Tensor, ends: Tensor | None = None) -> "Interactions":
        """Gather the interactions of users [B], in that order, without a loop over them.

        With `ends` [B], only the first `ends[b]` of each.
        """
        first, counts = _rows(self.user_offsets, users)
        counts = counts if ends is None else torch.minimum(counts, ends)
        rows = _ranges(first, counts)
        start, lengths = _rows(self.slate_offsets, rows)
        cells = _ranges(start, lengths)
        return Interactions(
            user_offsets=_offsets(counts),
            train_end=self.train_end[users],
            valid_end=self.valid_end[users],
            times=self.times[rows],
            sources=self.sources[rows],
            clicks=self.clicks[rows],
            slate_offsets=_offsets(lengths),
            slate_items=self.slate_items.index_select(0, cells),
            cell_features=self.features_of(cells),
            step_features=_taken(self.step_features, rows),
            several=None if self.several is None else self.several.gathered(rows, cells),
        )


def _rows(offsets: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    start = offsets[index]
    return start, offsets[index + 1] - start


def _taken(features: Tensor | None, rows: Tensor) -> Tensor | None:
    return None if features is None else features.index_select(0, rows)


def _offsets(lengths: Tensor) -> Tensor:
    return torch.nn.functional.pad(lengths.cumsum(0), (1, 0))


def _ranges(starts: Tensor, lengths: Tensor) -> Tensor:
    """Concatenate `arange(start, start + length)` over all rows."""
    ends = lengths.cumsum(0)
    total = int(ends[-1]) if len(ends) else 0
    shift = torch.repeat_interleave(starts - (ends - lengths), lengths, output_size=total)
    return torch.arange(total, device=starts.device) + shift
