"""`slatewise report`: everything the studies found, on one page."""

from pathlib import Path
from typing import Annotated

import typer

from slatewise.cli.show import console


def report(
    out: Annotated[
        Path, typer.Argument(help="Directory of studies that slatewise experiment made.")
    ],
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Write OUT/report.md, without figures.")
    ] = False,
) -> None:
    """Write OUT/report.html: one file, with tables, figures and how they were made."""
    from slatewise.report.building import build_report  # noqa: PLC0415
    from slatewise.report.collecting import agreement, collect  # noqa: PLC0415

    file = build_report(out, markdown=markdown)
    console.print(agreement(collect(out)), soft_wrap=True)
    console.print(f"\nReport: {file}")
