"""When nights ended, and how, read off their reports by whoever serves."""

import json
import time
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Final

from slatewise.service.nights.report import REPORTS

LATE_HOURS: Final = 36
"""after which a service that trains every night should have had one that did not fail"""
_NEWEST: Final = 20
"""reports of a model that are read: a longer row of failures is one"""


class NightWatch:
    """The times of the newest nights of a service's models, by their outcomes."""

    def __init__(self, directory: Path, models: Iterable[str]) -> None:
        self._folders = {name: directory / "models" / name / REPORTS for name in models}
        self._read_at: dict[str, int] = {}
        self._times: dict[str, dict[str, float]] = {}
        self._since = time.time()

    def times(self) -> dict[tuple[str, str], float]:
        """Return the time of the newest night of each model and outcome, in seconds since 1970."""
        for name, folder in self._folders.items():
            try:
                changed = folder.stat().st_mtime_ns
            except OSError:  # there was no night yet
                continue
            if changed != self._read_at.get(name):
                self._times[name] = _times(folder)
                self._read_at[name] = changed
        return {
            (name, outcome): at
            for name, found in self._times.items()
            for outcome, at in found.items()
        }

    def late(self) -> list[str]:
        """Return the models without a night that went well for too long."""
        self.times()
        last = dict.fromkeys(self._folders, self._since)
        for name, found in self._times.items():
            last[name] = max((at for how, at in found.items() if how != "failed"), default=0.0)
        return [name for name, at in last.items() if time.time() - at > 3_600 * LATE_HOURS]


def _times(folder: Path) -> dict[str, float]:
    """Read the newest reports; one that cannot be read is left out."""
    found: dict[str, float] = {}
    for file in sorted(folder.glob("*.json"))[-_NEWEST:]:
        try:
            report = json.loads(file.read_text(encoding="utf-8"))
            found[str(report["outcome"])] = datetime.fromisoformat(report["time"]).timestamp()
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found
