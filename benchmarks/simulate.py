"""How fast the simulator writes logs, in how much memory, and how far that is from the floor.

The floor of a run is what no implementation of this search can avoid: gathering the vectors of
all candidates, at the speed of a bare gather from a table of that size, and writing the bytes of
the result.
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from harness import Row, Target, parse, parser, report, seconds, size_of, slatewise, write_seconds
from slatewise.simulation import SimulationConfig, load_config

RUNS = (("demo", 6_000), ("finn", 10_000), ("finn", 40_000))
MINIATURE = {"RUNS": (("tiny", 50), ("tiny", 50), ("tiny", 100))}


def main() -> None:
    """Measure the demo, and a piece of the large preset at two sizes."""
    options = parse(parser(__doc__), globals())
    rows = [_measure(preset, users) for preset, users in RUNS]
    demo, small, large = rows
    report(
        options,
        "Simulating a log",
        {
            "preset": "{}",
            "users": "{:,}",
            "slates": "{:,}",
            "seconds": "{:.1f}",
            "slates_per_s": "{:,.0f}",
            "peak_gb": "{:.2f}",
            "floor_s": "{:.2f}",
            "times_floor": "{:.1f}",
            "log_gb": "{:.2f}",
        },
        rows,
        [
            Target("seconds of the demo", demo["seconds"], 10.0),
            Target("growth of memory with users", large["peak_gb"] / small["peak_gb"], 1.25),
        ],
    )


def _measure(preset: str, users: int) -> Row:
    config = load_config(preset, users=users)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "log"
        taken, memory, _ = slatewise(
            "simulate", str(out), "--preset", preset, "--users", str(users)
        )
        slates = pq.read_metadata(out / "log.parquet").num_rows
        size = size_of(out)
        gathered = slates * config.search_share * config.search.candidates
        floor = gathered * _gather_seconds(config) + write_seconds(Path(folder), size)
    return {
        "preset": preset,
        "users": users,
        "slates": slates,
        "seconds": taken,
        "slates_per_s": slates / taken,
        "peak_gb": memory,
        "floor_s": floor,
        "times_floor": taken / floor,
        "log_gb": size / 1e9,
    }


def _gather_seconds(config: SimulationConfig) -> float:
    """Return the time to read one item vector at a random place."""
    rng = np.random.default_rng(0)
    items, dimensions = config.catalogue.items, config.catalogue.dimensions
    table = rng.standard_normal((items, dimensions), dtype=np.float32)  # [I, D]
    rows = rng.integers(items, size=200_000)
    out = np.empty((len(rows), dimensions), dtype=np.float32)
    taken = seconds(lambda: np.take(table, rows, axis=0, out=out, mode="clip"), repeats=5)
    return taken / len(rows)


if __name__ == "__main__":
    main()
