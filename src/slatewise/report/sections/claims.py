"""Maps of the paper's claims over the regime of a site, with the boundary where each turns."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import polars as pl

from slatewise.experiments.claims import CLAIMS, NO, OPEN, TURN, YES, settings_of
from slatewise.experiments.findings import shown_interval
from slatewise.experiments.store import StudyResult
from slatewise.report import figures
from slatewise.report.section import Figure, Section, Table

_DIVERGING = ((0.0, "#D55E00"), (0.5, "#ffffff"), (1.0, "#0072B2"))
"""Orange where the opposite holds, blue where the claim does."""
_WORDS: Final = {"kind": "kind of site", "life": "life of items", "search": "share of search"}
_AXES: Final[dict[str, Callable[[str], str]]] = {
    "kind": str,
    "life": lambda level: _life(float(level)),
    "search": lambda level: f"{float(level):.0%}",
}
"""How levels of the grid are shown."""


def section(result: StudyResult) -> Section:
    """Show the study of claims."""
    return Section(
        str(result.about["title"]),
        [
            "Each cell is a simulated site of its own, over several worlds. Differences are of "
            "exact click probabilities on the same users. A claim holds where the 95 % interval "
            "over worlds and users is above 0 and there are worlds enough for a verdict; a star "
            "marks cells where it holds, or the opposite does.",
            "Read it so: find the cell nearest to your site. Where it is blue with a star, expect "
            "what the claim says; where it is orange with a star, the opposite; elsewhere these "
            "worlds cannot tell, and a difference, if there is one, is smaller than the interval.",
            *_expectations(result),
        ],
        [
            Table.of(
                result.tables["headline"],
                "In how many regimes each claim holds",
                file="headline",
            ),
            Table.of(result.tables["means"], "Means over sites", file="means"),
            Table.of(result.tables["map"], "Every claim in every regime", file="map"),
        ],
        [*_maps(result), *_turns(result)],
    )


def _expectations(result: StudyResult) -> Iterator[str]:
    """Yield for each claim what a site should expect, and what that depends on most."""
    sites, means = result.tables["map"], result.tables["means"]
    for name, claim in CLAIMS.items():
        own, levels = sites.filter(claim=name), means.filter(claim=name)
        if not own.height or not levels.height:
            continue
        count = {answer: own.filter(holds=answer).height for answer in (YES, NO)}
        whole = levels.filter(axis="all").row(0, named=True)
        text = (
            f"{claim.text[0].upper()}{claim.text[1:]}: it holds in {count[YES]} of {own.height} "
            f"sites, the opposite in {count[NO]}. Over all sites expect {_points(whole)} points."
        )
        axes = [axis for axis in _AXES if levels.filter(axis=axis).height > 1]
        if axes:
            most = max(axes, key=lambda axis: _reach(levels.filter(axis=axis)))
            rows = levels.filter(axis=most).iter_rows(named=True)
            told = "; ".join(f"{_AXES[most](row['level'])} {_points(row)}" for row in rows)
            text += f" It depends most on the {_WORDS[most]}: {told}."
        yield text


def _reach(levels: pl.DataFrame) -> float:
    """Return how far apart the means over sites of some levels are."""
    return float(np.ptp(levels["value"].to_numpy()))


def _points(row: dict[str, Any]) -> str:
    """Return a difference in points of click rate, with its interval."""
    value, low, high = (100 * row[name] for name in ("value", "low", "high"))
    return shown_interval(value, low, high, signed=True, decimals=1)


def _maps(result: StudyResult) -> Iterator[Figure]:
    kinds, lives, shares = settings_of(result.about)
    for name, claim in CLAIMS.items():
        for kind in kinds:
            rows = result.tables["map"].filter(claim=name, kind=kind)
            if rows.height:
                more = f", {kind}" if len(kinds) > 1 else ""
                yield _map(rows, f"Where: {claim.text}{more}", lives, shares)


def _turns(result: StudyResult) -> Iterator[Figure]:
    """Draw by how much the lead of all-item over slate grows from least search to most."""
    rows = result.tables["map"].filter(claim=TURN)
    if rows.height:
        bars = [
            figures.Bar(
                f"{row['kind']}, {_life(row['life'])}{_star(row)}",
                *(row["value"], row["low"], row["high"], row["by_seed"]),
            )
            for row in rows.iter_rows(named=True)
        ]
        caption = (
            "Click rate of all-item less that of slate with most search, less the same with least, "
            "paired by world. A star: the lead changes sides, or surely does not."
        )
        data, layout = figures.intervals(bars, "change of the difference in click rate")
        yield Figure(
            "Where: all-item over slate turns without search", data, layout, caption, "map"
        )


def _map(rows: pl.DataFrame, title: str, lives: list[float], shares: list[float]) -> Figure:
    cells = {(row["life"], row["search"]): row for row in rows.iter_rows(named=True)}
    grid = [[cells[life, share] for share in shares] for life in lives]
    values = [[row["value"] for row in line] for line in grid]
    most = max(1e-9, *(abs(value) for line in values for value in line))
    x, y = [f"{share:.0%}" for share in shares], [_life(life) for life in lives]
    shade: dict[str, Any] = {
        "type": "heatmap",
        **{"x": x, "y": y, "z": values, "zmin": -most, "zmax": most},
        "colorscale": [list(stop) for stop in _DIVERGING],
        "colorbar": {"title": {"text": "difference"}, "thickness": 12},
        "text": [[_label(row) for row in line] for line in grid],
        "texttemplate": "%{text}",
        "customdata": [[row["views_per_item"] for row in line] for line in grid],
        "hovertemplate": "%{x} search, lives %{y}, %{customdata:,.0f} views an item: %{text}"
        "<extra></extra>",
    }
    data = [shade]
    if len(lives) > 1 and len(shares) > 1:
        line: dict[str, Any] = {
            "type": "contour",
            **{"x": x, "y": y, "z": values, "showscale": False, "hoverinfo": "skip"},
            "contours": {"start": 0, "end": 0, "size": 1, "coloring": "none"},
            "line": {"color": "#22262c", "width": 2, "dash": "dash"},
        }
        data.append(line)
    layout = figures.layout("share of search", "life of items", height=140 + 70 * len(lives))
    caption = "Click rate of the first less that of the second. Dashed: the boundary at 0."
    return Figure(title, data, layout, caption, "map")


def _label(row: dict[str, Any]) -> str:
    return f"{100 * row['value']:+.2f} pt{_star(row)}".replace("-", "−")


def _star(row: dict[str, Any]) -> str:
    return "" if row["holds"] == OPEN else "*"


def _life(hours: float) -> str:
    return f"{hours:g} h" if hours else "for ever"
