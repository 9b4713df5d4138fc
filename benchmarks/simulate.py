"""How fast the simulator writes logs, in how much memory, and how far that is from the floor.

    python benchmarks/simulate.py [--json FILE] [--check]

The floor of a run is what no implementation of this search can avoid: gathering the vectors of
all candidates, at the speed of a bare gather from a table of that size, and writing the bytes of
the result, at the speed of the disk.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from slatewise.simulation import SimulationConfig, load_config, write_log

RUNS: Final = (("demo", 6_000), ("finn", 10_000), ("finn", 40_000))
DEMO_SECONDS: Final = 10.0
FLAT: Final = 1.25
"""How much more memory four times the users may take."""


def main() -> int:
    """Run, print the table, and judge it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", type=Path, help="write the measurements to this file")
    parser.add_argument("--check", action="store_true", help="fail when a limit is passed")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(_run(options.child[0], int(options.child[1]))))
        return 0
    disk = _disk_rate()
    results = [_measure(preset, users, disk) for preset, users in RUNS]
    _print(results)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    failures = _failures(results) if options.check else []
    for failure in failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if failures else 0


def _run(preset: str, users: int) -> dict[str, Any]:
    """Simulate in this process, which does nothing else, and say what it cost."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        summary = write_log(load_config(preset, users=users), Path(folder) / "log")
        wall = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # kilobytes on Linux
    return {
        "wall_s": wall,
        "slates": summary.slates,
        "bytes": summary.bytes,
        "peak_mb": peak / 1024,
    }


def _measure(preset: str, users: int, disk_rate: float) -> dict[str, Any]:
    config = load_config(preset, users=users)
    command = [sys.executable, __file__, "--child", preset, str(users)]
    begin = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, Any] = {
        "preset": preset,
        "users": users,
        "process_s": time.perf_counter() - begin,
    }
    result |= json.loads(done.stdout)
    gathered = result["slates"] * config.search_share * config.search.candidates
    floor = gathered / _gather_rate(config) + result["bytes"] / disk_rate
    return result | {
        "slates_per_s": result["slates"] / result["wall_s"],
        "floor_s": floor,
        "ratio": result["wall_s"] / floor,
    }


def _gather_rate(config: SimulationConfig) -> float:
    """Item vectors per second that a bare gather reads at random places."""
    rng = np.random.default_rng(0)
    items, dimensions = config.catalogue.items, config.catalogue.dimensions
    table = rng.standard_normal((items, dimensions), dtype=np.float32)  # [I, D]
    rows = rng.integers(items, size=200_000)
    out = np.empty((len(rows), dimensions), dtype=np.float32)
    best = min(
        _seconds(lambda: np.take(table, rows, axis=0, out=out, mode="clip")) for _ in range(5)
    )
    return len(rows) / best


def _disk_rate() -> float:
    """Bytes per second that reach the disk, flushed."""
    block = os.urandom(64 * 2**20)
    with tempfile.TemporaryFile() as file:

        def write() -> None:
            file.write(block)
            file.flush()
            os.fsync(file.fileno())

        return len(block) / min(_seconds(write) for _ in range(3))


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _print(results: list[dict[str, Any]]) -> None:
    headings = ("preset", "users", "slates/s", "wall s", "peak MB", "MB out", "floor s", "× floor")
    print(" ".join(f"{heading:>9}" for heading in headings))
    for r in results:
        print(
            f"{r['preset']:>9} {r['users']:>9,} {r['slates_per_s']:>9,.0f} {r['wall_s']:>9.2f} "
            f"{r['peak_mb']:>9.0f} {r['bytes'] / 1e6:>9.1f} {r['floor_s']:>9.2f} {r['ratio']:>9.1f}"
        )


def _failures(results: list[dict[str, Any]]) -> list[str]:
    demo, small, large = results
    failures = []
    if demo["process_s"] >= DEMO_SECONDS:
        failures.append(f"demo took {demo['process_s']:.1f} s, the limit is {DEMO_SECONDS:.0f} s")
    if large["peak_mb"] > FLAT * small["peak_mb"]:
        failures.append(
            f"memory grew from {small['peak_mb']:.0f} to {large['peak_mb']:.0f} MB "
            f"with {large['users'] // small['users']} times the users"
        )
    return failures


if __name__ == "__main__":
    sys.exit(main())
