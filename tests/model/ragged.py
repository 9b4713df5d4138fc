"""Random ragged batches, and the slow way through them that the tests compare with."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor

from slatewise.data.interactions import Interactions


class Met(NamedTuple):
    """One interaction, in plain Python."""

    index: int
    slate: list[int]
    click: int
    """the item clicked, -1 for none"""
    source: int


def random_interactions(
    seed: int,
    *,
    users: int = 6,
    longest_user: int = 8,
    items: int = 12,
    longest_slate: int = 6,
    click_share: float = 0.6,
) -> Interactions:
    """Draw users with 0 to `longest_user` interactions, all of them for training."""
    generator = torch.Generator().manual_seed(seed)

    def whole(low: int, high: int, count: int) -> Tensor:
        return torch.randint(low, high + 1, (count,), generator=generator)

    steps = whole(0, longest_user, users)
    count = int(steps.sum())
    lengths = whole(1, min(longest_slate, items), count)
    slates = [torch.randperm(items, generator=generator)[:length] for length in lengths.tolist()]
    clicked = torch.rand(count, generator=generator) < click_share
    position = (torch.rand(count, generator=generator) * lengths).long()
    return Interactions(
        user_offsets=torch.cat([torch.zeros(1, dtype=torch.int64), steps.cumsum(0)]),
        train_end=steps.int(),
        valid_end=steps.int(),
        times=torch.arange(count),
        sources=whole(0, 1, count).to(torch.uint8),
        clicks=torch.where(clicked, position, -1).int(),
        slate_offsets=torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]),
        slate_items=torch.cat([torch.empty(0, dtype=torch.int64), *slates]).int(),
    )


ragged = st.builds(
    random_interactions,
    st.integers(0, 2**32 - 1),
    users=st.integers(0, 7),
    longest_user=st.integers(0, 9),
    items=st.integers(1, 12),
    click_share=st.sampled_from([0.0, 0.3, 0.7, 1.0]),
)


def histories(batch: Interactions) -> Iterator[list[Met]]:
    """Go through the users one by one, and through what each of them met."""
    offsets, slates = batch.user_offsets.tolist(), batch.slate_offsets.tolist()
    for first, end in pairwise(offsets):
        met = []
        for index in range(first, end):
            slate = batch.slate_items[slates[index] : slates[index + 1]].tolist()
            position = int(batch.clicks[index])
            click = slate[position] if position >= 0 else -1
            met.append(Met(index, slate, click, int(batch.sources[index])))
        yield met


def normals(seed: int, *shape: int) -> Tensor:
    """Draw standard normals in float64."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
