"""Appendix A: what the search found beside the paper's, how it went, and Figures 6 and 7."""

from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from slatewise.experiments.store import StudyResult
from slatewise.report import figures
from slatewise.report.section import Figure, Section, Table, text_of

SYMBOLS: Final = {
    "sigma_max": "σ_max",
    "temperature": "τ",
    "learning_rate": "learning rate",
    "sigma_rnn": "σ_rnn",
    "kappa_mu": "κ_μ",
    "kappa_sigma": "κ_Σ",
    "sigma_v": "σ_v",
}
_OBJECTIVES: Final = {
    "validation-likelihood": "validation log-likelihood",
    "hitrate": "validation hitrate",
}
_MARKS: Final = {"defaults": "diamond", "sobol": "circle-open", "model": "circle"}
_ORIGINS: Final = {
    "defaults": "the defaults",
    "sobol": "from a Sobol sequence",
    "model": "chosen by the surrogate",
}


def section(result: StudyResult) -> Section:
    """Show the search."""
    title = str(result.about["title"])
    left_out = [
        Table.of(result.tables[name], "Left out", file=name)
        for name in ("left_out",)
        if name in result.tables
    ]
    if "trials" not in result.tables:
        return Section(title, tables=left_out)
    return Section(
        title, _paragraphs(result), [*_tables(result), *left_out], list(_figures(result))
    )


def _paragraphs(result: StudyResult) -> list[str]:
    settings = result.about["settings"]
    trials = result.tables["trials"]
    counts = dict(trials["status"].value_counts().iter_rows())
    paragraphs = [
        f"{settings['trials']} trials for each model, with at most "
        f"{settings['training']['max_epochs']} passes over the same data in each. Trial 0 has the "
        "defaults; the next come from a Sobol sequence; then a Gaussian process that has seen all "
        f"trials before chooses what promises the most {_OBJECTIVES[settings['objective']]}.",
        f"Of {trials.height} trials {counts.get('completed', 0)} came to their end, "
        f"{counts.get('stopped', 0)} were stopped because they could not have reached the median "
        f"any more, and {counts.get('failed', 0)} failed.",
        "The best settings and the defaults were then trained again from "
        f"{settings['starts']} fresh seed{'s' * (settings['starts'] > 1)} and compared on test "
        "interactions, which the search had not seen.",
    ]
    if settings["objective"] == "hitrate":
        paragraphs.append(
            "The hitrate is the paper's objective. It measures what the platform shows as much as "
            "what users prefer: settings chosen by it are for comparison only."
        )
    return paragraphs


def _tables(result: StudyResult) -> Iterator[Table]:
    yield Table.of(
        result.tables["headline"],
        "What the search gained",
        caption="The gain is in mean log-likelihood of test interactions (after calibration for "
        "all-item models), with a 95 % interval over users and trainings.",
        file="differences",
    )
    symbols = pl.col("setting").replace_strict(SYMBOLS)
    yield Table.of(
        result.tables["settings"].with_columns(symbols),
        "The settings found, beside the paper's",
        caption="The paper's values are partly outside its own ranges. Its τ multiplies another "
        "scaling of the likelihood and cannot be compared; 1 is the untempered posterior here.",
        file="settings",
        paper=("paper: range", "paper: found"),
    )
    trials = result.tables["trials"]
    same = [] if result.about["settings"]["objective"] == "hitrate" else ["validation"]
    # Trials near the best differ in the fourth decimal.
    values = ["–" if value is None else f"{value:.4f}" for value in trials["value"]]
    shown = (
        trials.drop("curve", "why", *same)
        .with_columns(value=pl.Series(values))
        .rename({name: symbol for name, symbol in SYMBOLS.items() if name in trials.columns})
    )
    yield Table.of(
        shown,
        "All trials",
        caption="Of a stopped trial the value is the best it had reached; why is in the file.",
        file="trials",
    )


def _figures(result: StudyResult) -> Iterator[Figure]:
    objective = _OBJECTIVES[result.about["settings"]["objective"]]
    for (seed, variant), trials in result.tables["trials"].group_by(
        "seed", "variant", maintain_order=True
    ):
        name = f"{variant}, seed {seed}"
        yield _course(trials, name, objective)
        if "contours" in result.tables:
            cells = result.tables["contours"].filter(seed=seed, variant=variant)
            for _, surface in cells.group_by("figure", maintain_order=True):
                yield _contour(surface, trials, name, objective)


def _course(trials: pl.DataFrame, name: str, objective: str) -> Figure:
    """Draw the value of each trial, and the best so far."""
    scored = trials.filter(pl.col("value").is_not_null())
    completed = scored.filter(status="completed")
    best = {
        "type": "scatter",
        "mode": "lines",
        "name": "best so far",
        "x": completed["trial"].to_list(),
        "y": completed["value"].cum_max().to_list(),
        "line": {"shape": "hv", "color": figures.GREY, "width": 1.5},
        "hoverinfo": "skip",
    }
    data = [best, *_points(scored, "trial", "value")]
    caption = (
        f"The {objective} of each trial. Trials that the surrogate chose should gather near the "
        "line; those far below it are what the search paid to learn."
    )
    return Figure(
        f"How the search went: {name}", data, figures.layout("trial", objective), caption, "trials"
    )


def _contour(surface: pl.DataFrame, trials: pl.DataFrame, name: str, objective: str) -> Figure:
    """Draw the surrogate over two settings, and the trials at their values."""
    across, up, number = surface["across"][0], surface["up"][0], surface["figure"][0]
    values = surface.sort("y", "x")
    columns = values["x"].n_unique()
    heights = values["mean"].to_list()
    spread = values["deviation"].to_list()
    rows = range(0, len(heights), columns)
    data: list[dict[str, Any]] = [
        {
            "type": "contour",
            "x": values["x"].to_list()[:columns],
            "y": values["y"].to_list()[::columns],
            "z": [heights[row : row + columns] for row in rows],
            "customdata": [spread[row : row + columns] for row in rows],
            "colorscale": [list(stop) for stop in figures.SHADES],
            "contours": {"coloring": "heatmap"},
            "line": {"width": 0.5, "color": "#ffffff"},
            "colorbar": {"thickness": 12},
            "hovertemplate": "%{z:.4f} ± %{customdata:.4f}<br>"
            "%{x:.3g}, %{y:.3g}<extra>surrogate</extra>",
        },
        *_points(trials.filter(pl.col("value").is_not_null()), across, up, outline=True),
    ]
    log = {"type": "log", "dtick": 1, "exponentformat": "power"}
    layout = figures.layout(SYMBOLS[across], SYMBOLS[up], height=440, xaxis=log, yaxis=log)
    caption = (
        f"The paper's Figure {number}: what the surrogate expects of the {objective}, darker for "
        "more, with the other settings as in the best trial. The marks are trials at their values "
        "in these two settings; their other settings differ. Far from marks it is a guess: the "
        "standard deviation is shown on hovering."
    )
    title = f"{SYMBOLS[across]} and {SYMBOLS[up]}: {name}"
    return Figure(title, data, layout, caption, "contours")


def _points(
    trials: pl.DataFrame, x: str, y: str, *, outline: bool = False
) -> Iterator[dict[str, Any]]:
    """Draw trials as marks by where their settings are from; crosses are stopped ones."""
    for number, (origin, text) in enumerate(_ORIGINS.items()):
        rows = trials.filter(origin=origin)
        if rows.is_empty():
            continue
        stopped = [status == "stopped" for status in rows["status"]]
        yield {
            "type": "scatter",
            "mode": "markers",
            "name": text,
            "x": rows[x].to_list(),
            "y": rows[y].to_list(),
            "text": [
                f"trial {trial}: {text_of(value)}{', stopped' * was}"
                for trial, value, was in zip(rows["trial"], rows["value"], stopped, strict=True)
            ],
            "marker": {
                "symbol": ["x" if was else _MARKS[origin] for was in stopped],
                "size": 9,
                "color": figures.COLOURS[(1, 4, 1)[number]] if outline else figures.COLOURS[number],
                "line": {"width": 1.5 if outline else 0, "color": "#ffffff"},
            },
            "hovertemplate": "%{text}<extra></extra>",
        }
