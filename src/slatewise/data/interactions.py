"""Interactions as tensors, for any set of users at once, on any device."""

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from slatewise.data.dataset import SlateDataset


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
    """[F, P] float32: features of each item seen for a model's terms, if computed"""
    step_features: Tensor | None = None
    """[N, Q] float32: features of each interaction, if computed"""

    @classmethod
    def of_dataset(cls, dataset: "SlateDataset", device: torch.device | str) -> "Interactions":
        """Wrap the mapped arrays; a device other than the CPU gets one copy of each."""
        return cls(
            **{
                field.name: torch.from_numpy(getattr(dataset, field.name)).to(device)
                for field in fields(cls)
                if field.default is not None
            }
        )

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
            cell_features=_taken(self.cell_features, cells),
            step_features=_taken(self.step_features, rows),
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
