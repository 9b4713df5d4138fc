"""`slatewise import`: a public dataset becomes a log."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from slatewise.cli.show import console, progress, table
from slatewise.data.public import PublicDataset, Tally, import_public


def import_log(
    dataset: Annotated[PublicDataset, typer.Argument(help="Which public dataset it is.")],
    source: Annotated[Path, typer.Argument(help="Directory with its files, as published.")],
    out: Annotated[Path, typer.Argument(help="Directory to write log.parquet and items.parquet.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT.")] = False,
) -> None:
    """Turn a public dataset into a log that `slatewise prepare` reads."""
    with progress() as bars:
        tally = import_public(
            dataset,
            source,
            out,
            overwrite=overwrite,
            progress=lambda done, total: bars(f"reading {dataset.value}", done, total),
        )
    console.print(_account(tally))
    console.print(f"\nLog: {out}")


def _account(tally: Tally) -> Table:
    account = table("Imported", "", "count")
    account.add_row("interactions read", f"{tally.read:,}")
    account.add_row("interactions written", f"{tally.written:,}")
    for reason, count in tally.left_out.most_common():
        account.add_row(f"  left out: {reason}", f"{count:,}")
    account.add_row("items written", f"{tally.items:,}")
    for what, count in tally.notes.most_common():
        account.add_row(f"  note: {what}", f"{count:,}")
    return account
