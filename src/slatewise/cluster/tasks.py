"""Independent tasks, side by side on a cluster."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from slatewise.cluster.connection import ray_module
from slatewise.errors import SlatewiseError

TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")

ATTEMPTS = 3
"""How often a task is begun again whose process died."""


def run_on_cluster(
    work: Callable[[TaskT], Any],
    tasks: Sequence[TaskT],
    jobs: int,
    finished: Callable[[], None] = lambda: None,
) -> None:
    """Do `work` on all tasks, `jobs` at a time; `finished` hears of each.

    Files that tasks write must be on storage that all machines share. A task whose process dies
    is begun again elsewhere. The first error ends all of them.
    """
    ray = ray_module()
    remote = ray.remote(work_on).options(num_cpus=1, max_retries=ATTEMPTS)
    waiting = list(tasks)
    running: list[Any] = []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(remote.remote(work, waiting.pop(0)))
            done, running = ray.wait(running, num_returns=1)
            result_of(ray, done[0])
            finished()
    finally:
        for task in running:
            ray.cancel(task, force=True)


def map_on_cluster(
    work: Callable[[TaskT], ResultT], tasks: Sequence[TaskT], *, cpus: float = 1
) -> list[ResultT]:
    """Return what `work` makes of each task, in their order."""
    ray = ray_module()
    remote = ray.remote(work_on).options(num_cpus=cpus, max_retries=ATTEMPTS)
    begun = [remote.remote(work, task) for task in tasks]
    try:
        return [result_of(ray, one) for one in begun]
    finally:
        for one in begun:
            ray.cancel(one, force=True)


def iterate_on_cluster(
    work: Callable[[TaskT], ResultT], tasks: Sequence[TaskT]
) -> Iterator[ResultT]:
    """Yield what `work` makes of each task, in their order, twice as many at once as cores."""
    ray = ray_module()
    remote = ray.remote(work_on).options(num_cpus=1, max_retries=ATTEMPTS)
    ahead = 2 * int(ray.cluster_resources().get("CPU", 1))
    begun: deque[Any] = deque()
    try:
        for task in tasks:
            begun.append(remote.remote(work, task))
            if len(begun) >= ahead:
                yield result_of(ray, begun.popleft())
        while begun:
            yield result_of(ray, begun.popleft())
    finally:
        for one in begun:
            ray.cancel(one, force=True)


def work_on(work: Callable[[TaskT], ResultT], task: TaskT) -> ResultT:
    """Do the work; a function of its own, so that Ray finds it by name."""
    return work(task)


def result_of(ray: Any, task: Any) -> Any:
    """Return the result of a task, or raise what it raised."""
    try:
        return ray.get(task)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        if isinstance(cause, SlatewiseError):
            raise cause from error
        raise
    except ray.exceptions.RayError as error:
        raise SlatewiseError(
            f"a process of the cluster died {ATTEMPTS + 1} times, perhaps for lack of memory.",
            "Let fewer tasks run at once, or look into the logs of Ray.",
        ) from error
