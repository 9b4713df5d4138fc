"""Click rates of greedy slates by what filled the log: kind of recommendation, share of search."""

import polars as pl

from slatewise.experiments.store import StudyResult
from slatewise.report import figures
from slatewise.report.section import Figure, Section, Table


def section(result: StudyResult) -> Section:
    """Show the study of exposure."""
    rates = result.tables["rates"].filter(pl.col("search_share").is_not_null())
    return Section(
        str(result.about["title"]),
        [
            "Every point is a world of its own. Its log has that share of searches; the rest are "
            "recommendations drawn at random, one promoted carousel for all, or slates of earlier "
            "models that learned from the log so far (feedback). Every model learns from the log; "
            "its greedy slates are judged by the simulator's exact click probability for all "
            "users of the next day, and never shown.",
            "+bias is an item bias, +search lets search slates without a click move the user.",
        ],
        [
            Table.of(
                result.tables["headline"],
                "Exact click rate of greedy slates, over all shares of search",
                file="rates",
            )
        ],
        [
            _kind(kind, rates.filter(kind=kind))
            for kind in rates["kind"].unique(maintain_order=True)
        ],
    )


def _kind(kind: str, rows: pl.DataFrame) -> Figure:
    drawn = [
        figures.Line(
            str(model),
            mine["search_share"].to_list(),
            mine["value"].to_list(),
            hover="%{x:.0%} search: %{y:.4f}",
        )
        for (model,), mine in rows.sort("search_share").group_by("model", maintain_order=True)
    ]
    layout = figures.layout("share of search in the log", "exact click rate", height=440)
    caption = (
        "Means over seeds. Models of one seed are judged on the same people: the findings compare "
        "them pair by pair, with intervals."
    )
    title = f"Click rate by the share of search, {kind} recommendations"
    return Figure(title, figures.lines(drawn), layout, caption, "rates")
