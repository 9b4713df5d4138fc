"""A log of ours, small: users who see slates of a few items and click none, one or several."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from slatewise.data import SlateDataset
from slatewise.data.preparation import prepare

START = 1_704_067_200_000_000
"""The first moment of 2024, in microseconds."""
MINUTE = 60_000_000
GROUPS = ("red", "green", "blue")
ITEMS = [f"a{number:02d}" for number in range(60)]


def frame(users: int = 7, slates: int = 200, seed: int = 0) -> pl.DataFrame:
    """Slates of random users, sorted by nothing; some times are shared."""
    rng = np.random.default_rng(seed)
    shown = [rng.choice(ITEMS, rng.integers(2, 7), replace=False).tolist() for _ in range(slates)]
    return pl.DataFrame(
        {
            "user_id": [f"u{user}" for user in rng.integers(users, size=slates)],
            "time": START + MINUTE * rng.integers(slates, size=slates),
            "slate": shown,
            "click": [
                rng.permutation(items)[: rng.choice([0, 0, 1, 1, 2])].tolist() for items in shown
            ],
            "source": rng.choice(["search", "recommendation"], slates),
        },
        schema_overrides={"click": pl.List(pl.String)},
    ).with_columns(pl.col("time").cast(pl.Datetime("us", "UTC")))


def write(directory: Path, log: pl.DataFrame | None = None) -> Path:
    """Write a log and its items into a directory, as `simulate` does."""
    directory.mkdir(parents=True)
    (frame() if log is None else log).write_parquet(directory / "log.parquet")
    groups = [GROUPS[number % len(GROUPS)] for number in range(len(ITEMS))]
    table = pl.DataFrame({"item_id": ITEMS, "group": groups})
    table.write_parquet(directory / "items.parquet")
    return directory


def dataset(directory: Path, log: pl.DataFrame | None = None) -> SlateDataset:
    """Write a log and prepare it."""
    written = write(directory / "written", log)
    return prepare(written, written, directory / "dataset")


def visits(log: pl.DataFrame) -> Iterator[tuple[str, int, str, tuple[str, ...], tuple[str, ...]]]:
    """Yield user, time, source, items and clicks of each row, users by name, oldest first."""
    by_time = log.with_columns(pl.col("time").cast(pl.Int64)).sort(
        "user_id", "time", maintain_order=True
    )
    for row in by_time.iter_rows(named=True):
        yield row["user_id"], row["time"], row["source"], tuple(row["slate"]), tuple(row["click"])
