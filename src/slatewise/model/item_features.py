"""Columns of the items table that predict the vector of an item, also before it was seen."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from slatewise.data.dataset import SlateDataset
from slatewise.features.item_columns import Kind, read_item_columns
from slatewise.features.item_features import ItemEncoder


@dataclass(frozen=True)
class ItemFeatures:
    """Features of the items of a dataset, and how they were made of the columns."""

    matrix: Tensor
    """[I, Q] float32"""
    encoder: ItemEncoder
    """encodes new items in the same way"""

    @classmethod
    def read(
        cls, dataset: SlateDataset, table: str | Path, kinds: Mapping[str, Kind]
    ) -> "ItemFeatures":
        """Read the columns named in `kinds` (number, category or embedding) by item id."""
        columns = read_item_columns(dataset, table, kinds)
        encoder = ItemEncoder.fit(columns, kinds, file=Path(table))
        return cls(torch.from_numpy(encoder.encode(columns, file=Path(table))), encoder)

    @property
    def digest(self) -> str:
        """Hash that identifies the features."""
        return hashlib.sha256(self.matrix.numpy().tobytes()).hexdigest()
