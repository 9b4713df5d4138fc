"""`slatewise export`: the store of a service as a log."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from slatewise.cli.load import SECONDS_BETWEEN_LINES
from slatewise.cli.service import (
    TIMES,
    ServiceDirectory,
    ServiceSettings,
    StoreUrl,
    opened_store,
    read_settings,
)
from slatewise.cli.show import console, progress, table


def export(
    directory: ServiceDirectory,
    out: Annotated[Path, typer.Argument(help="File to write: .parquet or .csv.")],
    items: Annotated[
        Path | None, typer.Option(help="File for the items table: .parquet or .csv.")
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option(
            metavar="TIME", formats=TIMES, help="Slates from here on (UTC), such as 2026-11-16."
        ),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option(metavar="TIME", formats=TIMES, help="Slates before this (UTC)."),
    ] = None,
    config: ServiceSettings = None,
    store: StoreUrl = None,
) -> None:
    """Export what a service recorded as a log that prepare and load read."""
    from slatewise.service.logs import export_log  # noqa: PLC0415 (torch is slow to load)

    with (
        opened_store(directory, read_settings(config, store)) as opened,
        progress(SECONDS_BETWEEN_LINES) as bars,
    ):
        report = export_log(
            opened,
            out,
            items=items,
            start=0 if since is None else _microseconds(since),
            end=2**62 if until is None else _microseconds(until),
            progress=bars,
        )
    account = table("From service to log", "", "count")
    account.add_row("slates written", f"{report.slates:,}")
    account.add_row("  of anonymous users", f"{report.anonymous:,}")
    account.add_row("clicks on them", f"{report.clicks:,}")
    account.add_row("slates of which nothing was seen, left out", f"{report.unseen:,}")
    if items is not None:
        account.add_row("items written", f"{report.items:,}")
    console.print(account)
    console.print(f"\nLog: {out}")


def _microseconds(moment: datetime) -> int:
    return round(moment.replace(tzinfo=UTC).timestamp() * 1_000_000)
