"""Pieces of a simulation made in parallel and returned in order."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from slatewise.errors import SlatewiseError

ConfigT = TypeVar("ConfigT")
WorldT = TypeVar("WorldT")
ResultT = TypeVar("ResultT")

_AHEAD = 2
"""Pieces that each process may be ahead of the one that is taken: bounds the memory."""

_world: Any = None
"""The world of a process that makes pieces; built once in each."""


def ordered_results(
    build: Callable[[ConfigT], WorldT],
    config: ConfigT,
    work: Callable[[WorldT, int], ResultT],
    numbers: Sequence[int],
    jobs: int,
) -> Generator[ResultT, None, None]:
    """Yield `work(build(config), number)` for all numbers in order, made by `jobs` processes."""
    # Forking would copy the threads and locks of pyarrow in any state.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(jobs, len(numbers)), context, _begin, (build, config))
    before = set(multiprocessing.active_children())
    waiting: deque[Future[ResultT]] = deque()
    try:
        for number in numbers:
            with _uninterrupted():
                waiting.append(pool.submit(_work, work, number))
            if len(waiting) >= _AHEAD * jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise SlatewiseError(
            "a process of the simulation died, perhaps for lack of memory.",
            "Simulate with fewer --jobs.",
        ) from error
    finally:
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        pool.shutdown(cancel_futures=True)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Block Ctrl-C while processes start: an interrupted one would print its own traceback."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[tuple[int, FrameType | None]] = []
    handler = signal.signal(signal.SIGINT, lambda *came: held.append(came))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if held and callable(handler):
        handler(*held[-1])


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _begin(build: Callable[[ConfigT], Any], config: ConfigT) -> None:
    """Leave Ctrl-C to the parent, and build the world."""
    global _world  # noqa: PLW0603 (the state of a process, set once)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _world = build(config)


def _work(work: Callable[[Any, int], ResultT], number: int) -> ResultT:
    return work(_world, number)
