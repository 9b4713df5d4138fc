"""Item features as options of a command: a table, and which of its columns."""

from pathlib import Path

import polars as pl
import torch

from slatewise.cli.show import console, table
from slatewise.data.dataset import SlateDataset
from slatewise.features.item_columns import read_item_columns
from slatewise.features.item_features import ItemEncoder
from slatewise.features.item_kinds import item_kinds, parse_kinds
from slatewise.model.item_features import ItemFeatures
from slatewise.words import counted


def read_item_features(
    dataset: SlateDataset, file: Path | None, names: str | None
) -> ItemFeatures | None:
    """Read the named columns, or all further columns of a file, and print their kinds.

    Without a file, read the columns that the dataset kept of its items table. Return None if
    neither is given.
    """
    if file is None and names is None:
        return None
    table_path = file or dataset.path / "items.parquet"
    kinds = item_kinds(table_path, parse_kinds(names) if names is not None else None)
    columns = read_item_columns(dataset, table_path, kinds)
    encoder = ItemEncoder.fit(columns, kinds, file=table_path)
    _show(columns, encoder)
    return ItemFeatures(torch.from_numpy(encoder.encode(columns, file=table_path)), encoder)


def _show(columns: pl.DataFrame, encoder: ItemEncoder) -> None:
    account = table("Item features", "column", "kind", "numbers", "items without")
    for column in encoder.columns:
        missing = columns[column.name].null_count()
        account.add_row(column.name, column.kind, f"{len(column.names):,}", f"{missing:,}")
    console.print(account)
    without = columns.select(pl.all_horizontal(pl.all().is_null()).sum()).item()
    if without:
        count = f"{without:,} of {counted(columns.height, 'item')}"
        console.print(f"{count} have no features: only their groups place them.", style="dim")
    console.print()
