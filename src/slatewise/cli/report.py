"""`slatewise report`: everything the studies found, on one page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table

from slatewise.cli.show import console, table

if TYPE_CHECKING:
    from slatewise.report.contents import Report

_QUESTION = 48


def report(
    out: Annotated[
        Path, typer.Argument(help="Directory of studies that slatewise experiment made.")
    ],
    format: Annotated[
        Literal["html", "markdown", "latex", "csv"],
        typer.Option(
            help="A page (html, markdown), the tables for a paper (latex), or all numbers (csv)."
        ),
    ] = "html",
) -> None:
    """Report what the studies in OUT found, as a page, LaTeX tables or CSV files."""
    from slatewise.report import build_report  # noqa: PLC0415
    from slatewise.report.contents import agreement, collect  # noqa: PLC0415

    file = build_report(out, format)
    collected = collect(out)
    console.print(_headlines(collected))
    console.print()
    console.print(agreement(collected), soft_wrap=True)
    console.print(f"\nReport: {file}")


def _headlines(report: "Report") -> Table:
    """Show every finding in a line, with what the paper found."""
    result = table("What was found", "question", "here, with 95 % interval", "the paper")
    result.columns[0].max_width = _QUESTION
    for shown in report.studies:
        for finding in shown.result.findings:
            verdict = finding.agreement.replace("cannot tell", "undecided")
            result.add_row(finding.question, finding.interval(), verdict)
    return result
