"""`slatewise load`: an exposure log into the store of a service."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slatewise.cli.formats import (
    Delimiter,
    ItemColumns,
    LogColumns,
    Mapping,
    NoClick,
    Source,
    TimeUnit,
    read_formats,
)
from slatewise.cli.service import ServiceSettings, StoreUrl, read_settings
from slatewise.cli.show import console, progress, table
from slatewise.errors import SlatewiseError

if TYPE_CHECKING:
    from slatewise.service.logs import LoadReport

SECONDS_BETWEEN_LINES = 10.0
"""Seconds between two lines of progress without a terminal."""


def load(
    directory: Annotated[
        Path, typer.Argument(help="Directory of the service; created if missing.")
    ],
    log: Annotated[
        Path, typer.Argument(help="Parquet, CSV or JSON lines, a directory of them, or a dataset.")
    ],
    items: Annotated[
        Path | None, typer.Option(help="Items table; else the service's own items.")
    ] = None,
    config: ServiceSettings = None,
    store: StoreUrl = None,
    strict: Annotated[bool, typer.Option(help="Refuse input that needs a repair.")] = False,
    mapping: Mapping = None,
    map_log: LogColumns = None,
    map_items: ItemColumns = None,
    source: Source = None,
    no_click: NoClick = None,
    delimiter: Delimiter = None,
    time_unit: TimeUnit = None,
) -> None:
    """Load an exposure log into a service, for histories, popularity and retraining."""
    from slatewise.data import SlateDataset  # noqa: PLC0415 (torch is slow to load)
    from slatewise.data.tables import open_tables  # noqa: PLC0415
    from slatewise.service.logs import load_dataset, load_log  # noqa: PLC0415
    from slatewise.service.store import Store  # noqa: PLC0415

    log_format, items_format = read_formats(
        mapping, map_log, map_items, source, no_click, delimiter, time_unit
    )
    settings = read_settings(config, store)
    prepared = (log / "dataset.json").is_file()
    if prepared and items is not None:
        raise SlatewiseError(f"{log} is a dataset and has its own items.", "Leave out --items.")
    dataset = SlateDataset.open(log) if prepared else None
    for path, kind in ((log, "log"), (items, "items")):
        if not prepared and path is not None:
            open_tables(path, kind)  # refused now, a wrong path leaves no directory behind
    directory.mkdir(parents=True, exist_ok=True)
    opened = Store.open(settings.store_url(directory))
    try:
        with progress(SECONDS_BETWEEN_LINES) as bars:
            if dataset is not None:
                report = load_dataset(dataset, directory, opened, bars)
            else:
                report = load_log(
                    log,
                    directory,
                    opened,
                    items=items,
                    log_format=log_format,
                    items_format=items_format,
                    strict=strict,
                    progress=bars,
                )
    finally:
        opened.close()
    show_load(report)
    console.print(f"\nService: {directory}")


def show_load(report: "LoadReport") -> None:
    """Print how much of a log was loaded."""
    account = table("From log to service", "", "count", "")
    account.columns[2].justify = "left"
    account.columns[2].overflow = "fold"
    for problem in report.problems:
        first = f"{problem['repair']}; first: {problem['file']}, row {problem['row']:,}"
        account.add_row(problem["what"], f"{problem['count']:,}", first)
    rate = report.interactions / max(report.seconds, 1e-9)
    account.add_row("interactions", f"{report.interactions:,}", f"{rate:,.0f} a second")
    account.add_row("slates loaded", f"{report.slates.new:,}")
    if report.slates.known:
        account.add_row("  there already", f"{report.slates.known:,}")
    if report.slates.erased:
        account.add_row("  of erased users", f"{report.slates.erased:,}", "not kept")
    account.add_row("items added", f"{report.items:,}")
    for name, why in report.skipped.items():
        account.add_row(f"  without '{name}'", "", why)
    console.print(account)
