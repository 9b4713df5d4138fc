"""Columns of the items table as the network reads them, beside what passed before.

Every column of the dataset's items that can be a feature is one; others are named with the reason.
Dates are kept apart: what they say changes with time (`slatewise.features.item_dates`).

Shapes: I items, C columns of the matrix.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from slatewise.data.dataset import SlateDataset
from slatewise.data.ragged import Int64Array
from slatewise.features.item_dates import date_columns
from slatewise.features.item_features import ItemEncoder
from slatewise.features.item_kinds import usable_kinds
from slatewise.model.network.architecture import CLIP

if TYPE_CHECKING:
    import polars as pl

    from slatewise.features.item_columns import Kind

MOST_CATEGORIES: Final = 30
"""Values of a category, and tags, with a column of their own: the network reads all of an item."""
LONGEST_VECTOR: Final = 64
"""Numbers of an embedding beyond which it is left out, for the same reason."""


@dataclass(frozen=True)
class ItemMatrix:
    """What is known of every item from the columns of its table."""

    encoder: ItemEncoder
    values: Tensor
    """[I, C] float32"""
    skipped: dict[str, str]
    """columns that are not used, and why"""
    dates: dict[str, Int64Array]
    """[I] of each column of dates"""

    @classmethod
    def of(cls, dataset: SlateDataset) -> "ItemMatrix":
        """Encode the columns of a dataset's items."""
        dates, file = date_columns(dataset.items), dataset.path / "items.parquet"
        items = dataset.items.drop(list(dates))
        kinds, skipped = usable_kinds(items, file)
        for name in [name for name, kind in kinds.items() if kind == "embedding"]:
            if (length := _length(items[name], file)) > LONGEST_VECTOR:
                skipped[name] = f"a vector of {length} numbers, {LONGEST_VECTOR} at most."
                del kinds[name]
        encoder = ItemEncoder.fit(items, kinds, most_categories=MOST_CATEGORIES, file=file)
        values = torch.from_numpy(encoder.encode(items, file=file)).clamp(-CLIP, CLIP)
        return cls(encoder, values, skipped, dates)

    @property
    def digest(self) -> str:
        """A digest of the matrix and of what its columns are."""
        digest = hashlib.blake2b(self.values.numpy().tobytes(), digest_size=16)
        digest.update(self.encoder.model_dump_json().encode())
        for name, values in self.dates.items():
            digest.update(name.encode() + values.tobytes())
        return digest.hexdigest()

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The matrix with a row for new items behind it, their mean: [I + 1, C]; or nothing."""
        if not self.values.shape[1]:
            return {}
        return {"item_columns": torch.cat([self.values, self.values.mean(0, keepdim=True)])}


def _length(values: "pl.Series", file: Path) -> int:
    """Return how many numbers the vectors of a column have."""
    kinds: dict[str, Kind] = {values.name: "embedding"}
    return len(ItemEncoder.fit(values.to_frame(), kinds, file=file).names)


def column_notes(
    encoder: ItemEncoder | None, skipped: Mapping[str, str], dates: Sequence[str] = ()
) -> list[str]:
    """Return which columns of items a network reads, and which not."""
    found = [f"It does not read '{name}': {why}" for name, why in skipped.items()]
    found = [f"It reads '{name}' as the age of an item." for name in dates] + found
    if encoder is not None and encoder.columns:
        names = ", ".join(column.name for column in encoder.columns)
        found.insert(0, f"The network reads these columns of the items: {names}.")
    return found
