"""Tasks side by side in processes of their own."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from slatewise.errors import SlatewiseError

TaskT = TypeVar("TaskT")


def run_in_processes(
    work: Callable[[TaskT], None],
    tasks: Sequence[TaskT],
    jobs: int,
    finished: Callable[[], None] = lambda: None,
) -> None:
    """Run `work` on all tasks, `jobs` at a time; call `finished` after each.

    The first failure, or an interruption, ends all of them at once.
    """
    # Forking would copy the threads and locks of torch and polars in any state.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(jobs, len(tasks)), context, initializer=_begin)
    before = set(multiprocessing.active_children())
    try:
        for future in as_completed([pool.submit(work, task) for task in tasks]):
            future.result()
            finished()
    except BrokenProcessPool as error:
        raise SlatewiseError(
            "a process of the study died, perhaps for lack of memory.",
            "Go on with the same command and fewer --jobs.",
        ) from error
    finally:
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Leave Ctrl-C to the parent, and a core to each process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["OMP_NUM_THREADS"] = "1"
