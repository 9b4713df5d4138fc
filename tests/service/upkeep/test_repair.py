"""Putting a service right by the command line."""

import time
from pathlib import Path

from typer.testing import CliRunner

from slatewise.cli import app
from slatewise.service.serving.item_states import COUNTS
from slatewise.service.store import Store
from slatewise.service.store.clock import DAY
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
