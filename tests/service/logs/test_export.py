"""A store as a log: what goes out comes in again as it was."""

from pathlib import Path

import polars as pl
import pytest

from slatewise.data.preparation import prepare
from slatewise.errors import SlatewiseError
from slatewise.service.logs import export_log, load_log
from slatewise.service.nights.item_features import described_dataset
from slatewise.service.nights.window import NightData
from slatewise.service.store import Store
from slatewise.service.store.records import ItemState, Outcome, SlateRecord
from tests.service.logs.world import ITEMS, MINUTE, START, write
from tests.service.serving.world import made

STRANGE = 'a|b;"c",\td é'
"""An id with all that text could stumble over."""


def fill(store: Store, directory: Path) -> None:
    """A loaded log, and slates that only a service has: half seen, unheard of, anonymous."""
    log = write(directory / "log")
    load_log(log, directory, store, items=log)
    store.put_items([(STRANGE, "odd", ItemState.SHOWN), ("gone", "odd", ItemState.REMOVED)])
    late = START + 1_000 * MINUTE
    shown = (ITEMS[0], STRANGE, ITEMS[1])
    slates = [
        SlateRecord("half", STRANGE, late, "search", shown),
        SlateRecord("nameless", None, late + 1, "search", shown),
        SlateRecord("unseen", "u1", late + 2, "search", shown),
        SlateRecord("unheard", "u1", late + 3, "search", shown),
    ]
    outcomes = [
        Outcome("half", 2, (STRANGE, ITEMS[0]), late),
        Outcome("nameless", None, (), late),
        Outcome("unseen", 0, (), late),
    ]
    store.write(slates, outcomes)


def test_a_removed_item_of_the_log_is_written_as_a_night_reads_it(
    tmp_path: Path, store: Store
) -> None:
    items = [(name, "lamps", ItemState.SHOWN, {"price": 3.0}) for name in ("new", "gone", "unseen")]
    store.put_items(items)
    store.write(
        [SlateRecord("one", "anna", START, "search", ("gone", "elsewhere"))],
        [Outcome("one", None, ("gone",), START)],
    )
    store.remove_items(["gone", "unseen"])
    out, table = tmp_path / "log.parquet", tmp_path / "items.parquet"
    report = export_log(store, out, items=table)
    assert report.items == 2
    assert pl.read_parquet(table).rows() == [("gone", "lamps", 3.0), ("new", "lamps", 3.0)]
    data = NightData(made(tmp_path / "night"), store, START + 1, 1.0, lambda *_: None)
    night, exported = described_dataset(None, data), prepare(out, table, tmp_path / "dataset")
    assert exported.items.sort("item_id").equals(night.items.sort("item_id"))
    assert exported.items["group"].to_list() == ["lamps", "lamps", "unknown"]


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_what_was_exported_is_loaded_and_exported_as_the_same(
    tmp_path: Path, store: Store, suffix: str
) -> None:
    fill(store, tmp_path)
    files = [tmp_path / f"{name}{suffix}" for name in ("log", "items", "log-again", "items-again")]
    report = export_log(store, files[0], items=files[1])
    assert (report.slates, report.anonymous, report.unseen, report.items) == (202, 1, 1, 61)
    other = Store.open(f"sqlite:///{tmp_path / 'other.sqlite'}")
    loaded = load_log(files[0], tmp_path, other, items=files[1])
    assert loaded.slates.new == 202
    assert not any(problem["drops"] for problem in loaded.problems)
    again = export_log(other, files[2], items=files[3])
    other.close()
    read = pl.read_parquet if suffix == ".parquet" else pl.read_csv
    # Of slates of one moment, those of a service stand in the order in which it learned of them.
    first, second = (read(file).sort("time", "user_id", "source") for file in files[::2])
    assert first.equals(second)
    assert read(files[1]).equals(read(files[3]))
    assert (again.slates, again.clicks) == (report.slates, report.clicks)


def test_a_failed_export_leaves_no_file(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    for out in ("log.txt", "nowhere/log.csv"):
        with pytest.raises(SlatewiseError, match=r"Parquet or CSV|no directory"):
            export_log(store, tmp_path / out)
    monkeypatch.setattr(Store, "export", fail)
    for suffix in (".csv", ".parquet"):
        with pytest.raises(OSError, match="full"):
            export_log(store, tmp_path / f"log{suffix}")
    assert not list(tmp_path.glob("*log*"))
