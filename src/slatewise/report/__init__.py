"""One page of everything that the studies found, to read offline, on a phone or on paper."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal

from slatewise.files import atomic_file
from slatewise.report.contents import Report, collect
from slatewise.report.latex import latex_page
from slatewise.report.markdown import markdown_page
from slatewise.report.page import html_page
from slatewise.report.section import csv_text

Format = Literal["html", "markdown", "latex", "csv"]

_PAGES: Final[Mapping[str, tuple[str, Callable[[Report], str]]]] = {
    "html": ("report.html", html_page),
    "markdown": ("report.md", markdown_page),
    "latex": ("report.tex", latex_page),
}


def build_report(out: str | Path, format: Format = "html") -> Path:
    """Write what the studies in OUT found; return the file, of CSV the folder.

    Args:
        out: the directory of the studies.
        format: `html`, one file with tables, figures and how they were made; `markdown`, without
            figures; `latex`, the tables alone; `csv`, all rows of every table of every study.

    """
    report = collect(out)
    if format == "csv":
        for shown in report.studies:
            for name, frame in shown.result.tables.items():
                _write(Path(out) / shown.result.name / f"{name}.csv", csv_text(frame))
        return Path(out)
    name, page = _PAGES[format]
    _write(Path(out) / name, page(report))
    return Path(out) / name


def _write(file: Path, text: str) -> None:
    with atomic_file(file) as partial:
        partial.write_text(text, encoding="utf-8")
