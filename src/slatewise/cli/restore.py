"""`slatewise restore`: the directory of a service from a backup."""

from pathlib import Path
from typing import Annotated

import typer

from slatewise.cli.show import console


def restore(
    file: Annotated[Path, typer.Argument(help="A file that slatewise backup wrote.")],
    directory: Annotated[Path, typer.Argument(help="Directory to make; empty if it exists.")],
) -> None:
    """Restore a service from a backup into an empty directory."""
    from slatewise.service.upkeep.backup import SETTINGS  # noqa: PLC0415 (SQLAlchemy is slow to load)
    from slatewise.service.upkeep.backup import restore as restore_service  # noqa: PLC0415

    found = restore_service(file, directory)
    console.print(f"Service: {directory}, as it was at {found.time}")
    config = f" --config {directory / SETTINGS}" if SETTINGS in found.files else ""
    if found.store != "sqlite":
        console.print("  Its store is PostgreSQL: restore that with pg_restore.")
    console.print(f"  Start it with: slatewise serve {directory}{config}")
