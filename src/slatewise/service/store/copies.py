"""Copies of a SQLite store: of one moment, while others go on writing."""

import sqlite3
from contextlib import closing
from pathlib import Path

from slatewise.service.store.engine import PATIENCE, StoreError


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy a store into a new file, as it is at one moment; a damaged store is refused.

    All pages in one step: SQLite begins anew whenever another process writes between two steps,
    and under load would never end. Writers do not wait, since the step only reads; what they write
    meanwhile stays in the write-ahead log.
    """
    try:
        with (
            closing(sqlite3.connect(source, timeout=PATIENCE)) as reading,
            closing(sqlite3.connect(target)) as writing,
        ):
            target.chmod(0o600)
            reading.backup(writing)
            # As the store itself is. The log beside it goes when the connection is closed.
            writing.execute("PRAGMA journal_mode = WAL")
            problem = str(writing.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        problem = str(error)
    if problem != "ok":
        target.unlink(missing_ok=True)
        raise StoreError(
            f"{source} could not be copied: {problem}",
            "See that it is a whole store, and that the disk of the copy has room.",
        )
