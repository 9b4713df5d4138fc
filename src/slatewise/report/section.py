"""What a study looks like on the page, before it is HTML or Markdown.

To show a study in its own way, write `report/sections/NAME.py` (with _ for -) with a function
`section(result: StudyResult) -> Section`. Texts are plain: what they hold is escaped. A study
without such a module is shown by its tables.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from slatewise.report.takeaway import Takeaway

MOST_ROWS = 50
"""Rows of a table that are shown; the file has all."""


@dataclass(frozen=True)
class Table:
    """A table of texts."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    """What to see in it."""
    file: str = ""
    """The table of the study that has the numbers, without its ending."""
    paper: Collection[str] = ()
    """Columns that are the paper's, set apart from ours."""

    @classmethod
    def of(
        cls,
        frame: pl.DataFrame,
        title: str,
        *,
        caption: str = "",
        file: str = "",
        paper: Collection[str] = (),
    ) -> "Table":
        """Show a data frame: numbers in four digits, no lists, the first rows."""
        shown = frame.select(
            column for column in frame.columns if not isinstance(frame.schema[column], pl.List)
        )
        if shown.height > MOST_ROWS:
            caption = f"{caption} The first {MOST_ROWS} of {shown.height:,} rows.".strip()
        rows = [[text_of(value) for value in row] for row in shown.head(MOST_ROWS).iter_rows()]
        return cls(title, shown.columns, rows, caption, file, paper)


@dataclass(frozen=True)
class Figure:
    """A drawing for plotly.js: traces and layout as plain dictionaries (see `figures`)."""

    title: str
    data: Sequence[dict[str, Any]]
    layout: dict[str, Any]
    caption: str
    """What to see in it."""
    file: str = ""
    """The table of the study that has the numbers, without its ending."""


@dataclass(frozen=True)
class Section:
    """A study on the page."""

    title: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    takeaway: Takeaway | None = None
    """What the first screen says of it; without one, what follows from its findings."""


def csv_text(frame: pl.DataFrame) -> str:
    """Return a table as CSV; the values of a list are parted by spaces."""
    lists = [name for name, kind in frame.schema.items() if isinstance(kind, pl.List)]
    texts = [pl.col(name).cast(pl.List(pl.String)).list.join(" ") for name in lists]
    return frame.with_columns(texts).write_csv()


def text_of(value: object) -> str:
    """Return a value as a person reads it."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    if isinstance(value, float):
        return f"{value:.4g}".replace("-", "−")
    return str(value)
