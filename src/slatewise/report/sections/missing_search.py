"""Table 2 and Figure 3: a week of searches is lost; and the share of search from all to none."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from slatewise.experiments.store import StudyResult
from slatewise.report import figures
from slatewise.report.section import Figure, Section, Table
from slatewise.report.sections.online_models import MEASURES, daily, nights


def section(result: StudyResult) -> Section:
    """Show the study of lost searches."""
    settings = result.about["settings"]
    return Section(
        str(result.about["title"]),
        [
            f"For {settings['lost']} days the platform does not record searches. Users search and "
            "click as ever; training and the histories that recommendations are made from do not "
            f"know of it. Models learn from the last {settings['window']} days, so they lack those "
            "searches until the window has moved past them.",
            MEASURES,
        ],
        [
            Table.of(
                result.tables["table2"],
                "Table 2: click rate of all-item over that of slate",
                caption="'Missing' are the days whose models lack all lost searches, 'leaving' "
                "those whose window has moved past some of them. Click rates are expected ones, "
                "but for the column of realised clicks.",
                file="relative",
                paper=("paper: all-item / slate", "paper: slate", "paper: all-item"),
            ),
            nights(result.tables["nights"]),
        ],
        [_days(result, settings), *_sweep(result)],
    )


def _days(result: StudyResult, settings: dict[str, Any]) -> Figure:
    first = settings["before"] + 1
    figure = daily(
        result.tables["daily"],
        "Figure 3: click rate by day",
        "daily",
        "Realised clicks, all seeds together. Grey: the days whose searches are lost. "
        f"Models lack all of them from the end of the grey to day "
        f"{settings['before'] + settings['window'] + 1}.",
    )
    lost = {"x0": first - 0.5, "x1": first - 0.5 + settings["lost"], "y0": 0, "y1": 1}
    grey = {"type": "rect", "yref": "paper", "fillcolor": "#d6d9de", "opacity": 0.5}
    shape = {**lost, **grey, "line": {"width": 0}, "layer": "below"}
    layout = figure.layout | {"shapes": [shape]}
    return Figure(figure.title, figure.data, layout, figure.caption, figure.file)


def _sweep(result: StudyResult) -> Iterator[Figure]:
    if "sweep" not in result.tables:
        return
    rows = result.tables["sweep"].sort("search_share")
    for what, title, axis, caption in (
        (
            ("slate", "all-item"),
            "Exact click rate by the share of search in the log",
            "exact click rate of greedy slates",
            "Every point is a world of its own whose log has that share of searches; the rest was "
            "recommended at random. Slates are judged, not shown.",
        ),
        (
            ("all-item / slate",),
            "All-item over slate by the share of search",
            "ratio of click rates",
            "Above 1 all-item is better, below it slate. Where the band holds 1, these seeds "
            "cannot tell.",
        ),
    ):
        drawn = [_line(rows.filter(what=name), name) for name in what]
        layout = figures.layout("share of search in the log", axis)
        yield Figure(title, figures.lines(drawn), layout, caption, "sweep")


def _line(rows: pl.DataFrame, name: str) -> figures.Line:
    return figures.Line(
        name,
        rows["search_share"].to_list(),
        rows["value"].to_list(),
        rows["low"].to_list(),
        rows["high"].to_list(),
        hover="%{x:.0%} search: %{y:.4f}",
    )
