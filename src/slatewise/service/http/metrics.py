"""Metrics for Prometheus: counts and times, summed over the workers.

With PROMETHEUS_MULTIPROC_DIR in the environment, workers write into files of that directory and any
of them can tell the sum; without, a process tells what it did itself.
"""

import asyncio
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
SOON = 0.1
"""Seconds that deferred work may wait."""
RESERVED = 1 << 18
"""bytes for the values of a worker, of each kind"""
_KINDS = ("counter", "histogram", "gauge_livesum", "gauge_livemax", "gauge_livemin")
_DEAD = "dead"
"""in the names of files in place of a worker"""
_HEAD = 8
"""bytes of an empty file of values"""
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Queue(Protocol):
    """What is asked of the writer."""

    dropped: int
    failures: int

    def __len__(self) -> int:
        """How many records wait."""
        ...


class DeferredWork:
    """Collects work on an event loop, and does it there.

    Ranking empties the processor's caches: a line of log and its counts take 80 µs right after a
    slate, and 15 after those of another request.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[..., object], tuple[object, ...]]] = []

    def __call__(self, work: Callable[..., object], *arguments: object) -> None:
        """Schedule some work."""
        if not self._waiting:
            asyncio.get_running_loop().call_later(SOON, self.now)
        self._waiting.append((work, arguments))

    def now(self) -> None:
        """Do what waits, in its order; to be called on the event loop."""
        waiting, self._waiting = self._waiting, []
        for work, arguments in waiting:
            work(*arguments)


def _reserve(folder: Path) -> None:
    """Take the room that this process needs for its values.

    They are written through mapped memory: where the disk is full, a file with holes in it would
    end the process, and here it only refuses to start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for kind in _KINDS:
        with (folder / f"{kind}_{os.getpid()}.db").open("a+b") as file:
            os.posix_fallocate(file.fileno(), 0, RESERVED)


def retire_worker(folder: Path, pid: int | None) -> None:
    """Add what a worker that has ended counted to what others did before it."""
    mark_process_dead(pid, folder)  # type: ignore[no-untyped-call]
    for file in folder.glob(f"*_{pid}.db"):
        kind = file.name.removesuffix(f"_{pid}.db")
        together, partial = folder / f"{kind}_{_DEAD}.db", folder / f".{kind}.partial"
        counts: dict[str, float] = {}
        for one in filter(Path.exists, (together, file)):
            for key, value, *_ in MmapedDict.read_all_values_from_file(one):  # type: ignore[no-untyped-call]
                counts[key] = counts.get(key, 0.0) + value
        _write(partial, counts)
        partial.replace(together)
        file.unlink()


def _write(file: Path, counts: Mapping[str, float]) -> None:
    """Write values as workers do, without room for more."""
    file.unlink(missing_ok=True)
    values = MmapedDict(file)  # type: ignore[no-untyped-call]
    for key, value in counts.items():
        values.write_value(key, value, 0.0)  # type: ignore[no-untyped-call]
    values.close()  # type: ignore[no-untyped-call]
    used = int.from_bytes(file.read_bytes()[:4], sys.byteorder)
    os.truncate(file, max(used, _HEAD))


class Metrics:
    """The metrics of one process."""

    def __init__(self) -> None:
        if folder := os.environ.get(DIRECTORY):
            _reserve(Path(folder))
        self.registry = CollectorRegistry()
        self.requests = self._counter("requests", "Requests answered", "method", "route", "status")
        self.seconds = Histogram(
            "slatewise_request_seconds",
            "Time from a request's headers to its answer",
            ["route"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.slates = self._counter("slates", "Slates served", "arm", "model", "version")
        self.feedback = self._counter("feedback", "Events by what became of them", "status")
        self.corrected = self._counter(
            "corrected_events", "Events dated before their slate was shown, recorded as of then"
        )
        self.dropped = self._counter("dropped_slates", "Served slates that were not logged")
        self.store_errors = self._counter("store_errors", "Attempts to write that failed")
        self.queue = self._gauge("queue_records", "Records waiting to be written", "livesum")
        self.models = Gauge(
            "slatewise_model_info",
            "1 for the version that an arm serves",
            ["arm", "model", "version", "digest"],
            multiprocess_mode="livemax",
            registry=self.registry,
        )
        self.refreshed = self._gauge(
            "refreshed_timestamp_seconds",
            "When a worker last looked for new models, items and popularity; of the latest one",
            "livemin",
        )
        self.clock = self._gauge(
            "clock_jump_seconds", "Between the computer's clock and the service's", "livemax"
        )
        self.store_ahead = self._gauge(
            "store_ahead_seconds", "By which the newest slate is dated later than now", "livemax"
        )
        self.nights = Gauge(
            "slatewise_night_timestamp_seconds",
            "When the newest night of a model began that ended in a certain way",
            ["model", "outcome"],
            multiprocess_mode="livemax",
            registry=self.registry,
        )
        self.ranking = self._counter(
            "ranking_cpu_seconds",
            "CPU time of making slates, on the thread that speaks HTTP or on one of their own",
            "thread",
        )
        # Looking for children under a lock takes as long as counting; what they are is bounded.
        self.requests_of = cache(self.requests.labels)
        self.seconds_of = cache(self.seconds.labels)
        self.slates_of = cache(self.slates.labels)
        self.feedback_of = cache(self.feedback.labels)
        self.later = DeferredWork()
        self._seen: dict[str, int] = {}
        self._serving: set[tuple[str, str, str, str]] = set()

    def watch(self, queue: Queue) -> None:
        """Take over what the queue counted since the last time."""
        self.queue.set(len(queue))
        for name, counter in (("dropped", self.dropped), ("failures", self.store_errors)):
            total: int = getattr(queue, name)
            counter.inc(total - self._seen.get(name, 0))
            self._seen[name] = total

    def serving(self, now: set[tuple[str, str, str, str]]) -> None:
        """Record which arms serve which versions of which models."""
        for old in self._serving - now:
            self.models.labels(*old).set(0)
        for new in now:
            self.models.labels(*new).set(1)
        self._serving = now

    def text(self) -> bytes:
        """Return the metrics of all workers in Prometheus' text format."""
        try:
            return generate_latest(self._together())
        except FileNotFoundError:  # a worker was buried meanwhile
            return generate_latest(self._together())

    def by_route(self, routes: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return requests, failures and a cumulative histogram of times of routes, of all workers.

        Those that were never asked have none.
        """
        found: dict[str, dict[str, Any]] = {
            route: {"requests": 0, "failures": 0, "seconds": list[tuple[float, int]]()}
            for route in routes
        }
        for family in self._together().collect():
            for sample in family.samples:
                route = found.get(sample.labels.get("route", ""))
                if route is None:
                    continue
                if sample.name == "slatewise_requests_total":
                    route["requests"] += int(sample.value)
                    if sample.labels["status"] >= "500":
                        route["failures"] += int(sample.value)
                elif sample.name == "slatewise_request_seconds_bucket":
                    most = float(sample.labels["le"])
                    if math.isfinite(most):
                        route["seconds"].append((most, int(sample.value)))
        return found

    def _together(self) -> CollectorRegistry:
        """Return what all workers counted."""
        folder = os.environ.get(DIRECTORY)
        if not folder:
            return self.registry
        Path(folder).mkdir(parents=True, exist_ok=True)  # it may have been deleted by hand
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return together

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"slatewise_{name}", about, labels, registry=self.registry)

    def _gauge(
        self, name: str, about: str, mode: Literal["livesum", "livemax", "livemin"]
    ) -> Gauge:
        return Gauge(f"slatewise_{name}", about, multiprocess_mode=mode, registry=self.registry)
