"""The files that a supervisor's workers share: how often tokens asked, and metrics.

They lie in the service's own directory. Whoever clears or fills the system's folder for temporary
files would otherwise take a service down.
"""

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Final

from slatewise.errors import SlatewiseError

FOLDER: Final = "state"
LOCK: Final = "lock"


@contextmanager
def shared_state(directory: Path) -> Iterator[Path]:
    """Give a supervisor a folder of its own, and remove those that killed ones left."""
    with ExitStack() as held:
        try:
            folder = _claim(directory / FOLDER, held)
        except OSError as error:
            raise SlatewiseError(
                f"{directory / FOLDER} cannot be written: {error.strerror}.",
                "Make room on its disk, and see that it may be written to.",
            ) from error
        held.callback(shutil.rmtree, folder, ignore_errors=True)
        yield folder


def _claim(parent: Path, held: ExitStack) -> Path:
    """Make a folder and lock it for as long as `held` is open; the system unlocks for the dead."""
    parent.mkdir(mode=0o700, exist_ok=True)
    with (parent / LOCK).open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # no other supervisor takes a folder for a leftover now
        for left in parent.glob(f"*/{LOCK}"):
            if _is_free(left):
                shutil.rmtree(left.parent, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(dir=parent))
        _lock(held.enter_context((folder / LOCK).open("w")))
    return folder


def _is_free(file: Path) -> bool:
    try:
        with file.open("r+") as lock:
            _lock(lock)
    except OSError:
        return False
    return True


def _lock(file: IO[str]) -> None:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
