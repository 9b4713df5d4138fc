"""Drawings for plotly.js, in one look: light, quiet, and safe for colour-blind readers.

Only plain dictionaries are made here: the Python package of plotly is asked for its script alone.
"""

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444")
"""Okabe and Ito's, which stay apart for every kind of colour blindness."""
GREY: Final = "#8a8f98"
SHADES: Final = ((0.0, "#eef4fa"), (0.35, "#9ecae1"), (0.7, "#3182bd"), (1.0, "#08306b"))
"""From few to many, darker for more."""


def plain(text: str) -> str:
    """Return text so that plotly shows it as it is: its labels know a few HTML tags."""
    return html.escape(text, quote=False)


def layout(x: str, y: str = "", *, height: int = 380, **changes: Any) -> dict[str, Any]:
    """Return the common look, with titles of the axes."""
    axis = {"gridcolor": "#e5e7eb", "zerolinecolor": "#c4c8cf", "automargin": True}
    base: dict[str, Any] = {
        "height": height,
        "margin": {"l": 8, "r": 40, "t": 8, "b": 8},  # the tools stand on the right
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": "#22262c"},
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "colorway": list(COLOURS),
        "hoverlabel": {"align": "left"},
        "modebar": {"orientation": "v"},
        "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0},
        # Turned tick labels would run into the title below them.
        "xaxis": axis | {"tickangle": 0, "title": {"text": plain(x), "standoff": 12}},
        "yaxis": axis | {"title": {"text": plain(y)}},
    }
    for name, value in changes.items():
        merge = isinstance(value, Mapping) and isinstance(base.get(name), Mapping)
        base[name] = base[name] | value if merge else value
    return base


def whole_days(days: int) -> dict[str, Any]:
    """Return what an axis of days needs to have ticks at whole days alone."""
    return {"tick0": 1, "dtick": max(1, round(days / 10))}


class Bar(NamedTuple):
    """A value with its interval, and the seeds behind it."""

    name: str
    value: float
    low: float
    high: float
    by_seed: Sequence[float] = ()


def intervals(bars: Sequence[Bar], what: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Draw values with intervals one below the other, each seed as a small mark."""
    names = [plain(bar.name) for bar in bars]
    seeds = [(plain(bar.name), value) for bar in bars for value in bar.by_seed]
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "each seed",
            "x": [value for _, value in seeds],
            "y": [name for name, _ in seeds],
            "marker": {"symbol": "line-ns-open", "size": 9, "color": GREY},
            "hovertemplate": "one seed: %{x:.4f}<extra>%{y}</extra>",
        },
        {
            "type": "scatter",
            "mode": "markers",
            "name": "mean, 95 % interval",
            "x": [bar.value for bar in bars],
            "y": names,
            "error_x": {
                "type": "data",
                "symmetric": False,
                "array": [bar.high - bar.value for bar in bars],
                "arrayminus": [bar.value - bar.low for bar in bars],
                "thickness": 1.6,
                "width": 4,
            },
            "customdata": [[bar.low, bar.high] for bar in bars],
            "marker": {"size": 9, "color": COLOURS[0]},
            "hovertemplate": "%{x:.4f} [%{customdata[0]:.4f}, %{customdata[1]:.4f}]"
            "<extra>%{y}</extra>",
        },
    ]
    rows = {"categoryorder": "array", "categoryarray": names[::-1], "gridcolor": "#f1f3f5"}
    return data, layout(what, height=120 + 30 * len(bars), yaxis=rows)


class Line(NamedTuple):
    """A line of points, perhaps with a band around it."""

    name: str
    x: Sequence[Any]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    hover: str = "%{x}: %{y:.4f}"


def training_curve(name: str, epochs: Sequence[Mapping[str, Any]]) -> Line:
    """Draw the validation likelihood of each epoch, over all stages, less the best of its stage."""
    best: dict[int, float] = {}
    for epoch in epochs:
        best[epoch["stage"]] = max(best.get(epoch["stage"], -np.inf), epoch["validation"])
    fall = [epoch["validation"] - best[epoch["stage"]] for epoch in epochs]
    return Line(name, list(range(1, len(fall) + 1)), fall, hover="epoch %{x}: %{y:.4f}")


def lines(drawn: Sequence[Line]) -> list[dict[str, Any]]:
    """Draw lines, each in its colour, with its band behind it."""
    data: list[dict[str, Any]] = []
    for number, line in enumerate(drawn):
        colour = COLOURS[number % len(COLOURS)]
        common = {"type": "scatter", "legendgroup": line.name, "name": plain(line.name)}
        if line.low is not None and line.high is not None:
            band = {
                "x": [*line.x, *reversed(line.x)],
                "y": [*line.high, *reversed(line.low)],
                "fill": "toself",
                "fillcolor": colour + "26",
                "line": {"width": 0},
                "hoverinfo": "skip",
                "showlegend": False,
            }
            data.append(common | band | {"mode": "lines"})
        data.append(
            common
            | {
                "mode": "lines+markers",
                "x": list(line.x),
                "y": list(line.y),
                "line": {"color": colour, "width": 2},
                "marker": {"size": 6},
                "hovertemplate": line.hover + "<extra>%{fullData.name}</extra>",
            }
        )
    return data


def diagonal(label: str, end: float = 1.0) -> dict[str, Any]:
    """Draw where x and y are equal."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plain(label),
        "x": [0, end],
        "y": [0, end],
        "line": {"color": GREY, "width": 1, "dash": "dash"},
        "hoverinfo": "skip",
    }


def _count_ticks(most: int) -> list[int]:
    """Return round numbers from 1 to `most`, which is among the colours; powers of 10 if many."""
    powers = [10**power for power in range(len(str(most)))]
    steps = (1, 2, 5) if len(powers) <= 3 else (1,)
    return [step * power for power in powers for step in steps if step * power <= most]


def counts(
    x_edges: Sequence[float], y_edges: Sequence[float], cells: Sequence[Sequence[int]]
) -> list[dict[str, Any]]:
    """Draw counts [Y, X] between edges [Y + 1] and [X + 1]; colour goes by their logarithm."""
    table = np.asarray(cells)
    shade = np.log10(np.maximum(table, 1))
    ticks = _count_ticks(int(table.max(initial=1)))
    return [
        {
            "type": "heatmap",
            "x": list(x_edges),
            "y": list(y_edges),
            "z": [
                [float(s) if n else None for s, n in zip(*row, strict=True)]
                for row in zip(shade, table, strict=True)
            ],
            "customdata": table.tolist(),
            "colorscale": [list(stop) for stop in SHADES],
            "zmin": 0,
            "hovertemplate": "%{customdata} items<br>%{x:.3g} views, %{y:.3g}<extra></extra>",
            "colorbar": {
                "title": {"text": "items"},
                "tickvals": [math.log10(tick) for tick in ticks],
                "ticktext": [f"{tick:,}" for tick in ticks],
                "thickness": 12,
            },
        }
    ]
