"""Workers that start at once take turns where one of them does something for all."""

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

LOCK: Final = ".turn.lock"


@contextmanager
def one_at_a_time(run: Path) -> Iterator[None]:
    """Let one process after the other do something to a run."""
    with ExitStack() as held:
        with suppress(OSError):  # where nothing can be written, there is nothing to share either
            lock = held.enter_context((run / LOCK).open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
