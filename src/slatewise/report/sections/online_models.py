"""Table 1, right, and Figure 2: click rates of the variants, over all days and day by day."""

from collections.abc import Sequence

import polars as pl

from slatewise.experiments.store import StudyResult
from slatewise.report import figures
from slatewise.report.section import Figure, Section, Table, text_of
from slatewise.report.takeaway import PairedDifference, Takeaway
from slatewise.words import counted

MEASURES = (
    "Two measures stand side by side. Realised clicks are what a platform would count of the users "
    "that an arm served. Expected clicks are the simulator's exact probabilities of a click on the "
    "slates that the arm would have shown to all users, each at the moment in which she was "
    "recommended something: the same users for all arms, and no luck of clicks, so intervals are "
    "narrower. They cover users and worlds; from fewer than three worlds there is no verdict."
)


def section(result: StudyResult) -> Section:
    """Show the study of models."""
    settings = result.about["settings"]
    return Section(
        str(result.about["title"]),
        [
            "Every variant gets an equal random share of the simulated users for "
            f"{counted(settings['days'], 'day')}, and recommends greedily. Users stay in their "
            "arm; search answers all alike. Every night all models are retrained on the log of all "
            "arms, the "
            f"{_last_days(settings['window'])} of it.",
            MEASURES,
        ],
        [
            Table.of(
                result.tables["table1"],
                "Table 1, right: click rates of recommendation slates",
                caption="The levels come from different worlds: compare the order.",
                file="rates",
                paper=("paper: click rate",),
            ),
            nights(result.tables["nights"]),
        ],
        [
            rate_bars(result.tables["rates"], "Expected click rate over all days"),
            daily(result.tables["daily"], "Figure 2: click rate by day", "daily"),
        ],
        arms_takeaway(
            f"{counted(settings['days'], 'day')} of simulated users for each variant, all greedy",
            result.tables["differences"],
            len(result.about["seeds"]),
        ),
    )


def _last_days(window: int) -> str:
    return "last day" if window == 1 else f"last {window} days"


def arms_takeaway(tried: str, differences: pl.DataFrame, worlds: int) -> Takeaway | None:
    """Name the arm that is furthest ahead of its reference by exact click rates."""
    rows = [] if differences.is_empty() else differences.filter(measure="expected").to_dicts()
    compared = [
        PairedDifference(row["arm"], row["reference"], row["value"], row["low"], row["high"])
        for row in rows
    ]
    return Takeaway.of_differences(tried, compared, "click rate", worlds=worlds)


def rate_bars(rates: pl.DataFrame, title: str) -> Figure:
    """Draw the expected click rate of every arm with its interval."""
    rows = rates.filter(measure="expected").to_dicts()
    bars = [
        figures.Bar(row["arm"], row["value"], row["low"], row["high"], row["by_seed"])
        for row in rows
    ]
    data, layout = figures.intervals(bars, "expected click rate")
    caption = (
        "Further right is better. Overlapping intervals do not settle a comparison: see the "
        "findings, which compare within each simulated world."
    )
    return Figure(title, data, layout, caption, "rates")


def daily(rows: pl.DataFrame, title: str, file: str, caption: str = "") -> Figure:
    """Draw the realised click rate of every arm and day, with its credible interval."""
    drawn = [
        figures.Line(
            str(arm),
            [day + 1 for day in part["day"]],
            part["value"].to_list(),
            part["low"].to_list(),
            part["high"].to_list(),
            hover="day %{x}: %{y:.3f}",
        )
        for (arm,), part in rows.sort("day").group_by("arm", maintain_order=True)
    ]
    layout = figures.layout(
        "day",
        "clicks per recommendation slate",
        height=420,
        xaxis=figures.whole_days(rows["day"].n_unique()),
    )
    caption = caption or (
        "Realised clicks, all seeds together, with 95 % credible intervals that know of users. "
        "A day of one arm is few slates: look for what lasts."
    )
    return Figure(title, figures.lines(drawn), layout, caption, file)


def nights(rows: pl.DataFrame) -> Table:
    """Describe the log that the models learned from."""
    first = rows.group_by("variant", maintain_order=True).agg(
        pl.col("interactions").mean(), pl.col("search_share").mean(), pl.col("epochs").mean()
    )
    columns: Sequence[str] = ("model", "interactions a night", "share of search", "epochs a night")
    shown = [
        [
            row["variant"],
            text_of(round(row["interactions"])),
            f"{row['search_share']:.1%}",
            f"{row['epochs']:.1f}",
        ]
        for row in first.to_dicts()
    ]
    return Table("What the models learned from", columns, shown, file="nights")
