"""`slatewise backup`: a service in one file."""

from pathlib import Path
from typing import Annotated

import typer

from slatewise.cli.service import ServiceDirectory, ServiceSettings, StoreUrl, read_settings
from slatewise.cli.show import console
from slatewise.words import counted


def backup(
    directory: ServiceDirectory,
    file: Annotated[Path, typer.Argument(help="File to write, such as shop.tar.gz.")],
    config: ServiceSettings = None,
    store: StoreUrl = None,
) -> None:
    """Back up the store, models and settings of a service, while it serves."""
    from slatewise.service.upkeep.backup import back_up  # noqa: PLC0415 (SQLAlchemy is slow to load)

    made = back_up(directory, read_settings(config, store).store_url(directory), file, config)
    console.print(
        f"Backup: {file}, {counted(len(made.files), 'file')}, {made.size / 1e6:,.1f} MB unpacked"
    )
    if made.store != "sqlite":
        console.print("  Its store is PostgreSQL and not in it: back that up with pg_dump.")
    if config is None:
        console.print("  No settings are in it: none were named with --config.")
