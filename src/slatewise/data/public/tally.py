"""The interface of an importer, and the counts it keeps."""

from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import polars as pl


@dataclass
class Tally:
    """Every interaction read is written or left out, and each reason for leaving out is counted."""

    read: int = 0
    written: int = 0
    items: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """Reason → interactions left out for it."""

    notes: Counter[str] = field(default_factory=Counter)
    """Anything else that differs from what was published, e.g. cells taken out of slates."""

    looked_at: int = 0
    """Rows of the source so far, padding included: what a progress bar shows."""

    def keep(self, reasons: dict[str, pl.Expr], frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that no reason applies to; the first reason that does gets the count."""
        self.read += frame.height
        for reason, applies in reasons.items():
            kept = frame.filter(~applies.fill_null(value=False))
            self.leave_out(reason, frame.height - kept.height)
            frame = kept
        return frame

    def leave_out(self, reason: str, count: int) -> None:
        """Count interactions that are not written; reasons that never applied stay unmentioned."""
        if count:
            self.left_out[reason] += count

    def note(self, what: str, count: int) -> None:
        """Count something worth reporting that does not drop an interaction."""
        if count:
            self.notes[what] += count


@dataclass(frozen=True)
class PublicLog:
    """A published log, opened: both tables arrive in pieces, so that neither is held whole."""

    batches: Generator[pl.DataFrame, None, None]
    """Frames with the log's columns; the click is an item or, where published, a list of items."""

    items: Iterator[pl.DataFrame]
    """Frames with `item_id`, `group` and whatever else is carried along."""

    total: int | None = None
    """Rows the source holds, where its header says so."""


class Importer(Protocol):
    """Opens one published format; problems with its files are `InputError`s."""

    def __call__(self, source: Path, tally: Tally, chunk_size: int) -> PublicLog:
        """Open the dataset in `source`, to be read about `chunk_size` interactions at a time."""
        ...
