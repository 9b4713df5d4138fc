"""The command line: one module per command, each a thin shell around the package."""

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from slatewise import __version__
from slatewise.cli import describe, download, importing, prepare, simulate
from slatewise.errors import SlatewiseError

app = typer.Typer(
    name="slatewise",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(simulate.simulate)
app.command()(prepare.prepare)
app.command()(describe.describe)
app.command("import")(importing.import_log)
app.command()(download.download)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"slatewise {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """Bayesian dynamic slate recommendation, from exposure log to slates."""


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
