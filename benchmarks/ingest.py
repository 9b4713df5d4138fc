"""How fast a log becomes a dataset, and how much memory that takes, beside the bare minimum.

The log is simulated (the `finn` catalogue of 1.3 million items); the larger one is several copies
of it under other user ids, because only the number of rows matters to memory. The floor is what
nobody can avoid: streaming the log once and writing the dataset's bytes once.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console
from rich.table import Table

TARGET_RATE = 200_000
TARGET_MEMORY_GB = 4.0
TARGET_GROWTH = 1.25
FINN_INTERACTIONS = 37_400_000


def main() -> None:
    """Measure, print a table, and check it against the targets if asked."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as place:
        directory = Path(place)
        log, items = _simulate(directory, arguments.interactions)
        runs = []
        for copies in (1, arguments.copies):
            parts = _copies(log, directory / f"log-{copies}", copies)
            runs.append(_measure(parts, items, directory / f"dataset-{copies}"))
    _show(runs)
    if arguments.json:
        arguments.json.write_text(json.dumps({"runs": runs}, indent=2) + "\n")
    misses = _misses(runs)
    for miss in misses:
        print("missed:", miss)
    if arguments.check and misses:
        sys.exit(1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--interactions", type=int, default=2_000_000, help="in the smaller log")
    parser.add_argument("--copies", type=int, default=4, help="of it in the larger log")
    parser.add_argument("--directory", type=Path, help="where to work; a temporary place otherwise")
    parser.add_argument("--json", type=Path, help="write the numbers here")
    parser.add_argument("--check", action="store_true", help="exit 1 when a target is missed")
    return parser.parse_args()


def _simulate(directory: Path, interactions: int) -> tuple[Path, Path]:
    users = round(interactions / 15)
    command = ["simulate", str(directory / "simulated"), "--preset", "finn", "--users", str(users)]
    _slatewise(*command)
    return directory / "simulated" / "log.parquet", directory / "simulated" / "items.parquet"


def _copies(log: Path, directory: Path, copies: int) -> Path:
    directory.mkdir()
    users = pl.scan_parquet(log).select(pl.col("user_id").max()).collect().item() + 1
    for copy in range(copies):
        renamed = pl.scan_parquet(log).with_columns(pl.col("user_id") + copy * users)
        renamed.sink_parquet(directory / f"{copy}.parquet")
    return directory


def _measure(log: Path, items: Path, out: Path) -> dict[str, Any]:
    read = _timed(lambda: [batch.height for batch in pl.scan_parquet(log / "*.parquet").collect_batches(chunk_size=250_000)])
    start = time.perf_counter()
    memory = _slatewise("prepare", str(log), str(items), str(out))
    seconds = time.perf_counter() - start
    meta = json.loads((out / "dataset.json").read_text())
    size = sum(file.stat().st_size for file in out.iterdir())
    written = _timed(lambda: _write(out.parent / "bytes", size))
    rows = meta["report"]["rows"]
    return {
        "interactions": rows,
        "seconds": seconds,
        "interactions_per_second": rows / seconds,
        "peak_memory_gb": memory,
        "floor_seconds": read + written,
        "ratio": seconds / (read + written),
        "log_gb": sum(file.stat().st_size for file in log.iterdir()) / 1e9,
        "dataset_gb": size / 1e9,
    }


def _timed(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _write(file: Path, size: int) -> None:
    block = bytes(1 << 24)
    with file.open("wb") as stream:
        for _ in range(size // len(block) + 1):
            stream.write(block)
    file.unlink()


def _slatewise(*command: str) -> float:
    """Run a command in a process of its own and return its peak memory in GB."""
    script = (
        "import resource, sys\n"
        "from slatewise.cli import app\n"
        "app(sys.argv[1:], standalone_mode=False)\n"
        "print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *command], check=True, stdout=subprocess.PIPE, text=True
    )
    return int(done.stdout.split()[-1]) * 1024 / 1e9


def _show(runs: list[dict[str, Any]]) -> None:
    table = Table(title="From log to dataset", title_justify="left", box=None)
    for column in ("interactions", "seconds", "a second", "peak GB", "floor s", "ratio", "log GB", "dataset GB"):
        table.add_column(column, justify="right")
    for run in runs:
        table.add_row(
            f"{run['interactions']:,}",
            f"{run['seconds']:.1f}",
            f"{run['interactions_per_second']:,.0f}",
            f"{run['peak_memory_gb']:.2f}",
            f"{run['floor_seconds']:.1f}",
            f"{run['ratio']:.1f}",
            f"{run['log_gb']:.2f}",
            f"{run['dataset_gb']:.2f}",
        )
    console = Console()
    console.print(table)
    # The slope between the two sizes leaves out the fixed cost of start and items table.
    small, large = runs
    slope = (large["seconds"] - small["seconds"]) / (large["interactions"] - small["interactions"])
    minutes = (small["seconds"] + slope * (FINN_INTERACTIONS - small["interactions"])) / 60
    console.print(
        f"Extrapolated along the line through both: {FINN_INTERACTIONS:,} interactions in "
        f"{minutes:.1f} minutes."
    )


def _misses(runs: list[dict[str, Any]]) -> list[str]:
    small, large = runs
    growth = large["peak_memory_gb"] / small["peak_memory_gb"]
    checks = {
        f"{run['interactions_per_second']:,.0f} interactions a second, wanted {TARGET_RATE:,}": (
            run["interactions_per_second"] < TARGET_RATE
        )
        for run in runs
    }
    checks |= {
        f"{large['peak_memory_gb']:.2f} GB, wanted less than {TARGET_MEMORY_GB}": (
            large["peak_memory_gb"] >= TARGET_MEMORY_GB
        ),
        f"memory grew {growth:.2f}x with the log, wanted at most {TARGET_GROWTH}x": (
            growth > TARGET_GROWTH
        ),
    }
    return [text for text, missed in checks.items() if missed]


if __name__ == "__main__":
    main()
