"""Putting a service right by the command line."""

import json
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from slatewise.cli import app
from slatewise.service.serving import live
from slatewise.service.serving.item_states import COUNTS
from slatewise.service.store import Store
from slatewise.service.store.clock import DAY
from slatewise.service.store.engine import Database
from slatewise.service.store.records import ItemState
from slatewise.service.store.versions import VersionShelf
from slatewise.service.upkeep.repair import compact_items
from tests.service.store.making import slate


def test_slates_from_the_future_are_moved_and_counts_of_them_made_anew(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/store.sqlite")
    store.write([slate("s", time=time.time_ns() // 1_000 + 365 * DAY)], [])
    counts = tmp_path / "models" / "main" / "1" / COUNTS
    counts.parent.mkdir(parents=True)
    counts.touch()
    for moved in (1, 0):
        told = CliRunner().invoke(app, ["repair", str(tmp_path)])
        assert told.exit_code == 0, told.output
        assert f"{moved} moved" in told.output
    assert not counts.exists()
    assert store.last_shown() <= time.time_ns() // 1_000
    store.close()


def test_changes_of_items_stay_as_long_as_a_version_of_any_host_needs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, run = f"sqlite:///{tmp_path}/store.sqlite", tmp_path / "run.json"
    store, database = Store.open(url), Database(url)
    for group in ("a", "b", "c", "d"):
        store.put_items([("restless", group, ItemState.SHOWN)])
    run.write_text("{}")
    shelf = VersionShelf(database, "main")
    for version, base in (("1", 2), ("2", 4)):
        shelf.put(version, {"run.json": run})
        shelf.begin(version, json.dumps({"base": base}).encode() + b"\n")
    here = tmp_path / "models" / "main" / "2"
    here.mkdir(parents=True)
    assert live.begin_catalogue(here, 4) == 4
    monkeypatch.setattr(store, "shelf", lambda model: shelf)  # as one that hosts share has it
    assert compact_items(tmp_path, store) == 1
    shelf.keep(["2"])
    assert compact_items(tmp_path, store) == 2
    store.close()
    database.close()
