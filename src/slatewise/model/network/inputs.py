"""What the network is given: features of the strict past, standardised by the training part."""

from collections.abc import Mapping

import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.features.past import PastTable
from slatewise.model.network.architecture import CLIP, SlateInputs


def parts_of(log: Interactions) -> tuple[Tensor, Tensor]:
    """Return the interactions of the training part, and of the validation part."""
    users = torch.repeat_interleave(log.user_offsets.diff())
    index = torch.arange(len(users)) - log.user_offsets[:-1][users]
    training = index < log.train_end[users]
    validation = ~training & (index < log.valid_end[users])
    return training.nonzero()[:, 0], validation.nonzero()[:, 0]


def feature_scales(table: PastTable, log: Interactions, training: Tensor) -> dict[str, Tensor]:
    """Return mean and standard deviation of the features in the training part."""
    chosen = torch.zeros(len(log.clicks), dtype=torch.bool)
    chosen[training] = True
    scales = {}
    of_items = torch.repeat_interleave(chosen, log.scroll_lengths)
    for name, values in (("items", table.items[of_items]), ("slates", table.slates[chosen])):
        scales[f"{name}_mean"] = values.double().mean(0).float()
        scales[f"{name}_sd"] = values.double().std(0, correction=0).float().clamp(min=1e-3)
    return scales


def with_column(table: PastTable, column: Tensor) -> PastTable:
    """Return the table with one more feature of items: [F]."""
    return PastTable(torch.cat([table.items, column[:, None]], 1), table.slates)


def network_inputs(
    tensors: Mapping[str, Tensor], table: PastTable, interactions: Interactions
) -> SlateInputs:
    """Return what the network reads of interactions: features, groups of items, slates."""
    groups = tensors["item_groups"][interactions.slate_items.long()].long()
    return SlateInputs(*standardised(tensors, table), groups, interactions.slate_offsets)


def standardised(tensors: Mapping[str, Tensor], table: PastTable) -> tuple[Tensor, Tensor]:
    """Return the features of items [F, P] and of slates [N, Q], standardised and clipped."""
    items, slates = (
        ((values - tensors[f"{name}_mean"]) / tensors[f"{name}_sd"]).clamp(-CLIP, CLIP)
        for name, values in (("items", table.items), ("slates", table.slates))
    )
    return items, slates
