"""`slatewise download`: the files of a public dataset, from its publisher."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TransferSpeedColumn,
)

from slatewise.cli.show import console
from slatewise.data.public import download_finn
from slatewise.data.public.drive import DRIVE
from slatewise.data.public.fetcher import Fetcher


class DownloadableDataset(StrEnum):
    """Datasets that can be downloaded without signing an agreement."""

    FINN = "finn"


def download(
    dataset: Annotated[DownloadableDataset, typer.Argument(help="Which public dataset.")],
    folder: Annotated[Path, typer.Argument(help="Directory to put its files in.")],
    base_url: Annotated[str, typer.Option(help="Address of Google Drive, or of a mirror.")] = DRIVE,
) -> None:
    """Download a public dataset (FINN: 1.2 GB); an interrupted download is resumed."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
    with Progress(*columns, TransferSpeedColumn(), console=Console(stderr=True)) as bar:
        tasks: dict[str, TaskID] = {}

        def show(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name)
            bar.update(tasks[name], completed=done, total=total)

        verdicts = download_finn(
            folder,
            base_url=base_url,
            fetcher=Fetcher(progress=show),
            checking=lambda name: bar.console.print(f"checking {name} ..."),
        )
    for name, verdict in verdicts.items():
        console.print(f"{name}: {verdict}", soft_wrap=True)
    console.print(f"Next: slatewise import {dataset.value} {folder} OUT", soft_wrap=True)
