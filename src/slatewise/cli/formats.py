"""Options that name the columns of a log and its items table, for `prepare` and `load`."""

from collections.abc import Mapping as AnyMapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from slatewise.data.formats import ItemsFormat, LogFormat, load_formats

_PANEL = "Columns of the log"

Mapping = Annotated[
    Path | None, typer.Option(help=r"TOML file with \[log] and \[items].", rich_help_panel=_PANEL)
]
LogColumns = Annotated[
    list[str] | None,
    typer.Option("--map", help="FIELD=COLUMN of the log; repeatable.", rich_help_panel=_PANEL),
]
ItemColumns = Annotated[
    list[str] | None,
    typer.Option(help="FIELD=COLUMN of the items table; repeatable.", rich_help_panel=_PANEL),
]
Source = Annotated[
    str | None,
    typer.Option(help="Source of all slates, if there is no column.", rich_help_panel=_PANEL),
]
NoClick = Annotated[
    str | None, typer.Option(help="Value of click that means no click.", rich_help_panel=_PANEL)
]
Delimiter = Annotated[
    str | None,
    typer.Option(help="Separates the items of a slate given as text.", rich_help_panel=_PANEL),
]
TimeUnit = Annotated[
    Literal["s", "ms", "us", "ns", "order"] | None,
    typer.Option(
        help="Unit of a numeric time since 1970, or order: integers that only grow with time.",
        rich_help_panel=_PANEL,
    ),
]


def read_formats(
    mapping: Path | None,
    map_log: list[str] | None,
    map_items: list[str] | None,
    source: str | None,
    no_click: str | None,
    delimiter: str | None,
    time_unit: str | None,
) -> tuple[LogFormat, ItemsFormat]:
    """Return the formats of log and items table from a mapping file and options; options win."""
    log, items = load_formats(mapping) if mapping is not None else (LogFormat(), ItemsFormat())
    conventions = given(
        {
            "default_source": source,
            "no_click": no_click,
            "delimiter": delimiter,
            "time_unit": time_unit,
        }
    )
    log = LogFormat.build(log.model_dump() | conventions, "options")
    return log.mapped(map_log or ()), items.mapped(map_items or ())


def given(options: AnyMapping[str, Any]) -> dict[str, Any]:
    """Return the options that have a value."""
    return {name: value for name, value in options.items() if value is not None}
