"""What each term of the utility brings, world by world, and `--auto` beside the baselines."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from slatewise.experiments.store import StudyResult
from slatewise.report import figures
from slatewise.report.section import Figure, Section, Table


def section(result: StudyResult) -> Section:
    """Show the study of terms."""
    return Section(
        str(result.about["title"]),
        [
            "Every model is slate-gru-hier or what the settings say, with one term more, with all, "
            "or with those that --auto chose. It is judged by the test log-likelihood one step "
            "ahead, after calibration on validation users, on a split by time unless a dataset "
            "has another.",
            "Gains are over the model without terms, paired by user, with 95 % intervals over "
            "users and seeds.",
        ],
        [
            Table.of(
                result.tables["headline"],
                "Gain over no terms, in nats per interaction",
                caption="In brackets: what the cause of the term is worth in that world, which "
                "is what one loses who knows everything else. Baselines stand below the models; "
                "what makes no sense in a world is left out there.",
                file="gains",
            ),
            _chosen(result),
        ],
        [*_gains(result), *_against(result), *_learned(result)],
    )


def _chosen(result: StudyResult) -> Table:
    """Show in how many seeds --auto kept each term."""
    rows = result.tables["chosen"].group_by("world", "term", maintain_order=True)
    counted = rows.agg(
        pl.col("kept").sum().alias("kept in seeds"),
        pl.len().alias("of"),
        pl.col("gain").mean().alias("mean gain when settled"),
    )
    title = "What --auto chose"
    return Table.of(counted.sort("world", maintain_order=True), title, file="chosen")


def _gains(result: StudyResult) -> Iterator[Figure]:
    for (world,), rows in result.tables["gains"].group_by("world", maintain_order=True):
        caption = (
            "A term is marked with * where its cause is worth .002 nats or more: there it should "
            "help. Where it is worth less, the term should cost less than .002 nats."
        )
        names = [_named(row) for row in rows.to_dicts()]
        axis = "gain over no terms (nats per interaction)"
        yield _intervals(rows, names, f"{world}: what terms gain", axis, caption, "gains")


def _named(row: dict[str, Any]) -> str:
    """Return the name of a model, with what the cause of its term is worth."""
    if row["worth"] is None:
        return str(row["model"])
    return f"{row['model']} ({row['worth']:.3f})" + " *" * bool(row["cause"])


def _against(result: StudyResult) -> Iterator[Figure]:
    for (world,), rows in result.tables["against"].group_by("world", maintain_order=True):
        names = rows["baseline"].to_list()
        axis = "--auto minus baseline (nats per interaction)"
        caption = "Right of 0, --auto predicts better than the baseline."
        yield _intervals(rows, names, f"{world}: --auto and baselines", axis, caption, "against")


def _learned(result: StudyResult) -> Iterator[Figure]:
    """Show what the network made of the features that count most to it, by the first seed."""
    if "network" not in result.tables:  # a study of an earlier release
        return
    for (world,), rows in result.tables["network"].group_by("world", maintain_order=True):
        first = rows.filter(pl.col("seed") == rows["seed"][0])
        drawn = [
            figures.Line(name.replace("_", " "), one["sds"].to_list(), one["log_odds"].to_list())
            for (name,), one in first.group_by("feature", maintain_order=True)
        ][: len(figures.COLOURS)]
        axes = "standard deviations above the mean of the feature", "log odds of a click"
        caption = (
            "One item of a slate takes one value of a feature after the other, and all else stays; "
            "the mean over slates, for the features that move it most."
        )
        title = f"{world}: what the network learned"
        yield Figure(title, figures.lines(drawn), figures.layout(*axes), caption, "network")


def _intervals(
    rows: pl.DataFrame, names: list[Any], title: str, axis: str, caption: str, file: str
) -> Figure:
    bars = [
        figures.Bar(name, row["value"], row["low"], row["high"], row["by_seed"])
        for name, row in zip(names, rows.to_dicts(), strict=True)
    ]
    data, layout = figures.intervals(bars, axis)
    return Figure(title, data, layout, caption, file)
