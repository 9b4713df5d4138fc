"""Pictures of results, as SVG without further packages: maps of a grid, and curves with bands."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

CELL_WIDTH, CELL_HEIGHT, LABEL = 78, 34, 74
MARGIN = 24
"""At the right of maps, for titles that are wider than their map."""
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9"),
    *("#E69F00", "#6b6b6b", "#000000", "#8c564b", "#9467bd"),
)
FONT = 'font-family="system-ui, sans-serif"'


@dataclass(frozen=True)
class Cell:
    """A number of a map, and whether its interval leaves 0 out."""

    value: float
    certain: bool


@dataclass(frozen=True)
class Map:
    """Cells by row and column."""

    title: str
    columns: Sequence[str]
    rows: Sequence[str]
    cells: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Curve:
    """A line with a band around it."""

    name: str
    values: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


def maps(file: Path, title: str, panels: Sequence[Sequence[Map]]) -> None:
    """Draw maps in rows and columns: blue above 0, orange below, full colour where certain.

    A line runs wherever neighbours lie on different sides of 0: solid where both are certain.
    """
    most = max(abs(cell.value) for line in panels for one in line for r in one.cells for cell in r)
    wide = LABEL + CELL_WIDTH * max(len(one.columns) for line in panels for one in line) + 14
    tall = 44 + CELL_HEIGHT * max(len(one.rows) for line in panels for one in line) + 12
    parts = [
        _map(one, x * wide, y * tall, most)
        for y, line in enumerate(panels)
        for x, one in enumerate(line)
    ]
    _write(file, title, wide * max(map(len, panels)) + MARGIN, tall * len(panels), parts)


def _map(one: Map, left: float, top: float, most: float) -> str:
    parts = [_text(left + 4, top + 15, one.title, weight="600")]
    x0, y0 = left + LABEL, top + 40
    for column, name in enumerate(one.columns):
        parts.append(_text(x0 + CELL_WIDTH * (column + 0.5), y0 - 6, name, anchor="middle"))
    for row, name in enumerate(one.rows):
        parts.append(_text(x0 - 6, y0 + CELL_HEIGHT * (row + 0.6), name, anchor="end"))
        for column, cell in enumerate(one.cells[row]):
            x, y = x0 + CELL_WIDTH * column, y0 + CELL_HEIGHT * row
            shade = (0.25 + 0.6 * abs(cell.value) / most) if cell.certain else 0.1
            colour = COLOURS[0] if cell.value > 0 else COLOURS[1]
            size = f'width="{CELL_WIDTH - 1}" height="{CELL_HEIGHT - 1}"'
            parts.append(
                f'<rect x="{x}" y="{y}" {size} fill="{colour}" fill-opacity="{shade:.2f}"/>'
            )
            shown = f"{100 * cell.value:+.1f}{'*' if cell.certain else ''}".replace("-", "−")
            middle = x + CELL_WIDTH / 2, y + CELL_HEIGHT * 0.62
            weight = "700" if cell.certain else "400"
            parts.append(_text(*middle, shown, anchor="middle", weight=weight))
    return "\n".join([*parts, *_boundary(one, x0, y0)])


def _boundary(one: Map, x0: float, y0: float) -> list[str]:
    """Draw the edges between cells on different sides of 0."""
    lines = []
    for row, cells in enumerate(one.cells):
        for column, cell in enumerate(cells):
            x, y = x0 + CELL_WIDTH * column - 0.5, y0 + CELL_HEIGHT * row - 0.5
            sides = []
            if column:
                sides.append((cells[column - 1], (x, y, x, y + CELL_HEIGHT)))
            if row:
                sides.append((one.cells[row - 1][column], (x, y, x + CELL_WIDTH, y)))
            for other, (x1, y1, x2, y2) in sides:
                if (cell.value > 0) != (other.value > 0):
                    dash = "" if cell.certain and other.certain else ' stroke-dasharray="4 3"'
                    lines.append(
                        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#22262c" '
                        f'stroke-width="2.5"{dash}/>'
                    )
    return lines


def curves(
    file: Path, title: str, panels: Mapping[str, Sequence[Curve]], across: str, up: str
) -> None:
    """Draw panels of curves side by side; points are 1, 2, … of `across`."""
    wide, tall, left, legend = 460.0, 400.0, 56.0, 18.0
    most_lines = max(map(len, panels.values()))
    parts = []
    for number, (name, lines) in enumerate(panels.items()):
        x0, y0 = number * wide + left, tall - 50
        top = max(value for one in lines for value in one.high if math.isfinite(value))
        count = max(len(one.values) for one in lines)

        def at(
            step: int, value: float, x0: float = x0, y0: float = y0, n: int = count, m: float = top
        ) -> str:
            return f"{x0 + (wide - left - 20) * step / n:.1f},{y0 - (y0 - 40) * value / m:.1f}"

        parts.append(_text(x0, 22, name, weight="600"))
        for share in (0.0, 0.5, 1.0):
            y = y0 - (y0 - 40) * share
            line = f'<line x1="{x0}" y1="{y}" x2="{x0 + wide - left - 20}" y2="{y}"'
            parts.append(f'{line} stroke="#ccc"/>')
            parts.append(_text(x0 - 6, y + 4, f"{top * share:.3g}", anchor="end"))
        for index, one in enumerate(sorted(lines, key=lambda line: -line.values[-1])):
            colour = COLOURS[[c.name for c in lines].index(one.name) % len(COLOURS)]
            band = [at(step + 1, value) for step, value in enumerate(one.high)]
            band += [at(step + 1, max(v, 0)) for step, v in reversed([*enumerate(one.low)])]
            band = [at(0, 0), *band]
            parts.append(
                f'<polygon points="{" ".join(band)}" fill="{colour}" fill-opacity="0.08"/>'
            )
            points = [at(0, 0), *(at(step + 1, value) for step, value in enumerate(one.values))]
            parts.append(
                f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" '
                'stroke-width="2"/>'
            )
            y = tall + legend * index
            parts.append(f'<rect x="{x0}" y="{y - 9}" width="14" height="5" fill="{colour}"/>')
            parts.append(_text(x0 + 20, y - 2, one.name))
        parts.append(_text(x0 + (wide - left) / 2, y0 + 26, across, anchor="middle"))
        parts.append(_text(x0, 36, up))
    _write(file, title, wide * len(panels), tall + legend * most_lines, parts)


def _text(x: float, y: float, text: str, anchor: str = "start", weight: str = "400") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">'
        f"{escape(text)}</text>"
    )


def _write(file: Path, title: str, wide: float, tall: float, parts: Sequence[str]) -> None:
    size = f'viewBox="0 0 {wide:.0f} {tall:.0f}" width="{wide:.0f}" height="{tall:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {FONT} font-size="12" fill="#22262c">'
    paper = '<rect width="100%" height="100%" fill="#ffffff"/>'
    text = "\n".join([head, f"<title>{escape(title)}</title>", paper, *parts, "</svg>"])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n", encoding="utf-8")
