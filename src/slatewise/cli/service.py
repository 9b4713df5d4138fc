"""What the commands about a service share: its directory, its settings and its store."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from slatewise.errors import SlatewiseError

if TYPE_CHECKING:
    from slatewise.service.settings import ServiceConfig
    from slatewise.service.store import Store

TIMES: Final = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M"]
"""Formats in which options take a time."""

ServiceDirectory = Annotated[Path, typer.Argument(help="The directory of the service.")]
ServiceSettings = Annotated[
    Path | None, typer.Option(help="The TOML file that the service runs with.")
]

StoreUrl = Annotated[
    str | None, typer.Option(help="postgresql://… or sqlite:///…; else a file in DIRECTORY.")
]


def read_settings(config: Path | None, store: str | None) -> "ServiceConfig":
    """Read the settings of a service; a store URL given here overrides theirs."""
    from slatewise.service.settings import ServiceConfig  # noqa: PLC0415 (torch is slow to load)

    settings = ServiceConfig.read(config)
    return settings if store is None else settings.changed(store={"url": store})


@contextmanager
def opened_store(directory: Path, settings: "ServiceConfig") -> "Iterator[Store]":
    """Open the store of a service that exists."""
    from slatewise.service.store import Store  # noqa: PLC0415 (SQLAlchemy is slow to load)

    missing = settings.store.url is None and not (directory / "store.sqlite").exists()
    if missing or not directory.is_dir():
        raise SlatewiseError(
            f"{directory} is not the directory of a service.", "Make one with: slatewise serve DIR"
        )
    store = Store.open(settings.store_url(directory))
    try:
        yield store
    finally:
        store.close()
