"""Work that needs no lock of Python, such as compiled loops, in the threads that torch may use."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeVar

import torch

PartT = TypeVar("PartT")
ResultT = TypeVar("ResultT")

ROWS: Final = 1 << 15
"""Rows that are worth a thread."""
_OWN: Final[ContextVar[int | None]] = ContextVar("threads", default=None)


def thread_limit() -> int:
    """Return how many threads may be used here; within one of them, as many as torch may use."""
    return _OWN.get() or torch.get_num_threads()


@contextmanager
def one_thread_of_torch() -> Iterator[None]:
    """Limit torch to one thread, and leave to this module's work those that torch had.

    A training step is many small operations, which more threads slow down, and change in the last
    bit; what is divided here comes out the same however many threads there are.
    """
    before = torch.get_num_threads()
    token = _OWN.set(thread_limit())
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _OWN.reset(token)


def thread_count(rows: int) -> int:
    """Return the number of threads for a number of rows."""
    return min(thread_limit(), 1 + rows // ROWS)


def in_threads(work: Callable[[PartT], ResultT], parts: Iterable[PartT]) -> list[ResultT]:
    """Return the results of all parts, in their order."""
    parts = list(parts)
    if len(parts) < 2:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(min(len(parts), thread_limit())) as threads:
        return list(threads.map(work, parts))
