"""The command line: one module per command, each a thin shell around the package."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated

import typer

from slatewise.cli import (
    advise,
    analyse,
    backup,
    describe,
    download,
    evaluate,
    experiment,
    expire,
    export,
    import_log,
    load,
    prepare,
    recommend,
    repair,
    report,
    restore,
    retrain,
    rollback,
    serve,
    show,
    simulate,
    train,
)
from slatewise.errors import SlatewiseError
from slatewise.version import __version__

_INTERRUPTED, _TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM

app = typer.Typer(
    name="slatewise",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(simulate.simulate)
app.command()(prepare.prepare)
app.command()(describe.describe)
app.command()(train.train)
app.command()(evaluate.evaluate)
app.command()(advise.advise)
app.command()(recommend.recommend)
app.command()(experiment.experiment)
app.command()(report.report)
app.command()(serve.serve)
app.command()(load.load)
app.command()(export.export)
app.command("import")(import_log.import_log)
app.command()(download.download)
app.command()(retrain.retrain)
app.command()(rollback.rollback)
app.command()(expire.expire)
app.command()(backup.backup)
app.command()(restore.restore)
app.command()(repair.repair)
app.command()(analyse.analyse)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"slatewise {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Bayesian dynamic slate recommendation, from exposure log to slates."""


def main() -> None:
    """Run the command line; a problem the user can fix ends as two lines, not a stack trace."""
    show.replace_unprintable()
    signal.signal(signal.SIGTERM, _terminate)
    with _watch_ctrl_c() as pressed:
        _run(pressed)


def _run(pressed: Callable[[], bool]) -> None:
    try:
        app()
    except SlatewiseError as error:
        show.complain(error.problem, error.remedy)
        sys.exit(2)
    except OSError as error:
        path = f"{error.filename}: " if error.filename else ""
        show.complain(
            f"{path}{error.strerror or error}.", "Check the path, its permissions and the disk."
        )
        sys.exit(2)
    except SystemExit as stop:
        if stop.code in (_INTERRUPTED, _TERMINATED):
            print("stopped.", file=sys.stderr)
        raise
    except BaseException:
        # Some libraries turn it into their own error: numpy does when it ends an import.
        if not pressed():
            raise
        print("stopped.", file=sys.stderr)
        sys.exit(_INTERRUPTED)


@contextmanager
def _watch_ctrl_c() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed, even if the interrupt was lost."""
    before, pressed = signal.getsignal(signal.SIGINT), threading.Event()
    if before is not signal.default_int_handler:  # such as one that ignores it, in the background
        yield pressed.is_set
        return

    def press(number: int, frame: FrameType | None) -> None:
        pressed.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, press)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def _terminate(number: int, frame: FrameType | None) -> None:
    # As an exception, so that what is half-written is cleared away as after Ctrl-C.
    raise SystemExit(_TERMINATED)
