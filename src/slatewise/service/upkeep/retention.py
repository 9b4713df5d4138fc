"""How long slates stay in the store, and where they go: Parquet by day, then deleted in slices.

What goes by slates has what it needs first. Nights read a window that is shorter than what is kept;
experiments keep a thin row of each slate; and what a version of a model has not counted yet, for
popularity, stays until it has.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from slatewise.errors import SlatewiseError
from slatewise.files import atomic_file
from slatewise.service.analysis.overviews import LONGEST_DAYS
from slatewise.service.logs.export import user_of
from slatewise.service.logs.visits import LOG_SCHEMA, log_table
from slatewise.service.serving.item_states import COUNTS
from slatewise.service.settings import RetentionConfig
from slatewise.service.store import Store
from slatewise.service.store.clock import DAY, iso
from slatewise.service.store.records import SlateRecord, Visit, outcome_key
from slatewise.service.store.retention import Expiry
from slatewise.service.store.rows import serving_text
from slatewise.service.store.workspace import workspace
from slatewise.words import counted

LOG, UNANSWERED = "log", "unanswered"
"""Folders of an archive: a log that `prepare` reads, and slates of which nothing was heard."""

_RAW: Final = {
    "slate_id": pa.string(),
    "shown": pa.list_(pa.string()),
    "serving": pa.string(),
    "key": pa.string(),
}
"""What is archived beside a log's own columns: all items that were shown, how the slate came about
(JSON), and a digest of what became of it."""
_SCHEMA: Final = pa.schema([*LOG_SCHEMA, *pa.schema(_RAW)])


@dataclass
class ExpiryReport:
    """What left the store."""

    before: int
    """the time before which slates were to leave"""
    slates: int = 0
    archived: int = 0
    held_back: str | None = None
    """the version that has not counted all old answers yet, which stay until it has"""
    newest: int | None = None
    """the time of the newest slate, if ages are counted from a day after it: the clock is later"""

    def words(self) -> str:
        """Return it as a line."""
        text = f"{counted(self.slates, 'slate')} from before {iso(self.before)} left the store"
        text += f", {counted(self.archived, 'row')} archived" if self.archived else ""
        kept = f"; what {self.held_back} has not counted yet stays" if self.held_back else ""
        late = self.newest is not None
        why = f"; ages count from a day after the newest slate, {iso(self.newest or 0)}" * late
        return f"{text}{kept}{why}."


def expire(
    directory: Path,
    settings: RetentionConfig,
    store: Store,
    now: int,
    progress: Callable[[str, int, int | None], None] = lambda stage, done, total: None,
) -> ExpiryReport:
    """Delete slates that are older than the settings say, as of `now`, oldest first.

    Killed at whatever moment, it is simply done again: nothing is archived twice. Where the newest
    slate is more than a day old, ages count from a day after it: a clock that is wrong by a year
    when this runs would else take everything.
    """
    if settings.days is None:
        raise SlatewiseError(
            "the settings do not say how long slates stay.", "Set days in [retention]."
        )
    newest = store.last_shown()
    late, now = now > newest + DAY, min(now, newest + DAY)
    report = ExpiryReport(now - round(settings.days * DAY), newest=newest if late else None)
    counted, report.held_back = _least_counted(directory)
    until = store.seq()
    if counted is None or counted >= until:
        report.held_back = None
    expiry = Expiry(
        report.before, until if counted is None else min(counted, until), now - LONGEST_DAYS * DAY
    )
    with workspace(directory, "cleared of old slates"):
        day = store.first_aged(expiry, 0)
        while day is not None:
            start, end = day // DAY * DAY, min((day // DAY + 1) * DAY, expiry.end)
            today = expiry._replace(end=end)
            if settings.archive is not None:
                report.archived += _archive(store, today, start, directory / settings.archive)
            report.slates += _delete(store, today, start)
            progress("old slates", report.slates, None)
            day = store.first_aged(expiry, end)
        while store.forget_slice(expiry.counted_since):
            pass
    return report


def _least_counted(directory: Path) -> tuple[int | None, str | None]:
    """Return up to which number every version has counted, and which version is the last."""
    least, version = None, None
    for file in sorted((directory / "models").glob(f"*/*/{COUNTS}")):
        try:
            counted = int(pl.read_parquet_metadata(file)["counted"])
        except (OSError, KeyError, ValueError, pl.exceptions.PolarsError):
            continue  # damaged or gone: it is counted anew, from what there is
        if least is None or counted < least:
            least, version = counted, f"version {file.parent.name} of {file.parent.parent.name}"
    return least, version


def _delete(store: Store, expiry: Expiry, start: int) -> int:
    deleted, position = 0, (start, 0)
    while True:
        begun = time.monotonic()
        count, last = store.expire_slice(expiry, position)
        if last is None:
            return deleted
        deleted, position = deleted + count, last
        time.sleep(time.monotonic() - begun)  # half of the time is for those who write


def _archive(store: Store, expiry: Expiry, start: int, folder: Path) -> int:
    """Write a day's slates to files of that day; return how many rows were not there yet."""
    day, written = iso(start)[:10], 0
    for kind in (LOG, UNANSWERED):
        (folder / kind).mkdir(mode=0o700, parents=True, exist_ok=True)
        files = sorted((folder / kind).glob(f"{day}*.parquet"))
        known = _archived(files)
        pages = (
            [one for one in page if (one[1] is None) == (kind == UNANSWERED)]
            for page in store.aged(expiry, start)
        )
        news = filter(None, ([one for one in page if _key(one) not in known] for page in pages))
        first = next(news, None)
        if first is None:
            continue
        file = folder / kind / (f"{day}-{len(files) + 1}.parquet" if files else f"{day}.parquet")
        # On disk before anything is deleted.
        with (
            atomic_file(file, durable=True) as partial,
            pq.ParquetWriter(partial, _SCHEMA) as writer,
        ):
            for rows in chain([first], news):
                writer.write_table(_table(rows))
                written += len(rows)
    return written


def _archived(files: Iterable[Path]) -> set[tuple[Any, ...]]:
    """Return what files have: a run that was killed wrote them, and did not delete."""
    keys = [pl.read_parquet(file, columns=["slate_id", "key"], glob=False) for file in files]
    return set(pl.concat(keys).rows()) if keys else set()


def _key(one: tuple[SlateRecord, Visit | None]) -> tuple[str, str | None]:
    slate, visit = one
    return slate.slate_id, None if visit is None else outcome_key(visit.seen, visit.clicked)


def _table(rows: list[tuple[SlateRecord, Visit | None]]) -> pa.Table:
    table = log_table([visit or Visit(slate, 0, ()) for slate, visit in rows], user_of)
    raw = {
        "slate_id": [slate.slate_id for slate, _ in rows],
        "shown": [list(slate.items) for slate, _ in rows],
        "serving": [serving_text(slate) for slate, _ in rows],
        "key": [_key(one)[1] for one in rows],
    }
    for name, kind in _RAW.items():
        table = table.append_column(name, pa.array(raw[name], kind))
    return table
