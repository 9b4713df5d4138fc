"""Starting from an earlier model: what it learned of items by id, of groups by name."""

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from slatewise.data.dataset import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.model.fitted import SlateModel
from slatewise.model.posterior import Posterior


def take_over(posterior: Posterior, earlier: SlateModel, dataset: SlateDataset) -> Tensor:
    """Move a fresh posterior to where an earlier model ended, in place.

    Items that the earlier model did not know get the predictive of their group. What it has no
    counterpart for, such as a new group or a GRU after linear dynamics, stays as it is. Returns how
    often the earlier training saw each item: [I].
    """
    _require_same_shape(posterior, earlier)
    old, new = earlier.posterior.tensors(), posterior.tensors()
    groups = _places(dataset.group_names, earlier.group_names)  # [G]
    items = _places(dataset.item_ids.to_list(), earlier.item_ids)  # [I]
    apart = ["items."]
    if posterior.config.half_lives != earlier.config.half_lives:
        apart.append("popularity.")
    if _num_features(posterior) != _num_features(earlier.posterior):
        apart.append("feature_weights.")
    rest = [name for name in new if name in old and not name.startswith(tuple(apart))]
    for name in rest:
        if name.startswith("group_"):
            _copy_rows(new[name], old[name], groups)
        elif name.startswith(("no_click.", "position.")):  # [longest slate], which may have grown
            steps = torch.arange(len(new[name]))
            _copy_rows(new[name], old[name], torch.where(steps < len(old[name]), steps, -1))
        elif name.startswith("evidence."):
            names = posterior.config.evidence, earlier.config.evidence
            _copy_rows(new[name], old[name], _places(*names))
        else:
            new[name].copy_(old[name])
    posterior.fill_unseen(items + 1)
    for name in ("items.mean", "items.raw"):
        _copy_rows(new[name], old[name], items)
    views = torch.zeros(len(items), dtype=earlier.views.dtype)
    _copy_rows(views, earlier.views, items)
    return views.to(posterior.item_groups.device)


def _places(names: Sequence[Hashable], earlier: Sequence[Hashable]) -> Tensor:
    """Return where each of the names stands among the earlier ones, −1 for nowhere: [R]."""
    place = {name: number for number, name in enumerate(earlier)}
    return torch.tensor([place.get(name, -1) for name in names], dtype=torch.int64)


def _copy_rows(into: Tensor, source: Tensor, places: Tensor) -> None:
    """Fill row r of `into` with row `places[r]` of `source`, where that is not −1."""
    known = torch.nonzero(places >= 0).squeeze(1)
    into[known.to(into.device)] = source[places[known]].to(into.device)


def _num_features(posterior: Posterior) -> int:
    return 0 if posterior.item_features is None else posterior.item_features.shape[1]


def _require_same_shape(posterior: Posterior, earlier: SlateModel) -> None:
    now, before = (
        (config.item_columns, config.dimensions, config.state_size, config.sigma_max)
        for config in (posterior.config, earlier.config)
    )
    if now != before:
        raise SlatewiseError(
            "the model to start from has other dimensions, hidden, sigma_max or item biases.",
            "Start from a model with the same, or from none.",
        )
