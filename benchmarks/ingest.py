"""How fast a log becomes a dataset, and how much memory that takes, beside the bare minimum.

The log is simulated (the `finn` catalogue of 1.3 million items); the larger one is several copies
of it under other user ids, because only the number of rows matters to memory. The floor is what
nobody can avoid: streaming the log once and writing the dataset's bytes once.
"""

import json
import tempfile
from pathlib import Path

import polars as pl

from harness import Row, Target, parser, report, seconds, size_of, slatewise, write_seconds

FINN_INTERACTIONS = 37_400_000


def main() -> None:
    """Measure two sizes of log."""
    arguments = parser(__doc__)
    arguments.add_argument("--interactions", type=int, default=2_000_000, help="in the smaller log")
    arguments.add_argument("--copies", type=int, default=4, help="of it in the larger log")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        simulated = directory / "simulated"
        users = str(round(options.interactions / 16))
        slatewise("simulate", str(simulated), "--preset", "finn", "--users", users)
        small, large = (
            _measure(_copies(simulated, directory / f"log-{copies}", copies), simulated)
            for copies in (1, options.copies)
        )
    report(
        options,
        "From log to dataset",
        {
            "interactions": "{:,}",
            "seconds": "{:.1f}",
            "interactions_per_s": "{:,.0f}",
            "peak_gb": "{:.2f}",
            "floor_s": "{:.2f}",
            "times_floor": "{:.1f}",
            "log_gb": "{:.2f}",
            "dataset_gb": "{:.2f}",
        },
        [small, large],
        [
            Target("interactions a second", small["interactions_per_s"], 200_000, at_least=True),
            Target("peak memory in GB", large["peak_gb"], 4.0),
            Target("growth of memory with the log", large["peak_gb"] / small["peak_gb"], 1.25),
        ],
    )
    # The slope between the two sizes leaves out the fixed cost of start and items table.
    slope = (large["seconds"] - small["seconds"]) / (large["interactions"] - small["interactions"])
    minutes = (small["seconds"] + slope * (FINN_INTERACTIONS - small["interactions"])) / 60
    print(f"Along the line through both, {FINN_INTERACTIONS:,} would take {minutes:.1f} minutes.")


def _copies(simulated: Path, directory: Path, copies: int) -> Path:
    directory.mkdir()
    log = pl.scan_parquet(simulated / "log.parquet")
    users = log.select(pl.col("user_id").max()).collect().item() + 1
    for copy in range(copies):
        renamed = log.with_columns(pl.col("user_id") + copy * users)
        renamed.sink_parquet(directory / f"{copy}.parquet")
    return directory


def _measure(log: Path, simulated: Path) -> Row:
    out = log.with_name(f"{log.name}-dataset")
    taken, memory = slatewise("prepare", str(log), str(simulated / "items.parquet"), str(out))
    rows = json.loads((out / "dataset.json").read_text())["report"]["rows"]

    def stream() -> None:
        for _ in pl.scan_parquet(log / "*.parquet").collect_batches(chunk_size=250_000):
            pass

    floor = seconds(stream) + write_seconds(out.parent, size_of(out))
    return {
        "interactions": rows,
        "seconds": taken,
        "interactions_per_s": rows / taken,
        "peak_gb": memory,
        "floor_s": floor,
        "times_floor": taken / floor,
        "log_gb": size_of(log) / 1e9,
        "dataset_gb": size_of(out) / 1e9,
    }


if __name__ == "__main__":
    main()
