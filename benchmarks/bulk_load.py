"""How fast a log gets into the store of a service, and how much memory that takes.

The log is simulated (a news site); the larger one is several copies of it under other user ids. It
is loaded into an empty store by the command itself, reading and repairing included, and once more,
to see how fast nothing is done. The floor is SQLite alone: the same rows inserted into the same
tables in the same transactions. With `--postgresql URL` (an empty database) it goes there too.
"""

import resource
import sqlite3
import tempfile
from pathlib import Path

import polars as pl

from harness import Row, Target, parse, parser, report, seconds, size_of, slatewise

PRESET = "news"
MINIATURE = {"users": 100, "copies": 2, "PRESET": "tiny"}


def main() -> None:
    """Load two sizes of log."""
    arguments = parser(__doc__)
    arguments.add_argument("--users", type=int, default=8_000, help="of the smaller log")
    arguments.add_argument("--copies", type=int, default=4, help="of it in the larger log")
    arguments.add_argument("--postgresql", help="the URL of an empty database")
    options = parse(arguments, globals())
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        slatewise("simulate", f"{home}/news", "--preset", PRESET, "--users", str(options.users))
        small, large = (_measure(home, copies) for copies in (1, options.copies))
        rows = [small, large]
        if options.postgresql:
            rows.append(_load(home, "log-1", "postgresql", "--store", options.postgresql))
    report(
        options,
        "From log to service",
        {
            "store": "{}",
            "interactions": "{:,}",
            "seconds": "{:.1f}",
            "cpu_s": "{:.1f}",
            "interactions_per_s": "{:,.0f}",
            "again_s": "{:.1f}",
            "peak_gb": "{:.2f}",
            "floor_s": "{:.1f}",
            "times_floor": "{:.1f}",
            "store_gb": "{:.2f}",
        },
        rows,
        [
            Target("interactions a second", large["interactions_per_s"], 20_000, at_least=True),
            Target("GB more for the larger log", large["peak_gb"] - small["peak_gb"], 0.5),
        ],
    )


def _measure(home: Path, copies: int) -> Row:
    """Load a log of several copies into SQLite, twice."""
    name = f"log-{copies}"
    log = pl.read_parquet(home / "news" / "log.parquet")
    users = [pl.format("{}-{}", pl.lit(n), "user_id").alias("user_id") for n in range(copies)]
    pl.concat([log.with_columns(user) for user in users]).write_parquet(home / f"{name}.parquet")
    row = _load(home, name, "sqlite")
    store = home / f"{name}-sqlite" / "store.sqlite"
    floor, size = _floor(store, home / "floor.sqlite"), size_of(store.parent) / 1e9
    return row | {"floor_s": floor, "times_floor": row["seconds"] / floor, "store_gb": size}


def _load(home: Path, name: str, kind: str, *options: str) -> Row:
    shop, log = str(home / f"{name}-{kind}"), str(home / f"{name}.parquet")
    command = ("load", shop, log, "--items", f"{home}/news", *options)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    taken, peak, _ = slatewise(*command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    again = slatewise(*command).seconds
    count = pl.scan_parquet(log).select(pl.len()).collect().item()
    return {
        "store": kind,
        "interactions": count,
        "seconds": taken,
        "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "interactions_per_s": count / taken,
        "again_s": again,
        "peak_gb": peak,
        "floor_s": 0.0,
        "times_floor": 0.0,
        "store_gb": 0.0,
    }


def _floor(store: Path, file: Path) -> float:
    """Return the seconds in which SQLite inserts the rows of a store into another."""
    source, target = sqlite3.connect(store), sqlite3.connect(file, isolation_level=None)
    for (statement,) in source.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"):
        target.execute(statement)
    for setting in ("journal_mode = WAL", "synchronous = FULL", "cache_size = -65536"):
        target.execute(f"PRAGMA {setting}")
    slates = source.execute("SELECT * FROM slates ORDER BY seq")
    outcomes = source.execute("SELECT * FROM outcomes ORDER BY seq")

    def insert() -> None:
        while batch := slates.fetchmany(10_000):
            target.execute("BEGIN IMMEDIATE")
            target.executemany(f"INSERT INTO slates VALUES ({_marks(7)})", batch)
            batch = outcomes.fetchmany(len(batch))
            target.executemany(f"INSERT INTO outcomes VALUES ({_marks(8)})", batch)
            target.execute("COMMIT")

    taken = seconds(insert)
    source.close()
    target.close()
    file.unlink()
    return taken


def _marks(count: int) -> str:
    return ", ".join("?" * count)


if __name__ == "__main__":
    main()
