"""Nights are followed by their reports."""

import time
from pathlib import Path

from slatewise.service.nights.report import Night, Outcome
from slatewise.service.nights.watch import NightWatch

HOUR = 3_600


def night(folder: Path, hours: float, outcome: Outcome) -> int:
    at = int(time.time() - hours * HOUR)
    Night("main", 1_000_000 * at, 0, outcome).write(folder)
    return at


def test_the_newest_night_of_each_outcome_is_known(tmp_path: Path) -> None:
    watch, folder = NightWatch(tmp_path, ["main", "plain"]), tmp_path / "models" / "main"
    assert watch.times() == {}
    assert watch.late() == []
    night(folder, 90, "kept")
    kept, failed = night(folder, 40, "kept"), night(folder, 16, "failed")
    assert watch.times() == {("main", "kept"): kept, ("main", "failed"): failed}
    assert watch.late() == ["main"]
    (folder / "reports" / "29990101T000000Z.json").write_text("{")
    promoted = night(folder, 1, "promoted")
    assert watch.times()["main", "promoted"] == promoted
    assert watch.late() == []
