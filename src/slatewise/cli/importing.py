"""`slatewise import`: a public dataset becomes a log."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from slatewise.data.public import PublicDataset, Tally, import_public


def import_log(
    dataset: Annotated[PublicDataset, typer.Argument(help="Which public dataset it is.")],
    source: Annotated[Path, typer.Argument(help="Directory with its files, as published.")],
    out: Annotated[Path, typer.Argument(help="Directory to write log.parquet and items.parquet.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT.")] = False,
) -> None:
    """Turn a public dataset into a log that `slatewise prepare` reads."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"reading {dataset.value}", total=None)
        tally = import_public(
            dataset,
            source,
            out,
            overwrite=overwrite,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    Console().print(_account(tally, out))


def _account(tally: Tally, out: Path) -> Table:
    table = Table("", "count", title=f"Imported into {out}", title_justify="left")
    table.columns[1].justify = "right"
    table.add_row("interactions read", f"{tally.read:,}")
    table.add_row("interactions written", f"{tally.written:,}")
    for reason, count in tally.left_out.most_common():
        table.add_row(f"  left out: {reason}", f"{count:,}")
    table.add_row("items written", f"{tally.items:,}")
    for what, count in tally.notes.most_common():
        table.add_row(f"  note: {what}", f"{count:,}")
    return table
