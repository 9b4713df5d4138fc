"""A bounded queue before the store: many callers, one thread, one transaction for all that waits.

A recommendation puts its slate in and goes on; feedback waits until it is on disk. What the store
cannot take now stays in the queue and is tried again; what does not fit the queue is refused, so
that memory stays bounded whatever happens to the store.
"""

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from slatewise.errors import SlatewiseError
from slatewise.service.store import Store, StoreError
from slatewise.service.store.records import Outcome, OutcomeStatus, SlateRecord, memory_of

BATCH = 500
"""records in a transaction"""
ROOM = 100_000_000
"""bytes of memory of records that may wait"""
LINGER = 0.1
"""seconds that slates wait for company when no feedback waits: a transaction costs 2 ms of
CPU, a slate in it a tenth of that"""
PATIENCE = 1.0
"""seconds in which a slate may still arrive from another process before its feedback is refused"""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_REMEMBERED = 50_000

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")


class QueueFullError(SlatewiseError):
    """No room in the queue: come again later."""

    def __init__(self) -> None:
        super().__init__("too much is waiting to be written.", "Send it again in a moment.")


@dataclass(eq=False)
class _Job:
    """Something to be written in one piece, and whoever waits for it."""

    slates: Sequence[SlateRecord] = ()
    outcomes: Sequence[Outcome] = ()
    work: Callable[[], Any] | None = None
    answer: "Future[Any] | None" = None
    until: float = 0.0
    """when to stop waiting for unknown slates"""
    due: float = 0.0
    pause: float = _FIRST_PAUSE
    written: list[OutcomeStatus | None] = field(default_factory=list)
    memory: int = 0
    """bytes, about"""

    def __post_init__(self) -> None:
        self.memory = memory_of(self.slates, self.outcomes)
        self.written = [None] * len(self.outcomes)
        if self.answer is not None:
            # From here on it cannot be cancelled, only answered: a caller who left loses nothing.
            self.answer.set_running_or_notify_cancel()

    @property
    def size(self) -> int:
        return max(len(self.slates) + len(self.outcomes), 1)

    def open(self) -> list[int]:
        """Return which outcomes are still to be written."""
        unsettled = (None, OutcomeStatus.UNKNOWN_SLATE)
        return [n for n, state in enumerate(self.written) if state in unsettled]

    def fail(self, error: Exception) -> None:
        if self.answer is not None:
            self.answer.set_exception(error)


class Writer:
    """Writes to a store from one thread; safe to call from any."""

    def __init__(
        self,
        store: Store,
        size: int,
        on_commit: Callable[[Sequence[str]], None] | None = None,
        room: int = ROOM,
    ) -> None:
        """Start the thread; `on_commit` gets users with new outcomes before callers return.

        Up to `size` records wait, and up to `room` bytes of them.
        """
        self.dropped = 0
        """slates that found the queue full, or that the store refused"""
        self.failures = 0
        """attempts that the store did not take"""
        self.problem: str | None = None
        """why the store takes nothing now; None while it does"""
        self._store, self._on_commit = store, on_commit
        self._size, self._room = size, room
        self._queue: deque[_Job] = deque()
        self._late: list[_Job] = []
        self._records = self._memory = 0
        self._urgent = False
        self._closing: float | None = None
        self._user_of: OrderedDict[str, str | None] = OrderedDict()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        """How many records wait."""
        return self._records

    def add_slate(self, record: SlateRecord) -> None:
        """Queue a slate to be written; never waits, and drops it where there is no room."""
        with self._changed:
            job = _Job(slates=(record,))
            if not self._has_room(job):
                self.dropped += 1
                return
            self._put(job)

    def add(
        self, slates: Sequence[SlateRecord], outcomes: Sequence[Outcome]
    ) -> "Future[list[OutcomeStatus]]":
        """Queue both to be written; the answer, one per outcome, comes when they are durable."""
        return self._wait_for(_Job(slates, outcomes, answer=Future()))

    def call(self, work: Callable[[], _Result]) -> "Future[_Result]":
        """Queue `work` after everything that waits now; it may be done twice if it fails."""
        return self._wait_for(_Job(work=work, answer=Future()))

    def close(self, timeout: float = 30.0) -> None:
        """Write what waits and end; after `timeout` seconds give up on a store that fails."""
        with self._changed:
            if self._closing is None:
                self._closing = time.monotonic() + timeout
            self._changed.notify()
        self._thread.join()

    def _wait_for(self, job: _Job) -> "Future[Any]":
        with self._changed:
            if self.problem is not None:
                raise StoreError(self.problem, "Send it again in a moment.")
            if not self._has_room(job):
                raise QueueFullError
            job.until = time.monotonic() + PATIENCE
            self._put(job)
            self._urgent = True
            self._changed.notify()
        assert job.answer is not None
        return job.answer

    def _has_room(self, job: _Job) -> bool:
        fits = self._records + job.size <= self._size and self._memory + job.memory <= self._room
        return fits and self._closing is None

    def _put(self, job: _Job) -> None:
        self._queue.append(job)
        self._records += job.size
        self._memory += job.memory
        for slate in job.slates:
            self._user_of.setdefault(slate.slate_id, slate.user_id)
        while len(self._user_of) > _REMEMBERED:
            self._user_of.popitem(last=False)
        if len(self._queue) == 1:
            self._changed.notify()

    def _run(self) -> None:
        while jobs := self._take():
            self._persist(jobs)

    def _take(self) -> list[_Job]:
        """Wait for work; return what fits one transaction, nothing when all is done."""
        with self._changed:
            self._changed.wait_for(self._something_to_do, self._next_due())
            while not self._due() and not self._queue:
                if self._closing is not None and not self._late:
                    return []
                self._changed.wait_for(self._something_to_do, self._next_due())
            if not self._urgent:
                self._changed.wait_for(self._pressing, LINGER)
            jobs = self._due()
            self._late = [job for job in self._late if job not in jobs]
            self._fill(jobs)
            self._urgent = any(job.answer is not None for job in self._queue)
            return jobs

    def _fill(self, jobs: list[_Job]) -> None:
        """Add from the queue up to the size of a transaction; other work comes alone."""
        size = sum(job.size for job in jobs)
        while self._queue and (not jobs or size + self._queue[0].size <= BATCH):
            if jobs and (self._queue[0].work or jobs[-1].work):
                return
            jobs.append(self._queue.popleft())
            size += jobs[-1].size

    def _something_to_do(self) -> bool:
        return bool(self._queue or self._due()) or self._closing is not None

    def _pressing(self) -> bool:
        return self._urgent or self._records >= BATCH or self._closing is not None

    def _due(self) -> list[_Job]:
        now = time.monotonic()
        return [job for job in self._late if job.due <= now or self._closing is not None]

    def _next_due(self) -> float | None:
        if not self._late:
            return None
        return max(min(job.due for job in self._late) - time.monotonic(), 0.0)

    def _persist(self, jobs: list[_Job]) -> None:
        """Write until the store has it; one bad record does not keep others from being written."""
        pause = _FIRST_PAUSE
        while True:
            try:
                self._write(jobs)
            except StoreError as error:
                self._note(error)
                if not self._wait_out(pause):
                    self._give_up(jobs, error)
                    return
                pause = min(pause * 2, _LONGEST_PAUSE)
            except Exception as error:
                if len(jobs) > 1:
                    for job in jobs:
                        self._persist([job])
                    return
                if jobs[0].answer is None:
                    self.dropped += len(jobs[0].slates)
                    _log.exception("A slate could not be written and is lost.")
                self._done(jobs[0])
                jobs[0].fail(error)
                return
            else:
                self._note(None)
                return

    def _write(self, jobs: list[_Job]) -> None:
        work = jobs[0].work
        if work is not None:
            result, answer = work(), jobs[0].answer
            self._done(jobs[0])
            if answer is not None:
                answer.set_result(result)
            return
        slates = [slate for job in jobs for slate in job.slates]
        parts = [(job, n) for job in jobs for n in job.open()]
        states = self._store.write(slates, [job.outcomes[n] for job, n in parts])
        for (job, n), state in zip(parts, states, strict=True):
            job.written[n] = state
        self._tell({job.outcomes[n].slate_id for job, n in parts if _recorded(job, n)})
        for job in jobs:
            self._settle(job)

    def _tell(self, slate_ids: set[str]) -> None:
        """Name the users of slates to `on_commit`."""
        if self._on_commit is None or not slate_ids:
            return
        with self._changed:
            known = {one: self._user_of[one] for one in slate_ids if one in self._user_of}
        users = {*known.values(), *map(self._stored_user, slate_ids - known.keys())} - {None}
        if not users:
            return
        try:
            self._on_commit(sorted(user for user in users if user is not None))
        except Exception:  # it is written: the answer must not say otherwise
            _log.exception("Feedback was written, but its users were not passed on.")

    def _stored_user(self, slate_id: str) -> str | None:
        try:
            slate = self._store.slate(slate_id)
        except StoreError:  # it is written; who waits for the news has it when the cache ages
            return None
        return None if slate is None else slate.user_id

    def _settle(self, job: _Job) -> None:
        """Answer a job, or keep it a little while if the slate may be on its way."""
        now = time.monotonic()
        if job.open() and now < job.until and self._closing is None:
            with self._changed:
                job.due, job.pause = now + job.pause, min(job.pause * 2, 0.2)
                self._late.append(job)
            return
        self._done(job)
        if job.answer is not None:
            job.answer.set_result(job.written)

    def _done(self, job: _Job) -> None:
        with self._changed:
            self._records -= job.size
            self._memory -= job.memory

    def _note(self, error: StoreError | None) -> None:
        """Keep what is wrong with the store, and log when that changes."""
        problem = None if error is None else error.problem
        if error is not None:
            self.failures += 1
        if problem != self.problem:
            _log.warning("Store: %s", problem or "takes records again.")
        self.problem = problem

    def _wait_out(self, pause: float) -> bool:
        """Wait before the next attempt; false when it is time to give up."""
        deadline = self._closing
        if deadline is None:
            with self._changed:
                self._changed.wait_for(lambda: self._closing is not None, pause)
            return True
        left = deadline - time.monotonic()
        time.sleep(max(min(pause, left), 0.0))
        return left > 0

    def _give_up(self, jobs: list[_Job], error: StoreError) -> None:
        with self._changed:
            rest = [*jobs, *self._queue, *self._late]
            self._queue.clear()
            self._late.clear()
        lost = sum(len(job.slates) for job in rest if job.answer is None)
        self.dropped += lost
        _log.error("The store did not come back: %d slates are lost.", lost)
        for job in rest:
            self._done(job)
            job.fail(error)


def _recorded(job: _Job, n: int) -> bool:
    return job.written[n] in (OutcomeStatus.RECORDED, OutcomeStatus.CORRECTED)
