"""Compiled kernels on disk, for processes that start together."""

import contextlib
import hashlib
import pickle
import sys
import time
from pathlib import Path
from typing import IO, Any, Final

from numba.core.caching import IndexDataCacheFile

LOCKS: Final = sys.platform != "win32"  # where each process compiles for itself
if LOCKS:
    import fcntl

PATIENCE: Final = 60.0
"""Seconds to wait for another process, which may have been stopped or stuck; none takes so long."""
_POLL: Final = 0.05
_UNREADABLE: Final = (
    FileNotFoundError,
    EOFError,  # empty after a power cut
    pickle.UnpicklingError,
    AttributeError,  # these four also come of a damaged pickle, as its documentation says
    ImportError,
    IndexError,
    ValueError,
)
"""What reading a file may raise that has no result: it is compiled again, and written over."""


class SharedCacheFile(IndexDataCacheFile):
    """The results of one function, each in a file that is named after its key.

    numba numbers such files in an index, which processes rewrite without regard to each other: of
    two that save different kernels at once, one may later be read as the other, and run. Workers
    of a service, studies or tests also compile the same kernels when they start, all at once. Here
    one compiles and the others wait: it holds a lock from `load`, which finds nothing, to `save`.
    """

    def __init__(self, of: IndexDataCacheFile, stamp: str) -> None:
        folder, name = of._cache_path, of._index_name.removesuffix(".nbi")
        super().__init__(folder, name, stamp)  # type: ignore[no-untyped-call]
        self._base = Path(folder, name)
        # Compared before types are unpickled: those of older code may be gone.
        self._version = f"{self._version} {stamp}"
        self._held: dict[Path, IO[bytes]] = {}

    def load(self, key: Any) -> Any:
        """Return the result of a key; None where this process should compile it."""
        path = self._path(key)
        found = self._read(path, key)
        if found is None and self._take_turn(path):
            found = self._read(path, key)  # whoever had the turn before may have compiled it
        if found is not None:
            self._end_turn(path)
        return found

    def save(self, key: Any, data: Any) -> None:
        """Keep the result of a key, and let others go on."""
        path = self._path(key)
        try:
            with self._open_for_write(str(path)) as file:
                pickle.dump(self._version, file)
                file.write(self._dump((key, data)))  # type: ignore[no-untyped-call]
        finally:
            self._end_turn(path)

    def flush(self) -> None:
        """Forget all results."""
        for path in self._base.parent.glob(f"{self._base.name}.*.nbc"):
            path.unlink(missing_ok=True)

    def _path(self, key: Any) -> Path:
        # Without the function's own code: a new version overwrites the results of the last one.
        signature, machine, (_, closure) = key
        text = repr((signature, machine, closure)).encode()
        digest = hashlib.blake2b(text, digest_size=8).hexdigest()
        return self._base.with_name(f"{self._base.name}.{digest}.nbc")

    def _read(self, path: Path, key: Any) -> Any:
        try:
            with path.open("rb") as file:
                if pickle.load(file) != self._version:
                    return None
                known, data = pickle.load(file)
        except _UNREADABLE:
            return None
        return data if known == key else None

    def _take_turn(self, path: Path) -> bool:
        """Wait until no other process compiles this; return whether it is this one's turn now."""
        if not LOCKS or path in self._held:
            return False
        with contextlib.suppress(OSError):  # a folder of others, read but not written
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.with_suffix(".lock").open("wb")
            if _lock(file):
                self._held[path] = file
                return True
            file.close()
        return False

    def _end_turn(self, path: Path) -> None:
        file = self._held.pop(path, None)
        if file is not None:
            # Unlocked, not only closed: a process forked meanwhile has the file open too.
            fcntl.flock(file, fcntl.LOCK_UN)
            file.close()


def _lock(file: IO[bytes]) -> bool:
    """Lock a file, or give up after a while and compile what another may be compiling."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(_POLL)
        except OSError:  # a file system without locks
            return False
        else:
            return True
