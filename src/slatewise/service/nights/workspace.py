"""One retraining at a time, in a folder that is gone when it ends.

The folder holds a copy of what people did. Whoever had their data erased must not live on in it, so
it goes whatever happens; what a killed process left behind goes when the next one starts.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from slatewise.errors import SlatewiseError

LOCK: Final = "retraining.lock"
FOLDER: Final = ".retraining"


@contextmanager
def workspace(directory: Path) -> Iterator[Path]:
    """Give an empty folder in a service's directory; refused while another process has it."""
    with _locked(directory) as free:
        if not free:
            who = (directory / LOCK).read_text(encoding="utf-8").strip()
            raise SlatewiseError(
                f"{directory} is being retrained already{f', by process {who}' if who else ''}.",
                "Wait until that has ended.",
            )
        folder = directory / FOLDER
        _remove(folder)
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            _remove(folder)


def clear_leftovers(directory: Path) -> bool:
    """Remove what a killed retraining left; return whether nothing of the kind is left.

    Where a retraining is under way, nothing is touched: it will clear up itself.
    """
    with _locked(directory) as free:
        if free:
            _remove(directory / FOLDER)
        return free


@contextmanager
def _locked(directory: Path) -> Iterator[bool]:
    """Say whether nobody else holds the lock, and hold it.

    The system frees the lock of a process that dies. The file stays: whoever removed it could
    lock another one of the same name than the next process.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / LOCK).open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        with suppress(OSError):  # a full disk is said where it matters; this is only for people
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
        yield True


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
