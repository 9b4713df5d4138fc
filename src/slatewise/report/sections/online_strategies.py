"""Table 3, and what the paper could not run: every strategy learning from its own slates."""

from collections.abc import Iterator

import polars as pl

from slatewise.experiments.store import StudyResult
from slatewise.report import figures
from slatewise.report.section import Figure, Section, Table
from slatewise.report.sections.online_models import MEASURES, arms_takeaway, daily, rate_bars
from slatewise.report.takeaway import Takeaway

_TITLES = {
    "pooled": "Table 3: strategies that all learn from all",
    "own": "Strategies that learn from their own slates alone",
}
_CAPTIONS = {
    "pooled": "All models learn from the log of all arms: what exploration finds helps all arms.",
    "own": "Every arm has the same people to itself, from the same warm-up on. Beside searches, a "
    "model learns only from what its own strategy showed.",
}


def section(result: StudyResult) -> Section:
    """Show the study of strategies."""
    parts = [part for part in _TITLES if f"table3_{part}" in result.tables]
    few = result.about["settings"]["few_views"]
    return Section(
        str(result.about["title"]),
        [
            MEASURES,
            "Diversity: groups and mean true distance of two items of a slate, the share of the "
            "catalogue that an arm showed at all, and the share of its positions that went to "
            f"items of which its model had seen fewer than {few} views.",
        ],
        [_table(result, part) for part in parts],
        [figure for part in parts for figure in _figures(result, part)],
        _takeaway(result, parts[-1]),
    )


def _takeaway(result: StudyResult, part: str) -> Takeaway | None:
    """Take where every strategy learns from its own slates, if that was run."""
    whole = result.tables["rates"].filter(part=part)["period"][0]
    rows = result.tables["differences"].filter(part=part, period=whole)
    how = "all learning from all" if part == "pooled" else "each learning from its own slates"
    tried = f"greedy and Thompson strategies serve the same simulated users, {how}"
    return arms_takeaway(tried, rows, len(result.about["seeds"]))


def _table(result: StudyResult, part: str) -> Table:
    return Table.of(
        result.tables[f"table3_{part}"],
        _TITLES[part],
        caption=_CAPTIONS[part],
        file="rates",
        paper=("paper: click rate",),
    )


def _figures(result: StudyResult, part: str) -> Iterator[Figure]:
    mine = {
        name: result.tables[name].filter(part=part)
        for name in ("rates", "daily", "differences", "slates")
    }
    how = "learning from all" if part == "pooled" else "each learning from its own"
    whole = mine["rates"]["period"][0]
    yield rate_bars(mine["rates"].filter(period=whole), f"Expected click rate, {how}, {whole}")
    yield _against_greedy(mine["differences"], how)
    if part == "own":
        yield daily(mine["daily"], f"Click rate by day, {how}", "daily")
        yield _little_seen(mine["slates"])


def _against_greedy(differences: pl.DataFrame, how: str) -> Figure:
    bars = [
        figures.Bar(
            f"{row['arm']}, {row['period']}", row["value"], row["low"], row["high"], row["by_seed"]
        )
        for row in differences.filter(measure="expected").to_dicts()
    ]
    data, layout = figures.intervals(bars, "click rate minus greedy's")
    caption = "Right of 0 a strategy has more clicks than greedy with the same kind of model."
    return Figure(f"Against greedy, {how}", data, layout, caption, "differences")


def _little_seen(slates: pl.DataFrame) -> Figure:
    """Draw what share of the positions went to little-seen items, all seeds together."""
    share = (pl.col("little_seen") * pl.col("slates")).sum() / pl.col("slates").sum()
    rows = (
        slates.filter(pl.col("slates") > 0).group_by("arm", "day", maintain_order=True).agg(share)
    )
    drawn = [
        figures.Line(
            str(arm),
            [day + 1 for day in part["day"]],
            part["little_seen"].to_list(),
            hover="day %{x}: %{y:.3f}",
        )
        for (arm,), part in rows.sort("day").group_by("arm", maintain_order=True)
    ]
    layout = figures.layout(
        "day", "share of positions", xaxis=figures.whole_days(rows["day"].n_unique())
    )
    caption = "How much of what is shown are items that the model knows little of."
    title = "Places given to little-seen items, each learning from its own"
    return Figure(title, figures.lines(drawn), layout, caption, "slates")
