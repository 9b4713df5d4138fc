"""One page of everything that the studies found, to read offline, on a phone or on paper."""

from pathlib import Path

from slatewise.files import atomic_file
from slatewise.report.contents import collect
from slatewise.report.markdown import markdown_page
from slatewise.report.page import html_page

HTML, MARKDOWN = "report.html", "report.md"


def build_report(out: str | Path, *, markdown: bool = False) -> Path:
    """Write OUT/report.html, or OUT/report.md, from the studies in OUT; return its path."""
    report = collect(out)
    file = Path(out) / (MARKDOWN if markdown else HTML)
    text = markdown_page(report) if markdown else html_page(report)
    with atomic_file(file) as partial:
        partial.write_text(text, encoding="utf-8")
    return file
