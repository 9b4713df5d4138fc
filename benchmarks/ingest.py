"""How fast a log becomes a dataset, and how much memory that takes, beside the bare minimum.

The log is simulated (the `finn` catalogue of 1.3 million items); the larger one is several copies
of it under other user ids, because only the number of rows matters to memory. A third has few rows
and long slates, of several hundred items. The floor is what nobody can avoid: streaming the log
once and writing the dataset's bytes once.
"""

import json
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from harness import Row, Target, parse, parser, report, seconds, size_of, slatewise, write_seconds

FINN_INTERACTIONS = 37_400_000
LONG_SLATE, PRESET = 300, "finn"
MINIATURE = {"interactions": 1_000, "copies": 2, "long": 50, "LONG_SLATE": 30, "PRESET": "tiny"}


def main() -> None:
    """Measure two sizes of log."""
    arguments = parser(__doc__)
    arguments.add_argument("--interactions", type=int, default=2_000_000, help="in the smaller log")
    arguments.add_argument("--copies", type=int, default=4, help="of it in the larger log")
    arguments.add_argument(
        "--long", type=int, default=250_000, help="interactions with long slates"
    )
    options = parse(arguments, globals())
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        simulated = directory / "simulated"
        users = str(round(options.interactions / 16))
        slatewise("simulate", str(simulated), "--preset", PRESET, "--users", users)
        small, large = (
            _measure(_copies(simulated, directory / f"log-{copies}", copies), simulated)
            for copies in (1, options.copies)
        )
        long = _measure(_long_slates(simulated, directory / "log-long", options.long), simulated)
    # The slope between the two sizes leaves out the fixed cost of start and items table.
    slope = (large["seconds"] - small["seconds"]) / (large["interactions"] - small["interactions"])
    minutes = (small["seconds"] + slope * (FINN_INTERACTIONS - small["interactions"])) / 60
    report(
        options,
        "From log to dataset",
        {
            "interactions": "{:,}",
            "items_a_slate": "{:.0f}",
            "seconds": "{:.1f}",
            "interactions_per_s": "{:,.0f}",
            "peak_gb": "{:.2f}",
            "floor_s": "{:.2f}",
            "times_floor": "{:.1f}",
            "log_gb": "{:.2f}",
            "dataset_gb": "{:.2f}",
        },
        [small, large, long],
        [
            Target("interactions a second", small["interactions_per_s"], 200_000, at_least=True),
            Target("peak memory in GB", large["peak_gb"], 4.0),
            Target("growth of memory with the log", large["peak_gb"] / small["peak_gb"], 1.25),
            Target("peak memory in GB with long slates", long["peak_gb"], 4.0),
        ],
        extrapolated={"interactions": FINN_INTERACTIONS, "minutes": minutes},
    )
    print(f"Along the line through both, {FINN_INTERACTIONS:,} would take {minutes:.1f} minutes.")


def _copies(simulated: Path, directory: Path, copies: int) -> Path:
    directory.mkdir()
    log = pl.scan_parquet(simulated / "log.parquet")
    users = log.select(pl.col("user_id").max()).collect().item() + 1
    for copy in range(copies):
        renamed = log.with_columns(pl.col("user_id") + copy * users)
        renamed.sink_parquet(directory / f"{copy}.parquet")
    return directory


def _long_slates(simulated: Path, directory: Path, rows: int) -> Path:
    """Write a log of long slates, ten to a user and one click in three, of the same items."""
    directory.mkdir()
    items = pl.read_parquet(simulated / "items.parquet")["item_id"]
    rng = np.random.default_rng(0)
    # A window of a shuffled catalogue has no item twice.
    shuffled = items.sample(fraction=1, shuffle=True, seed=0).to_numpy()
    starts = rng.integers(len(shuffled) - LONG_SLATE, size=rows)
    slates = shuffled[starts[:, None] + np.arange(LONG_SLATE)]
    number = np.arange(rows)
    pl.DataFrame(
        {
            "user_id": number // 10,
            "time": number % 10,
            "slate": pl.Series(slates).cast(pl.List(items.dtype)),
            "click": pl.Series(slates[:, 7]).set(pl.Series(number % 3 > 0), None),
            "source": pl.Series(["search"]).new_from_index(0, rows),
        }
    ).write_parquet(directory / "0.parquet")
    return directory


def _measure(log: Path, simulated: Path) -> Row:
    out = log.with_name(f"{log.name}-dataset")
    taken, memory, _ = slatewise("prepare", str(log), str(simulated / "items.parquet"), str(out))
    account = json.loads((out / "dataset.json").read_text())["report"]
    rows, left = account["rows"], account["remaining"]

    def stream() -> None:
        for _ in pl.scan_parquet(log / "*.parquet").collect_batches(chunk_size=250_000):
            pass

    floor = seconds(stream) + write_seconds(out.parent, size_of(out))
    return {
        "interactions": rows,
        "items_a_slate": left["views"] / left["interactions"],
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
