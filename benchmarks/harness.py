"""What every benchmark shares: options, a table, a file of numbers, targets it can miss."""

import argparse
import io
import json
import math
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

Row = dict[str, Any]
_left = {"processes": math.inf}
"""Commands that still get a process of their own: all of them, with `--small` one."""


@dataclass(frozen=True)
class Target:
    """A number that must stay on its side of a limit."""

    what: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def missed(self) -> bool:
        """Whether the value is on the wrong side."""
        return self.value < self.limit if self.at_least else self.value > self.limit

    def to_json(self) -> dict[str, Any]:
        """Return the target and whether it was met, as plain values."""
        return asdict(self) | {"met": not self.missed}

    def __str__(self) -> str:
        """Say what was measured and what was wanted."""
        side = "at least" if self.at_least else "at most"
        return f"{self.what}: {self.value:,.2f}, wanted {side} {self.limit:,.2f}"


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that all benchmarks have."""
    result = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    result.add_argument("--json", type=Path, help="write the numbers to this file")
    result.add_argument("--keep", type=Path, help="keep rows here, and go on from those there are")
    result.add_argument("--check", action="store_true", help="exit 1 when a target is missed")
    result.add_argument(
        "--small", action="store_true", help="tiny sizes, in seconds: shows that it runs"
    )
    return result


def parse(arguments: argparse.ArgumentParser, script: dict[str, Any]) -> argparse.Namespace:
    """Return the options; with `--small`, take the sizes in the script's `MINIATURE`.

    `script` are its globals. Keys in capitals are constants of the script, others are options.
    """
    options = arguments.parse_args()
    if options.small:
        _left["processes"] = 1
        for name, value in script["MINIATURE"].items():
            if name.isupper():
                script[name] = value
            else:
                setattr(options, name, value)
    return options


def kept(folder: Path | None, name: str, make: Callable[[], Row]) -> Row:
    """Return a row that was kept in a folder under a name, or make it and keep it there.

    So a long benchmark can be interrupted and resumed, and run piece by piece.
    """
    if folder is None:
        return make()
    file = folder / f"{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}.json"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        made = as_json(make())
        draft = file.with_suffix(f".{os.getpid()}")  # a file that is there is whole
        draft.write_text(made)
        draft.replace(file)
    row: Row = json.loads(file.read_text())
    return row


def report(
    options: argparse.Namespace,
    title: str,
    columns: Mapping[str, str],
    rows: Sequence[Row],
    targets: Sequence[Target],
    **more: object,
) -> None:
    """Print the rows (columns: key -> format, as in `{:,.1f}`), write them, check the targets.

    What else a benchmark found out goes into the file of numbers as `more`; when, of which commit
    and on how busy a machine it was measured always does.
    """
    show(title, columns, rows)
    for target in targets:
        print("MISSED " if target.missed else "met    ", target, sep="")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        numbers = {"title": title, "rows": rows, "targets": [t.to_json() for t in targets]}
        options.json.write_text(as_json(numbers | circumstances() | more))
    if options.check and any(target.missed for target in targets):
        sys.exit(1)


def as_json(numbers: Mapping[str, Any]) -> str:
    """Return numbers as valid JSON, with null for what is not a finite number."""
    return json.dumps(_finite(numbers), indent=2, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def circumstances() -> dict[str, Any]:
    """Return what numbers must be read with: date, commit, and load averages of this machine.

    Of files that were copied without their history, the variable COMMIT says of which.
    """
    ask = ["git", "describe", "--always", "--dirty"]
    folder = Path(__file__).parent
    said = subprocess.run(ask, cwd=folder, capture_output=True, text=True, check=False)
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": os.environ.get("COMMIT") or said.stdout.strip() or "unknown",
        "load": os.getloadavg(),
    }


def show(title: str, columns: Mapping[str, str], rows: Sequence[Row]) -> None:
    """Print rows as a table."""
    from rich.console import Console  # noqa: PLC0415 (a machine to compute on may not have it)
    from rich.table import Table  # noqa: PLC0415

    table = Table(title=title, title_justify="left", box=None)
    for column in columns:
        table.add_column(column.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(pattern.format(row[key]) for key, pattern in columns.items()))
    Console(width=170).print(table)


def seconds(work: Callable[[], object], repeats: int = 1) -> float:
    """Return the least wall time of some runs."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


class Taken(NamedTuple):
    """What a command took."""

    seconds: float
    peak_gb: float
    device_gb: float
    """at most, of the memory of a GPU; 0 where there is none"""


def slatewise(*command: str, into: Path | None = None) -> Taken:
    """Run a command in a process of its own; return its seconds and its peak memory.

    What it prints is kept in the file `into`, if that is given. With `--small` only the first has a
    process: others would start Python again and show nothing new.
    """
    start = time.perf_counter()
    _left["processes"] -= 1
    if _left["processes"] < 0:
        from slatewise.cli import app  # noqa: PLC0415

        with redirect_stdout(io.StringIO()) as printed:
            app(list(command), standalone_mode=False)
        text = printed.getvalue()
        peak, on_device = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0
    else:
        script = (
            "import resource, sys\n"
            "from slatewise.cli import app\n"
            "app(sys.argv[1:], standalone_mode=False)\n"
            "torch = sys.modules.get('torch')\n"
            "there = torch is not None and torch.cuda.is_initialized()\n"
            "device = torch.cuda.max_memory_allocated() if there else 0\n"
            "print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, device)\n"
        )
        run = [sys.executable, "-c", script, *command]
        done = subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True)
        text, _, last = done.stdout.rpartition("peak ")
        peak, on_device = map(int, last.split())
    if into is not None:
        into.write_text(text)
    return Taken(time.perf_counter() - start, peak * 1024 / 1e9, on_device / 1e9)


def write_seconds(directory: Path, size: int) -> float:
    """Return how long it takes to write so many bytes to a file there."""
    block = bytes(1 << 24)
    file = directory / "written"

    def write() -> None:
        with file.open("wb") as stream:
            for start in range(0, size, len(block)):
                stream.write(block[: min(len(block), size - start)])

    taken = seconds(write)
    file.unlink()
    return taken


def size_of(directory: Path) -> int:
    """Add up the bytes of all files below a directory."""
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
