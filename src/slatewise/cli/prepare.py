"""`slatewise prepare`: from a log to a dataset."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from slatewise.cli.cluster import parts_on_ray
from slatewise.cli.formats import (
    Delimiter,
    ItemColumns,
    LogColumns,
    Mapping,
    NoClick,
    Source,
    TimeUnit,
    given,
    read_formats,
)
from slatewise.cli.show import console, progress, table
from slatewise.data.dataset import SlateDataset
from slatewise.data.description import split_counts
from slatewise.data.parsing import ORDER
from slatewise.data.preparation import prepare as prepare_dataset
from slatewise.data.reductions import PRESETS, PrepareConfig
from slatewise.data.report import Problem
from slatewise.data.split import SplitConfig
from slatewise.errors import SlatewiseError
from slatewise.words import counted

_SEVERAL = (
    "Some slates have several clicks (rows of one user with the same time, source and slate): "
    "after the first, the user chooses among the items left, or stops."
)
_JOINED = (
    "clicks at later times follow a click on another item of the same slate, and count as further "
    "clicks on it, at its time. If slates were shown anew for each, give --same-slate 0."
)
_AGAIN = (
    "clicks follow a click on the same slate at another time, and are on slates of their own. If "
    "they are further clicks on one slate, give all its rows the time at which it was shown, or, "
    "where each click has a row, more minutes with --same-slate."
)
_GUESSED = (
    "The integers of column '{column}' lie in the years 1990 to 2040 as {unit} since 1970, and are "
    "read so. If they are not, give --time-unit s, ms, us, ns or order."
)
_ORDER = (
    "The integers of column '{column}' are taken as an order: nothing is counted in hours, and "
    "there is no popularity. Of numbers since 1970, give the unit: --time-unit s, ms, us or ns."
)
_WRITTEN = (
    "The dates of column '{column}' are read as {format}. If they are not written so, give "
    "--map 'time_format=...'."
)
_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_NO_CLICK = (
    "No slate has a click: a model has nothing to learn from. If column '{column}' does not hold "
    "the clicks, name theirs with --map click=COLUMN."
)
_COARSE = (
    "Most interactions have the time of their user's one before. Among them the order of rows in "
    "the log counts as the order of events: if it is not, log finer times."
)
_ONE_GROUP = (
    "{why}: all items are in one group, 'unknown', and new items start as the average item. If "
    "there are categories, {remedy}."
)
_WHY_NOTHING = (
    "there are too few users, none has more than --prefix interactions, or the log ends earlier."
)
_SHORT = (
    "Few users have more than five interactions: training sees nothing of those held out "
    "(--prefix 0)."
)
_REDUCTIONS, _SPLIT = "Reductions", "Split"


def prepare(
    log: Annotated[
        Path,
        typer.Argument(
            help="Log: a Parquet, CSV or JSON lines file (.gz, too), or a directory of them."
        ),
    ],
    items: Annotated[
        Path | None,
        typer.Argument(
            help="Items table: item_id, group, anything else. May be left out.", metavar="[ITEMS]"
        ),
    ] = None,
    out: Annotated[Path | None, typer.Argument(help="Directory of the dataset.")] = None,
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
    same_slate: Annotated[
        float | None,
        typer.Option(
            help="Minutes within which clicks in rows of their own, on one slate, are one slate's "
            "several clicks; 0: at one time only.",
            rich_help_panel=_REDUCTIONS,
        ),
    ] = None,
    listed_items_only: Annotated[
        bool,
        typer.Option(
            "--listed-items-only",
            help="Take items outside the items table out of slates.",
            rich_help_panel=_REDUCTIONS,
        ),
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seed of the draw of slates without a click.", rich_help_panel=_REDUCTIONS
        ),
    ] = None,
    mapping: Mapping = None,
    map_log: LogColumns = None,
    map_items: ItemColumns = None,
    source: Source = None,
    no_click: NoClick = None,
    delimiter: Delimiter = None,
    time_unit: TimeUnit = None,
    split: Annotated[
        str,
        typer.Option(
            help="By user, as the paper; by time; by a column with train, valid or test; "
            "or a FILE with user_id, valid_from and test_from.",
            metavar="user|time|column|FILE",
            rich_help_panel=_SPLIT,
        ),
    ] = "user",
    valid_share: Annotated[
        float, typer.Option(help="Share held out for validation.", rich_help_panel=_SPLIT)
    ] = 0.05,
    test_share: Annotated[
        float, typer.Option(help="Share held out for test.", rich_help_panel=_SPLIT)
    ] = 0.05,
    prefix: Annotated[
        int | None,
        typer.Option(
            help="First interactions of held-out users in training; 5, or 0 where users are short.",
            rich_help_panel=_SPLIT,
        ),
    ] = None,
    split_seed: Annotated[
        int, typer.Option(help="Seed of the draw of held-out users.", rich_help_panel=_SPLIT)
    ] = 0,
    valid_from: Annotated[
        str | None, typer.Option(help="Start of validation.", rich_help_panel=_SPLIT)
    ] = None,
    test_from: Annotated[
        str | None, typer.Option(help="Start of test.", rich_help_panel=_SPLIT)
    ] = None,
    strict: Annotated[bool, typer.Option(help="Refuse input that needs repair.")] = False,
    ray: Annotated[
        str | None,
        typer.Option(help="Read Parquet files on a Ray cluster: its address, auto, or local."),
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace OUT.")] = False,
) -> None:
    """Turn an exposure log into a dataset, and report what was read, dropped and kept."""
    asked = {
        "no_click_share": no_click_share,
        "max_slate": max_slate,
        "first": first,
        "min_interactions": min_interactions,
        "several_clicks": several_clicks,
        "same_slate": same_slate,
        "listed_items_only": listed_items_only or None,
        "seed": seed,
    }
    config = PrepareConfig.build(
        PRESETS[preset].model_dump() | given(asked) | {"strict": strict}, "options"
    )
    log_format, items_format = read_formats(
        mapping, map_log, map_items, source, no_click, delimiter, time_unit
    )
    division = SplitConfig.build(
        {
            **_method(split),
            "valid_share": valid_share,
            "test_share": test_share,
            "prefix": prefix,
            "seed": split_seed,
            "valid_from": valid_from,
            "test_from": test_from,
        },
        "options",
    )
    listed, target = _items_and_out(items, out)
    with progress() as bars, parts_on_ray(ray) as elsewhere:
        dataset = prepare_dataset(
            log,
            listed,
            # Processes of a cluster stand elsewhere.
            target if ray is None else target.resolve(),
            config,
            log_format=log_format,
            items_format=items_format,
            division=division,
            overwrite=overwrite,
            elsewhere=elsewhere,
            progress=bars,
        )
    _show(dataset)
    if prefix is None and dataset.meta["split"]["prefix"] == 0:
        console.print(_SHORT, style="bold yellow", soft_wrap=True)
    console.print(f"\nDataset: {target}")


def _items_and_out(items: Path | None, out: Path | None) -> tuple[Path | None, Path]:
    """Return the items table, which may be left out, and the directory of the dataset."""
    if out is not None:
        return items, out
    if items is None:
        raise SlatewiseError(
            "OUT is missing, the directory of the dataset.",
            "Write: slatewise prepare LOG ITEMS OUT, or without an items table, LOG OUT.",
        )
    if items.is_file():
        raise SlatewiseError(
            f"{items} is a file, and OUT is missing.",
            "Write: slatewise prepare LOG ITEMS OUT, or without an items table, LOG OUT.",
        )
    return None, items


def _method(split: str) -> dict[str, str]:
    """Read how to split: one of the names, or a file."""
    if split in {"user", "time", "column"}:
        return {"method": split}
    if Path(split).exists():
        return {"method": "file", "file": split}
    raise SlatewiseError(
        f"--split {split}: there is no such file, and no such way to split.",
        "Give user, time, column, or a file with user_id, valid_from and test_from.",
    )


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
    if report["clicks_joined"]:
        account.add_row(
            "  clicks on the slate of a row before", f"{report['clicks_joined']:,}", "of one slate"
        )
    for problem in report["problems"]:
        sign = "−" if problem["drops"] else ""
        details = f"{problem['repair']}; first: {problem['file']}, row {problem['row']:,}"
        account.add_row(f"  {problem['what']}", f"{sign}{problem['count']:,}", details)
    for what, count in report["reductions"].items():
        account.add_row(f"  {what}", f"−{count:,}", "as asked")
    account.add_row("interactions that remain", f"{counts['interactions']:,}")
    if "further_clicks" in counts:
        slates, further = counts["slates_with_several_clicks"], counts["further_clicks"]
        account.add_row(
            "  further clicks", f"{further:,}", f"on {counted(slates, 'slate')} with several clicks"
        )
    for name in ("clicks", "users", "items", "groups"):
        account.add_row(f"  {name}", f"{counts[name]:,}")
    parts = split_counts(dataset)
    for part, held in parts.items():
        account.add_row(
            f"  for {part}", f"{held['interactions']:,}", f"of {counted(held['users'], 'user')}"
        )
    console.print(account)
    _show_notes(dataset)


def _show_notes(dataset: SlateDataset) -> None:
    """Print what a person should know beside the numbers."""
    report, counts = dataset.meta["report"], dataset.meta["counts"]
    parts = split_counts(dataset)
    column = dataset.meta["input"]["log"]["format"]["time"]
    if guessed := dataset.meta["guessed_time_format"]:
        said = _WRITTEN.format(column=column, format=guessed)
        console.print(said, style="bold yellow", soft_wrap=True, markup=False)
    if guessed := dataset.meta["guessed_time_unit"]:
        note = _ORDER if guessed == ORDER else _GUESSED
        said = note.format(column=column, unit=_UNITS.get(guessed))
        console.print(said, style="bold yellow", soft_wrap=True)
    if not counts["clicks"]:
        click = dataset.meta["input"]["log"]["format"]["click"]
        said = _NO_CLICK.format(column=click)
        console.print(said, style="bold yellow", soft_wrap=True, markup=False)
    if not dataset.meta["grouped"]:
        bare = dataset.meta["input"]["items"] is None
        why = "There is no items table" if bare else "The items table has no column 'group'"
        remedy = "give a table with item_id and group" if bare else "--map-items group=COLUMN"
        note = _ONE_GROUP.format(why=why, remedy=remedy)
        console.print(note, style="bold yellow", soft_wrap=True)
    tied = sum(p["count"] for p in report["problems"] if p["what"] == Problem.TIED.what)
    if 2 * tied > counts["interactions"] - counts["users"]:
        console.print(_COARSE, style="bold yellow", soft_wrap=True)
    if "further_clicks" in counts:
        console.print(_SEVERAL, style="bold yellow", soft_wrap=True)
    if joined := report["clicks_joined"]:
        console.print(f"{joined:,} {_JOINED}", style="bold yellow", soft_wrap=True)
    if later := counts.get("clicks_on_slates_shown_again"):
        console.print(f"{later:,} {_AGAIN}", soft_wrap=True)
    for part, share in (("validation", "valid_share"), ("test", "test_share")):
        if not parts[part]["interactions"] and dataset.meta["split"][share] > 0:
            brought = dataset.meta["split"]["method"] in {"column", "file"}
            why = "the split says so." if brought else _WHY_NOTHING
            note = f"Nothing is held out for {part}: {why}"
            console.print(note, style="bold yellow", soft_wrap=True)
    for problem in report["problems"]:
        if problem["drops"]:
            hint = f"Where {problem['what']}: {problem['remedy']}"
            console.print(hint, style="dim", soft_wrap=True)
