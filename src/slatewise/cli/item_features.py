"""Features of items as a person names them: a table, and which of its columns."""

from pathlib import Path

import polars as pl
import torch

from slatewise.cli.show import console, table
from slatewise.data.dataset import SlateDataset
from slatewise.features.item_columns import read_item_columns
from slatewise.features.item_features import ItemEncoder
from slatewise.features.item_kinds import item_kinds, parse_kinds
from slatewise.model.item_features import ItemFeatures


def read_item_features(
    dataset: SlateDataset, file: Path | None, names: str | None
) -> ItemFeatures | None:
    """Read the columns named (all further ones of a file without names), and say what they are.

    Without a file they are those that the dataset kept of its items table. None if nothing is
    asked for.
    """
    if file is None and names is None:
        return None
    place = file or dataset.path / "items.parquet"
    kinds = item_kinds(place, parse_kinds(names) if names is not None else None)
    columns = read_item_columns(dataset, place, kinds)
    encoder = ItemEncoder.fit(columns, kinds, file=place)
    _tell(columns, encoder)
    return ItemFeatures(torch.from_numpy(encoder.encode(columns, file=place)), encoder)


def _tell(columns: pl.DataFrame, encoder: ItemEncoder) -> None:
    account = table("Item features", "column", "kind", "numbers", "items without")
    for column in encoder.columns:
        missing = columns[column.name].null_count()
        account.add_row(column.name, column.kind, f"{len(column.names):,}", f"{missing:,}")
    console.print(account)
    without = columns.select(pl.all_horizontal(pl.all().is_null()).sum()).item()
    if without:
        told = f"{without:,} of {columns.height:,} items have none of them"
        console.print(f"{told}: only their groups tell where they are.", style="dim")
    console.print()
