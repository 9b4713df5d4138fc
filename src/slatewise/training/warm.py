"""Warm starts from an earlier model, with items matched by id and groups by name."""

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from slatewise.data.dataset import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.model.fitted import SlateModel
from slatewise.model.posterior import Posterior


def take_over(posterior: Posterior, earlier: SlateModel, dataset: SlateDataset) -> Tensor:
    """Set a new posterior to that of an earlier model, in place.

    Parameters are matched by name, and their rows by group, source, position or feature. Items
    that the earlier model did not know get the predictive of their group. Parameters that it does
    not have, such as a new group or a GRU after linear dynamics, stay as they are.
    Returns how often the earlier training saw each item: [I].
    """
    _require_same_shape(posterior, earlier)
    old, new = earlier.posterior.tensors(), posterior.tensors()
    for name, part in posterior.shared.items():
        before = earlier.posterior.shared.get(name)
        if before is None:
            continue
        rows, old_rows = posterior.rows[name], earlier.posterior.rows[name]
        if rows is not None and old_rows is not None:
            found = _indices(rows, old_rows)
        elif part.mean.shape == before.mean.shape:
            found = None
        else:
            continue
        for field in ("mean", "raw"):
            _copy_rows(new[f"{name}.{field}"], old[f"{name}.{field}"], found)
    items = _indices(dataset.item_ids.to_list(), earlier.item_ids)  # [I]
    posterior.fill_unseen(items + 1)
    for name in ("items.mean", "items.raw"):
        _copy_rows(new[name], old[name], items)
    views = torch.zeros(len(items), dtype=earlier.views.dtype)
    _copy_rows(views, earlier.views, items)
    return views.to(posterior.item_groups.device)


def _indices(names: Sequence[Hashable], earlier: Sequence[Hashable]) -> Tensor:
    """Return the index of each name among the earlier ones, −1 if missing: [R]."""
    index = {name: number for number, name in enumerate(earlier)}
    return torch.tensor([index.get(name, -1) for name in names], dtype=torch.int64)


def _copy_rows(into: Tensor, source: Tensor, indices: Tensor | None) -> None:
    """Fill row r of `into` with row `indices[r]` of `source` where that is not −1; None: all."""
    if indices is None:
        into.copy_(source)
        return
    known = torch.nonzero(indices >= 0).squeeze(1)
    into[known.to(into.device)] = source[indices[known]].to(into.device)


def _require_same_shape(posterior: Posterior, earlier: SlateModel) -> None:
    now, before = (
        (
            one.config.item_columns,
            one.config.dimensions,
            one.parts.dynamics.state_size,
            one.config.sigma_max,
            one.config.relevance,
        )
        for one in (posterior, earlier.posterior)
    )
    if now != before:
        raise SlatewiseError(
            "the model to start from has other dimensions, hidden, sigma_max, relevance or item "
            "biases.",
            "Start from a model with the same, or from none.",
        )
