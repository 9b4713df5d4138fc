"""Which interactions are scored."""

from typing import Literal

import torch
from torch import Tensor

from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions

Part = Literal["training", "validation", "test"]
"""A part of the split: [0, train_end), [train_end, valid_end) or the rest, of each user."""


def part_bounds(data: SlateDataset | Interactions, part: Part) -> tuple[Tensor, Tensor]:
    """Return the first interaction of the part and the end of it, for each user: [B], [B] int64.

    Numbers are within the user; where the part is empty, both are equal.
    """
    counts = torch.as_tensor(data.user_offsets).diff()
    train_end = torch.as_tensor(data.train_end).long().minimum(counts)
    valid_end = torch.as_tensor(data.valid_end).long().minimum(counts)
    if part == "training":
        return torch.zeros_like(counts), train_end
    return (train_end, valid_end) if part == "validation" else (valid_end, counts)


def scored_interactions(data: SlateDataset | Interactions, part: Part) -> Tensor:
    """Mark the interactions that belong to a part: [N] bool."""
    first, end = part_bounds(data, part)
    offsets = torch.as_tensor(data.user_offsets)
    users = torch.repeat_interleave(torch.arange(len(first)), offsets.diff())
    step = torch.arange(len(users)) - offsets[users]
    return (step >= first[users]) & (step < end[users])
