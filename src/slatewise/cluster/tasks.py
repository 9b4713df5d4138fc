"""Independent tasks, side by side on a cluster.

The parts of a preparation are such tasks too, and not Ray Data: each gives tables with an account
of what was wrong in them, which Ray Data pickles into a column of its own tables. The dataset is
the same and takes longer, and errors of ours come wrapped.

After an error, tasks that were begun end by themselves, or with the program: Ray 2.60 ends the
whole program if a task is cancelled while its result is on the way.
"""

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
    """Run `work` on all tasks, `jobs` at a time; call `finished` after each.

    Files that tasks write must be on storage that all machines share. A task whose process dies
    is begun again elsewhere. After the first error no further task is begun.
    """
    ray = ray_module()
    remote = ray.remote(work_on).options(num_cpus=1, max_retries=ATTEMPTS)
    waiting = list(tasks)
    running: list[Any] = []
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(remote.remote(work, waiting.pop(0)))
        done, running = ray.wait(running, num_returns=1)
        result_of(ray, done[0])
        finished()


def map_on_cluster(work: Callable[[TaskT], ResultT], tasks: Sequence[TaskT]) -> list[ResultT]:
    """Return what `work` makes of each task, in their order."""
    return list(iterate_on_cluster(work, tasks))


def iterate_on_cluster(
    work: Callable[[TaskT], ResultT], tasks: Sequence[TaskT]
) -> Iterator[ResultT]:
    """Yield what `work` makes of each task, in their order, twice as many at once as cores."""
    ray = ray_module()
    remote = ray.remote(work_on).options(num_cpus=1, max_retries=ATTEMPTS)
    ahead = 2 * int(ray.cluster_resources().get("CPU", 1))
    begun: deque[Any] = deque()
    for task in tasks:
        begun.append(remote.remote(work, task))
        if len(begun) >= ahead:
            yield result_of(ray, begun.popleft())
    while begun:
        yield result_of(ray, begun.popleft())


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
