"""Small logs with clock times, as datasets."""

from pathlib import Path

import numpy as np
import polars as pl

from slatewise.data import SlateDataset
from slatewise.data.formats import LogFormat
from slatewise.data.preparation import prepare
from slatewise.data.reductions import PrepareConfig
from slatewise.data.split import SplitConfig

ITEMS, START = 12, 1_700_000_000
Rows = list[dict[str, object]]


def rows_of(seed: int, *, users: int = 40) -> Rows:
    """Draw ten slates for each user over two days, some of them clicked."""
    rng = np.random.default_rng(seed)
    rows: Rows = []
    for user in range(users):
        for second in np.sort(rng.integers(0, 2 * 86_400, 10)).tolist():
            slate = rng.permutation(ITEMS)[: rng.integers(1, 6)].tolist()
            position = int(rng.integers(-1, len(slate)))
            rows.append(
                {
                    "user_id": user,
                    "time": START + second,
                    "slate": slate,
                    "click": slate[position] if position >= 0 else None,
                    "source": ["search", "front page"][int(rng.integers(2))],
                }
            )
    return rows


def dataset_of(
    folder: Path, rows: Rows, config: PrepareConfig | None = None, *, clock: bool = True
) -> SlateDataset:
    """Prepare rows; a fifth of the users each for validation and test."""
    folder.mkdir()
    pl.DataFrame(rows, schema_overrides={"click": pl.Int64}).write_parquet(folder / "log.parquet")
    items = pl.DataFrame({"item_id": range(ITEMS), "group": ["ab"[i % 2] for i in range(ITEMS)]})
    items.write_parquet(folder / "items.parquet")
    return prepare(
        folder / "log.parquet",
        folder / "items.parquet",
        folder / "set",
        config,
        log_format=LogFormat(time_unit="s" if clock else "order"),
        division=SplitConfig(valid_share=0.2, test_share=0.2, prefix=3),
    )
