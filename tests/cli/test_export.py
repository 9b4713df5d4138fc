"""`slatewise export`: a span of what a service recorded."""

from pathlib import Path

import polars as pl

from slatewise.service.logs import load_log
from slatewise.service.store import Store
from tests.cli.conftest import Run
from tests.service.logs.world import MINUTE, START, write


def test_an_export_is_a_log_of_a_span_of_time(tmp_path: Path, run: Run) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    store = Store.open(f"sqlite:///{shop / 'store.sqlite'}")
    log = write(tmp_path / "log")
    load_log(log, tmp_path, store, items=log)
    store.close()
    times = ("--since", "2024-01-01 01:00", "--until", "2024-01-01 02:00")
    code, out, _ = run("export", shop, tmp_path / "hour.parquet", *times)
    found = pl.read_parquet(tmp_path / "hour.parquet")["time"].cast(pl.Int64)
    assert (code, f"slates written {len(found)}" in " ".join(out.split())) == (0, True)
    assert found.is_sorted()
    assert START + 60 * MINUTE <= found.min() < found.max() < START + 120 * MINUTE  # type: ignore[operator]
