"""The command line: one module per command, each a thin shell around the package."""

import sys

import typer
from rich.console import Console
from rich.markup import escape

from slatewise.cli import describe, download, importing, prepare, simulate
from slatewise.errors import SlatewiseError

app = typer.Typer(
    name="slatewise",
    help="Bayesian dynamic slate recommendation, from exposure log to slates.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(simulate.simulate)
app.command()(prepare.prepare)
app.command()(describe.describe)
app.command("import")(importing.import_log)
app.command()(download.download)


def main() -> None:
    """Run the command line; a problem the user can fix ends as two lines, not a stack trace."""
    try:
        app()
    except SlatewiseError as error:
        console = Console(stderr=True, soft_wrap=True)
        console.print(f"[bold red]error:[/] {escape(error.problem)}", highlight=False)
        if error.remedy:
            console.print(f"[bold]remedy:[/] {escape(error.remedy)}", highlight=False)
        sys.exit(2)
