"""The command line: one module per command, each a thin shell around the package."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

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

_STOPPED = {128 + number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}


def _plain(params: list[Any]) -> list[Any]:
    """Name arguments in capitals, as other texts do; give switches no type, lists that of a value.

    All versions of Typer do it in another way.
    """
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
        elif param.param_type_name == "argument" and not param.metavar:
            param.metavar = str(param.name).upper()
        elif getattr(param, "multiple", False) and not param.metavar:
            param.metavar = "<str>"  # not <list[str]>: each is given an option of its own
    return params


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _plain(super().get_params(ctx))


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _plain(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments = [p.metavar for p in self.get_params(ctx) if p.param_type_name == "argument"]
        return [self.options_metavar or "", *arguments]


app = typer.Typer(
    name="slatewise",
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    "Logs": {
        "simulate": simulate.simulate,
        "import": import_log.import_log,
        "download": download.download,
        "prepare": prepare.prepare,
        "describe": describe.describe,
    },
    "Models": {
        "train": train.train,
        "evaluate": evaluate.evaluate,
        "recommend": recommend.recommend,
        "advise": advise.advise,
    },
    "Studies": {"experiment": experiment.experiment, "report": report.report},
    "The live service": {
        "serve": serve.serve,
        "load": load.load,
        "export": export.export,
        "analyse": analyse.analyse,
        "retrain": retrain.retrain,
        "rollback": rollback.rollback,
        "backup": backup.backup,
        "restore": restore.restore,
        "expire": expire.expire,
        "repair": repair.repair,
    },
}
for panel, commands in COMMANDS.items():
    for name, command in commands.items():
        app.command(name, cls=_Command, rich_help_panel=panel)(command)


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
    # As when a terminal is closed: the copy of a log that is being learned from goes, too.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # else it is ignored, as by nohup
        signal.signal(signal.SIGHUP, _terminate)
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
        if stop.code in _STOPPED:
            print("stopped.", file=sys.stderr)
        raise
    except BaseException:
        # Some libraries turn it into their own error: numpy does when it ends an import.
        if not pressed():
            raise
        print("stopped.", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)


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
    raise SystemExit(128 + number)
