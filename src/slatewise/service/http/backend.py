"""What the routes of one worker share: the service, the store, the queue, and threads."""

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from time import thread_time, time
from typing import TypeVar

from slatewise.service.http import limits
from slatewise.service.http.guard import Gate
from slatewise.service.http.metrics import Metrics
from slatewise.service.http.problems import RETRY_SECONDS, Problem
from slatewise.service.http.setup import Setup
from slatewise.service.http.tracing import Tracing
from slatewise.service.serving import Arm, Request, Service, warm_up
from slatewise.service.settings import ServiceConfig
from slatewise.service.store import Store, StoreError
from slatewise.service.store.records import SlateRecord
from slatewise.service.store.writer import Writer
from slatewise.slates import RankedItems, Slate

QUEUE = 20_000
"""records that may wait to be written: some 50 MB of slates of 20 items"""
PATIENCE = 5.0
"""seconds that a request waits for the store to write"""
QUICK = 0.002
"""CPU seconds of a slate that is made on the spot"""
SMALL = 100
"""ids in the lists of a request that is answered on the spot"""
WAITING = 4
"""requests for insight that may wait for the one that is being answered"""
_TICK = 1.0
_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")
Made = tuple[SlateRecord, Slate, list[str]]
"""the record of a slate, the slate, and what could not be done"""


class Backend:
    """One per worker."""

    def __init__(
        self,
        service: Service,
        store: Store,
        gate: Gate,
        metrics: Metrics,
        tracing: Tracing | None = None,
    ) -> None:
        self.service, self.store = service, store
        self.gate, self.metrics = gate, metrics
        self.writer = Writer(store, QUEUE, service.changed_users)
        self._tracing = tracing
        # Apart: reads that wait for a store in trouble must not keep slates waiting.
        self._ranking = ThreadPoolExecutor(min(os.cpu_count() or 1, 4), "ranking")
        self._reading = ThreadPoolExecutor(4, "reading")
        # What people look at may take a second of a processor: one at a time, and never so that
        # whoever asks whether the worker is well has to wait for it.
        self._insight = ThreadPoolExecutor(1, "insight")
        self._health = ThreadPoolExecutor(2, "health")
        self._looking = 0
        self._usual = 1.0
        self._turn = asyncio.Lock()
        self._cpu = {thread: metrics.ranking.labels(thread) for thread in ("http", "ranking")}
        self.refreshed = time()
        """when models, items and popularity were last looked for, in seconds since 1970"""
        self._ended = threading.Event()
        self._ticking = threading.Thread(target=self._tick, name="refreshing", daemon=True)
        self._ticking.start()

    @classmethod
    def open(cls, setup: Setup, tracing: Tracing | None, metrics: Metrics) -> "Backend":
        """Open the store and the models; waits for a store that cannot be reached yet."""
        config = setup.config
        tokens = 1 if setup.tokens is None else len(setup.tokens.roles)
        rate = limits.RateLimit.open(config.limits.requests_per_second, setup.rates, tokens)
        gate = Gate(setup.tokens, rate, config.limits.body_bytes)
        pause = threading.Event()
        while True:
            try:
                store = Store.open(config.store_url(setup.directory))
                service = Service.open(setup.directory, config, store)
                # The first slate loads compiled code, for seconds: no request should wait for that.
                warm_up(config)
                service.recommend(Request())
                return cls(service, store, gate, metrics, tracing)
            except StoreError as error:
                # A worker that replaces a dead one must not end the others.
                _log.warning("Waiting for the store: %s", error.problem)
                pause.wait(1.0)

    @property
    def config(self) -> ServiceConfig:
        """The settings, with arms that were changed since."""
        return self.service.config

    def close(self) -> None:
        """Write what waits, and let go of everything."""
        self._ended.set()
        self._ticking.join()
        self._ranking.shutdown()
        self.writer.close()
        for pool in (self._reading, self._insight, self._health):
            pool.shutdown()
        self.store.close()
        if self._tracing is not None:
            self._tracing.close()

    async def recommend(self, request: Request) -> Made:
        """Make a slate: in a thread, so that other requests go on, unless that costs more.

        Two threads that hand over to each other with every request cost 0.2 ms: slates that took
        little lately are made on the spot.
        """
        small = request.ids <= SMALL
        if small and self._usual < QUICK and (quick := await self._on_the_spot(request)):
            return quick
        usual, loop = small and self.service.at_hand(request), asyncio.get_running_loop()
        work = self._timed if self._tracing is None else self._tracing.carried(self._timed)
        made, took = await loop.run_in_executor(self._ranking, work, request)
        self.metrics.later(self._cpu["ranking"].inc, took)
        if usual:
            self._learn(took)
        return made

    async def rank(self, request: Request) -> tuple[Arm, RankedItems, list[str]]:
        """Order given items, in a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._ranking, self.service.rank, request)

    async def _on_the_spot(self, request: Request) -> Made | None:
        """Make a slate here, unless the store must be asked.

        One for every round of the event loop: others wait for one slate rather than for all, which
        halves what feedback takes beside eight connections that ask for slates.
        """
        async with self._turn:
            await asyncio.sleep(0)
            if not self.service.at_hand(request):
                return None
            made, took = self._timed(request)
        self.metrics.later(self._cpu["http"].inc, took)
        self._learn(took)
        return made

    def _timed(self, request: Request) -> tuple[Made, float]:
        """Make a slate; return also the CPU seconds that it took."""
        start = thread_time()
        if self._tracing is None:
            made = self.service.recommend(request)
        else:
            with self._tracing.span("make a slate"):
                made = self.service.recommend(request)
        return made, thread_time() - start

    def _learn(self, took: float) -> None:
        """Take into account what a small slate took for which the store was not asked."""
        self._usual += 0.1 * (took - self._usual)

    async def read(self, work: Callable[[], _Result]) -> _Result:
        """Ask the store in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._reading, work)

    async def look(self, work: Callable[[], _Result]) -> _Result:
        """Work out what people look at, one at a time; refuse it if too many wait already."""
        if self._looking > WAITING:
            raise Problem(
                429,
                "Too many ask for what takes long to work out.",
                f"Ask again in {RETRY_SECONDS} s, one request at a time.",
                {"Retry-After": str(RETRY_SECONDS)},
            )
        self._looking += 1
        started = self._insight.submit(work)
        # When it has ended, not when the client stops waiting: what runs cannot be stopped.
        loop = asyncio.get_running_loop()
        started.add_done_callback(lambda _: loop.call_soon_threadsafe(self._looked))
        return await asyncio.wrap_future(started)

    def _looked(self) -> None:
        self._looking -= 1

    async def probe(self, work: Callable[[], _Result]) -> _Result:
        """Find out how the worker is, whatever else it does."""
        return await asyncio.get_running_loop().run_in_executor(self._health, work)

    async def written(self, answer: "Future[_Result]", patience: float | None = None) -> _Result:
        """Wait for what was given to the writer, though not for ever."""
        if self._tracing is None:
            return await self._waited(answer, patience)
        with self._tracing.span("wait for the store"):
            return await self._waited(answer, patience)

    async def _waited(self, answer: "Future[_Result]", patience: float | None) -> _Result:
        try:
            async with asyncio.timeout(PATIENCE if patience is None else patience):
                return await asyncio.wrap_future(answer)
        except TimeoutError:
            raise StoreError("The store does not answer.", "Send it again in a moment.") from None

    def _tick(self) -> None:
        while not self._ended.wait(_TICK):
            try:
                self.service.refresh()
                self.refreshed = time()
                self.count()
            except Exception as error:  # the next second may be better; the old state serves on
                _log.warning("Could not refresh: %s", error)

    @property
    def is_refreshing(self) -> bool:
        """Whether new models, items and popularity are still looked for."""
        return self._ticking.is_alive()

    def count(self) -> None:
        """Bring the metrics up to date."""
        self.metrics.watch(self.writer)
        self.metrics.refreshed.set(self.refreshed)
        self.metrics.clock.set(abs(self.service.clock.ahead) / 1e6)
        self.metrics.store_ahead.set(self.service.clock_watch.store_ahead / 1e6)
        arms = self.service.arms
        self.metrics.serving({(arm.name, arm.model, arm.version, arm.digest) for arm in arms})
