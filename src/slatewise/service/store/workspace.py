"""A temporary folder with a lock, for one retraining or loading of a log at a time.

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
def workspace(directory: Path, task: str = "retrained") -> Iterator[Path]:
    """Give an empty folder in a service's directory; refused while another process has it.

    `task` tells that other process what is being done with the service.
    """
    with _locked(directory, task) as free:
        if not free:
            task, _, process = (directory / LOCK).read_text(encoding="utf-8").partition(" ")
            raise SlatewiseError(
                f"{directory} is being {task or 'used'} already"
                f"{f', by process {process.strip()}' if process else ''}.",
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
    """Remove what a killed process left; return whether nothing of the kind is left.

    Where one is at work, nothing is touched: it will clear up itself.
    """
    with _locked(directory, "cleared") as free:
        if free:
            _remove(directory / FOLDER)
        return free


@contextmanager
def _locked(directory: Path, task: str) -> Iterator[bool]:
    """Take the lock; yield whether it was free.

    The system frees the lock of a process that dies. The file stays: whoever removed it could
    lock another one of the same name than the next process.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (directory / LOCK).open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        with suppress(OSError):  # a full disk is said where it matters; this is only for people
            file.truncate(0)
            file.write(f"{task} {os.getpid()}\n")
            file.flush()
        yield True


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
