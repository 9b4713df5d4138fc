"""Tables, bars and progress in the terminal."""

import codecs
import io
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column, Table
from rich.text import Text

console = Console(markup=False, emoji=False, highlight=False)
"""Prints text as it is: names and paths of users may hold [brackets] or :colons:."""

_BAR_WIDTH = 32
_PLAIN = {"−": "-", "–": "-", "█": "#", "…": "..."}


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(_PLAIN.get(character, "?") for character in lost), error.end


def replace_unprintable() -> None:
    """Replace characters that the output cannot encode by plainer ones instead of failing."""
    codecs.register_error("slatewise", _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="slatewise")


def complain(problem: str, remedy: str) -> None:
    """Print a problem and its remedy to standard error, a line each."""
    terminal = Console(stderr=True, soft_wrap=True, emoji=False, highlight=False)
    terminal.print(Text.assemble(("error:", "bold red"), " ", problem))
    if remedy:
        terminal.print(Text.assemble(("remedy:", "bold"), " ", remedy))


def table(title: str, *columns: str) -> Table:
    """Return an empty table whose columns after the first are numbers, aligned right."""
    result = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for number, column in enumerate(columns):
        result.add_column(column, justify="right" if number else "left")
    return result


def histogram(title: str, counts: Mapping[str, int]) -> Table:
    """Return counts as horizontal bars."""
    result = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    result.add_column(justify="right")
    result.add_column(justify="right")
    result.add_column()
    most = max(counts.values(), default=1)
    for label, count in counts.items():
        result.add_row(label, f"{count:,}", "█" * round(_BAR_WIDTH * count / most))
    return result


@contextmanager
def bars() -> Iterator[Progress]:
    """Yield progress bars on standard error, removed at the end; hidden without a terminal."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        # In 80 columns the bar and long names give way, not the times.
        TimeElapsedColumn(table_column=Column(min_width=7, no_wrap=True)),
        TimeRemainingColumn(table_column=Column(min_width=7, no_wrap=True)),
    )
    terminal = Console(stderr=True)
    hidden = not terminal.is_terminal
    with Progress(*columns, console=terminal, transient=True, disable=hidden) as shown:
        yield shown


@contextmanager
def progress(seconds: float = math.inf) -> Iterator[Callable[[str, int, int | None], None]]:
    """Show a progress bar per stage on standard error, removed at the end.

    It yields a function of a stage, the amount done and the total, if known. Without a terminal,
    print a line every `seconds`.
    """
    with bars() as shown:
        tasks: dict[str, TaskID] = {}
        printed = time.monotonic()

        def report(stage: str, done: int, total: int | None) -> None:
            nonlocal printed
            if shown.disable and time.monotonic() - printed >= seconds:
                printed = time.monotonic()
                whole = "" if total is None else f" of {total:,}"
                print(f"{stage}: {done:,}{whole}", file=sys.stderr, flush=True)
            if stage not in tasks:
                tasks[stage] = shown.add_task(stage)
            shown.update(tasks[stage], completed=done, total=total)

        yield report
