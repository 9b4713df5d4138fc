"""What a network knows of single items: their groups, columns, dates and click rates.

A fit leaves these among its tensors, for its I items. Items that come later have rows behind them;
those that nobody described have the mean of all columns and no date.

Shapes: I items of the fit, n later ones, m items asked for, J items of another log, R described
ones, C columns, K dates.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from slatewise.data.ragged import Int64Array
from slatewise.features.item_dates import MISSING, read_dates, require_date
from slatewise.features.item_features import ItemEncoder
from slatewise.features.item_values import encode_values, refuse_misfits
from slatewise.model.network.architecture import CLIP

Facts = Mapping[str, npt.NDArray[Any]]
"""What features say of items: `item_columns` [R, C] and `item_dates` [R, K], if it reads these."""

NO_ITEMS: Final[Mapping[str, Tensor]] = {}
"""No later items."""


def facts_of(
    encoder: ItemEncoder | None,
    dates: Sequence[str],
    tensors: Mapping[str, Tensor],
    items: Sequence[Mapping[str, object]],
) -> tuple[Facts, int]:
    """Read features of items [R], and count the values that do not fit: they are unknown.

    An item without any has the mean of all columns.
    """
    facts, misfits = dict[str, npt.NDArray[Any]](), 0
    if encoder is not None and (known := tensors.get("item_columns")) is not None:
        values, misfits = encode_values(encoder, items)
        values = values.clip(-CLIP, CLIP)
        values[[not item for item in items]] = known[-1].numpy()
        facts["item_columns"] = values
    if dates:
        read = [read_dates([item.get(name) for item in items]) for name in dates]
        facts["item_dates"] = np.stack([found for found, _ in read], 1)
        misfits += sum(wrong for _, wrong in read)
    return facts, misfits


def refuse_other_kinds(
    encoder: ItemEncoder | None,
    dates: Sequence[str],
    values: Mapping[str, object],
    row: int | None,
) -> None:
    """Refuse features of an item that are of another kind than the network read."""
    if encoder is not None:
        refuse_misfits(encoder, values, row=row)
    for name in dates:
        require_date(values.get(name), name, row)


def with_later(
    tensors: Mapping[str, Tensor],
    later: Mapping[str, Tensor],
    groups: npt.NDArray[np.integer[Any]],
    facts: Facts,
) -> dict[str, Tensor]:
    """Return the later items with more behind them: their groups [R], and what is known of them."""
    added = {"item_groups": torch.from_numpy(groups.astype(np.int32))}
    count = len(groups)
    if "item_columns" in tensors:
        mean = tensors["item_columns"][-1:].expand(count, -1)
        added["item_columns"] = _given(facts, "item_columns", mean)
    if "item_dates" in tensors:
        none = torch.full((count, len(tensors["item_dates"])), MISSING)
        added["item_dates"] = _given(facts, "item_dates", none)
    if not later:
        return added
    return {name: torch.cat([later[name], part]) for name, part in added.items()}


def groups_of(
    tensors: Mapping[str, Tensor], later: Mapping[str, Tensor], items: Int64Array, groups: int
) -> Tensor:
    """Return the groups of items [m], `groups` where that is not known."""
    return _rows(tensors, later, "item_groups", torch.from_numpy(items), groups)


def of_items(
    tensors: Mapping[str, Tensor], later: Mapping[str, Tensor], items: Int64Array, groups: int
) -> dict[str, Tensor]:
    """Return the tensors as those of items [m], which may be later ones or unknown (−1).

    `groups` stands for a group that is not known.
    """
    rows, found = torch.from_numpy(items), dict(tensors)
    found["item_groups"] = groups_of(tensors, later, items, groups)
    if (columns := tensors.get("item_columns")) is not None:
        own = {"item_columns": columns[:-1]}
        mean = columns[-1:]
        found["item_columns"] = torch.cat([_rows(own, later, "item_columns", rows, mean), mean])
    if (dates := tensors.get("item_dates")) is not None:
        own = {"item_dates": dates.T}
        found["item_dates"] = _rows(own, later, "item_dates", rows, MISSING).T.contiguous()
    if "item_rates" in tensors:  # the mean, as of all new items
        mean = tensors["items_mean"][-1]
        found["item_rates"] = _rows(tensors, NO_ITEMS, "item_rates", rows, mean)
    return found


def on_other_items(
    tensors: Mapping[str, Tensor],
    known: Int64Array,
    groups: npt.NDArray[np.integer[Any]],
    described: Int64Array,
    facts: Facts,
) -> dict[str, Tensor]:
    """Return the tensors as those of other items [J], of which item j was `known[j]`, or is new.

    New ones are of `groups` [J], and those of them at `described` [R] are what facts say: of
    others, what they were in training counts, as where they are served.
    """
    found = of_items(tensors, NO_ITEMS, known, 0)
    new = torch.from_numpy(known < 0)
    found["item_groups"][new] = torch.from_numpy(groups.astype(np.int32))[new]
    came = known[described] < 0
    rows = torch.from_numpy(described[came])
    if "item_columns" in facts:
        found["item_columns"][rows] = torch.from_numpy(facts["item_columns"][came])
    if "item_dates" in facts:
        found["item_dates"][:, rows] = torch.from_numpy(facts["item_dates"][came]).T
    return found


def read_otherwise(
    tensors: Mapping[str, Tensor], items: Int64Array, facts: Facts
) -> npt.NDArray[np.bool_]:
    """Return for which items [R] of the fit facts say other than was known there."""
    other = np.zeros(len(items), np.bool_)
    if "item_columns" in facts:
        known = tensors["item_columns"].numpy()[items]
        other |= ~np.isclose(known, facts["item_columns"], atol=1e-4).all(1)
    if "item_dates" in facts:
        other |= (tensors["item_dates"].numpy().T[items] != facts["item_dates"]).any(1)
    return other


def _given(facts: Facts, name: str, otherwise: Tensor) -> Tensor:
    return torch.from_numpy(facts[name]) if name in facts else otherwise


def _rows(
    tensors: Mapping[str, Tensor],
    later: Mapping[str, Tensor],
    name: str,
    rows: Tensor,
    unknown: Tensor | int,
) -> Tensor:
    """Return rows [m] of a tensor [I, …] with later ones [n, …] behind it; others are unknown."""
    own = tensors[name]
    inside = (rows >= 0) & (rows < len(own))
    found = own[torch.where(inside, rows, 0)]
    found[~inside] = torch.as_tensor(unknown, dtype=found.dtype)
    if name in later:
        behind = (rows >= len(own)) & (rows < len(own) + len(later[name]))
        found[behind] = later[name][rows[behind] - len(own)]
    return found
