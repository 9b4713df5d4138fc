"""The report of a night: text for people, a file for programs."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from slatewise.files import write_json
from slatewise.service.store.clock import iso
from slatewise.version import __version__
from slatewise.words import counted

FORMAT: Final = "slatewise-night"
VERSION: Final = 1
REPORTS: Final = "reports"

Outcome = Literal["promoted", "kept", "not enough", "failed"]
"""`promoted`: a new version serves; otherwise what served before serves on."""
ModelOrigin = Literal[
    "the version that serves", "the settings", "chosen tonight (auto)", "chosen by an earlier night"
]
"""Where a night's model came from."""


@dataclass
class Night:
    """The result of one night of one model, filled in step by step."""

    model: str
    time: int
    """the end of the window, in microseconds since 1970"""
    seed: int
    outcome: Outcome = "failed"
    why: str = ""
    serving: str | None = None
    """the version that serves now; None where there is none yet"""
    before: str | None = None
    """the version that served before"""
    started_from: str | None = None
    """the version whose posterior training set out from; None for a fresh start"""
    model_from: ModelOrigin | None = None
    """where parts, features and settings of the model came from; None if nothing was trained"""
    seconds: float = 0.0
    window: dict[str, Any] = field(default_factory=dict)
    """its ends, and how much there is of everything"""
    parts: dict[str, Any] = field(default_factory=dict)
    """how many interactions were learned from, ended training and judged"""
    fits: dict[str, Any] = field(default_factory=dict)
    """the model's name, and epochs and validation likelihood of the judged and the final fit"""
    scores: dict[str, Any] = field(default_factory=dict)
    """of the `new` model, the one that was `serving`, and the `gain`, each with its interval"""
    notes: list[str] = field(default_factory=list)
    """what else happened that is worth knowing"""

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        head = {"format": FORMAT, "version": VERSION, "slatewise": __version__}
        return head | asdict(self) | {"time": iso(self.time)}

    def write(self, folder: Path) -> Path:
        """Write it among the reports of its model."""
        reports = folder / REPORTS
        reports.mkdir(parents=True, exist_ok=True)
        file = reports / f"{stamp(self.time)}.json"
        write_json(file, self.to_json())
        return file

    def words(self) -> Iterator[str]:
        """Yield the report in a few lines."""
        outcome = {
            "promoted": f"{self.serving} serves now",
            "kept": f"{self.serving} serves on",
            "not enough": "nothing changes: not enough yet",
            "failed": f"failed; {self.serving or 'the prior'} serves on",
        }
        yield f"{self.model}: {outcome[self.outcome]}."
        yield f"  Why: {self.why}."
        if self.window:
            yield (
                f"  Window: {self.window['start']} to {self.window['end']}, "
                f"{counted(self.window['slates'], 'slate')}, "
                f"{counted(self.window['clicks'], 'click')}."
            )
        if self.fits:
            begun = f"from {self.started_from}" if self.started_from else "from nothing"
            name, learned = self.fits["name"], self.parts["learned"]
            yield f"  Model: {name} ({self.model_from})."
            yield f"  Trained {begun}, judged after {counted(learned, 'interaction')}."
        for name in ("new", "serving"):
            if name in self.scores:
                found = self.scores[name]["log_likelihood"]
                value = f"{found['value']:.4f}".replace("-", "−")
                count = counted(found["count"], "interaction")
                yield f"  {name}: {value} nats on {count} of the newest day."
        yield from (f"  {note}" for note in self.notes)


def stamp(time: int) -> str:
    """Return a time as a name for files, in whose order times are."""
    return datetime.fromtimestamp(time // 1_000_000, UTC).strftime("%Y%m%dT%H%M%SZ")
