"""`slatewise prepare`: from a log to a dataset."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from slatewise.cli.show import console, progress, table
from slatewise.data.dataset import SlateDataset
from slatewise.data.description import split_counts
from slatewise.data.formats import ItemsFormat, LogFormat, load_formats
from slatewise.data.preparation import prepare as prepare_dataset
from slatewise.data.reductions import PRESETS, PrepareConfig
from slatewise.data.split import SplitConfig

_WHY_NOTHING = "users are too few, have no more than --prefix interactions, or none so late."
_REDUCTIONS, _COLUMNS, _SPLIT = "Reductions", "Columns of the log", "Split"


def prepare(
    log: Annotated[
        Path, typer.Argument(help="Log: a Parquet, CSV or JSON lines file, or a directory of them.")
    ],
    items: Annotated[Path, typer.Argument(help="Items table: item_id, group, anything else.")],
    out: Annotated[Path, typer.Argument(help="Directory of the dataset.")],
    preset: Annotated[
        Literal["all", "paper"],
        typer.Option(
            help="Keep everything, or the paper's reductions.", rich_help_panel=_REDUCTIONS
        ),
    ] = "all",
    no_click_share: Annotated[
        float | None,
        typer.Option(help="Share of slates without a click to keep.", rich_help_panel=_REDUCTIONS),
    ] = None,
    max_slate: Annotated[
        int | None, typer.Option(help="Longest slate kept.", rich_help_panel=_REDUCTIONS)
    ] = None,
    first: Annotated[
        int | None,
        typer.Option(help="First interactions of a user to keep.", rich_help_panel=_REDUCTIONS),
    ] = None,
    min_interactions: Annotated[
        int | None,
        typer.Option(help="Leave out users with fewer.", rich_help_panel=_REDUCTIONS),
    ] = None,
    several_clicks: Annotated[
        Literal["each", "first"] | None,
        typer.Option(
            help="Several clicks on a slate: an interaction each, or only the first.",
            rich_help_panel=_REDUCTIONS,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seed of the draw of slates without a click.", rich_help_panel=_REDUCTIONS
        ),
    ] = None,
    mapping: Annotated[
        Path | None,
        typer.Option(help=r"TOML file with \[log] and \[items].", rich_help_panel=_COLUMNS),
    ] = None,
    map_log: Annotated[
        list[str] | None,
        typer.Option(
            "--map", help="FIELD=COLUMN of the log; repeatable.", rich_help_panel=_COLUMNS
        ),
    ] = None,
    map_items: Annotated[
        list[str] | None,
        typer.Option(help="FIELD=COLUMN of the items table.", rich_help_panel=_COLUMNS),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(help="Source of all slates, if no column.", rich_help_panel=_COLUMNS),
    ] = None,
    no_click: Annotated[
        str | None,
        typer.Option(help="Value of click that means no click.", rich_help_panel=_COLUMNS),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(help="Between the items of a slate in text.", rich_help_panel=_COLUMNS),
    ] = None,
    time_unit: Annotated[
        Literal["s", "ms", "us", "ns"] | None,
        typer.Option(help="Unit of a numeric time since 1970.", rich_help_panel=_COLUMNS),
    ] = None,
    split: Annotated[
        Literal["user", "time"],
        typer.Option(help="Split by user, as the paper, or by time.", rich_help_panel=_SPLIT),
    ] = "user",
    valid_share: Annotated[
        float, typer.Option(help="For validation.", rich_help_panel=_SPLIT)
    ] = 0.05,
    test_share: Annotated[float, typer.Option(help="For test.", rich_help_panel=_SPLIT)] = 0.05,
    prefix: Annotated[
        int,
        typer.Option(
            help="First interactions of held-out users in training.", rich_help_panel=_SPLIT
        ),
    ] = 5,
    split_seed: Annotated[int, typer.Option(help="Which users.", rich_help_panel=_SPLIT)] = 0,
    valid_from: Annotated[
        str | None, typer.Option(help="Start of validation.", rich_help_panel=_SPLIT)
    ] = None,
    test_from: Annotated[
        str | None, typer.Option(help="Start of test.", rich_help_panel=_SPLIT)
    ] = None,
    strict: Annotated[bool, typer.Option(help="Refuse input that needs a repair.")] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace what stands at OUT.")] = False,
) -> None:
    """Turn an exposure log into a dataset, and report what was read, dropped and kept."""
    asked = {
        "no_click_share": no_click_share,
        "max_slate": max_slate,
        "first": first,
        "min_interactions": min_interactions,
        "several_clicks": several_clicks,
        "seed": seed,
    }
    config = PrepareConfig.build(
        PRESETS[preset].model_dump() | _given(asked) | {"strict": strict}, "options"
    )
    conventions = {
        "default_source": source,
        "no_click": no_click,
        "delimiter": delimiter,
        "time_unit": time_unit,
    }
    log_format, items_format = read_formats(mapping, map_log, map_items, conventions)
    division = SplitConfig.build(
        {
            "method": split,
            "valid_share": valid_share,
            "test_share": test_share,
            "prefix": prefix,
            "seed": split_seed,
            "valid_from": valid_from,
            "test_from": test_from,
        },
        "options",
    )
    with progress() as bars:
        dataset = prepare_dataset(
            log,
            items,
            out,
            config,
            log_format=log_format,
            items_format=items_format,
            division=division,
            overwrite=overwrite,
            progress=bars,
        )
    _show(dataset)
    console.print(f"\nDataset: {out}")


def read_formats(
    mapping: Path | None,
    map_log: list[str] | None,
    map_items: list[str] | None,
    conventions: dict[str, Any],
) -> tuple[LogFormat, ItemsFormat]:
    """Return the formats of log and items table from a mapping file and options; options win."""
    log, items = load_formats(mapping) if mapping is not None else (LogFormat(), ItemsFormat())
    log = LogFormat.build(log.model_dump() | _given(conventions), "options")
    return log.mapped(map_log or ()), items.mapped(map_items or ())


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _show(dataset: SlateDataset) -> None:
    report, counts = dataset.meta["report"], dataset.meta["counts"]
    account = table("From log to dataset", "", "count", "")
    account.columns[2].justify = "left"
    account.columns[2].overflow = "fold"
    account.add_row("rows in the log", f"{report['rows']:,}")
    if report["slates"] != report["rows"]:
        account.add_row("  that form slates", f"{report['slates']:,}")
    if report["clicks_unfolded"]:
        account.add_row(
            "  further clicks on a slate", f"+{report['clicks_unfolded']:,}", "an interaction each"
        )
    if report["clicks_ignored"]:
        account.add_row(
            "  further clicks on a slate", f"{report['clicks_ignored']:,}", "only the first kept"
        )
    for problem in report["problems"]:
        sign = "−" if problem["drops"] else ""
        details = f"{problem['repair']}; first: {problem['file']}, row {problem['row']:,}"
        account.add_row(f"  {problem['what']}", f"{sign}{problem['count']:,}", details)
    for what, count in report["reductions"].items():
        account.add_row(f"  {what}", f"−{count:,}", "as asked")
    account.add_row("interactions that remain", f"{counts['interactions']:,}")
    for name in ("clicks", "users", "items", "groups"):
        account.add_row(f"  {name}", f"{counts[name]:,}")
    parts = split_counts(dataset)
    for part, held in parts.items():
        account.add_row(f"  for {part}", f"{held['interactions']:,}", f"of {held['users']:,} users")
    console.print(account)
    for part, share in (("validation", "valid_share"), ("test", "test_share")):
        if not parts[part]["interactions"] and dataset.meta["split"][share] > 0:
            note = f"Nothing is held out for {part}: {_WHY_NOTHING}"
            console.print(note, style="bold yellow", soft_wrap=True)
    for problem in report["problems"]:
        if problem["drops"]:
            hint = f"Where {problem['what']}: {problem['remedy']}"
            console.print(hint, style="dim", soft_wrap=True)
