"""What the routes of one worker share: the service, the store, the queue, and threads."""

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic, thread_time, time
from typing import TypeVar

from slatewise.errors import SlatewiseError
from slatewise.service.http import limits
from slatewise.service.http.guard import Gate
from slatewise.service.http.metrics import Metrics
from slatewise.service.http.problems import RETRY_SECONDS, Problem
from slatewise.service.http.setup import Setup
from slatewise.service.http.shared_limits import SharedLimit
from slatewise.service.http.tracing import Tracing
from slatewise.service.nights.watch import NightWatch
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
USUAL = 0.005
"""CPU seconds of a slate that count as one request"""
UNIT = 0.001
"""CPU seconds beyond these that count as another one"""
LATE = 1.0
"""seconds for which a slate waits for its turn: then its page has gone without, and to make it all
the same would keep those waiting that come after it"""
SMALL = 100
"""ids in the lists of a request that is answered on the spot"""
WAITING = 4
"""requests for insight that may wait for the one that is being answered"""
TIDY_SECONDS = 5.0
"""between attempts to remove what erased people left: writers wait for a fifth of a second"""
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
        shared_limit: SharedLimit | None = None,
    ) -> None:
        self.service, self.store = service, store
        self._shared_limit = shared_limit
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
        self.nights = NightWatch(service.directory, service.config.models)
        self._tidied = monotonic()
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
                return cls(service, store, gate, metrics, tracing, _shared(setup, rate, store))
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
        if self._shared_limit is not None:
            self._shared_limit.close()
        self.store.close()
        if self._tracing is not None:
            self._tracing.close()

    async def recommend(self, request: Request, token: int = 0) -> Made:
        """Make a slate for a token, which pays for what it costs beyond the usual.

        In a thread, so that other requests go on, unless that costs more.

        Two threads that hand over to each other with every request cost 0.2 ms: slates that took
        little lately are made on the spot.
        """
        small = request.ids <= SMALL
        if small and self._usual < QUICK and (quick := await self._on_the_spot(request, token)):
            return quick
        usual, loop = small and self.service.at_hand(request), asyncio.get_running_loop()
        work = self._timed if self._tracing is None else self._tracing.carried(self._timed)
        made, took = await loop.run_in_executor(self._ranking, work, request, monotonic())
        self._count_cost(token, took, "ranking")
        if usual:
            self._learn(took)
        return made

    async def rank(self, request: Request, token: int = 0) -> tuple[Arm, RankedItems, list[str]]:
        """Order given items for a token, in a thread."""
        asked, loop = monotonic(), asyncio.get_running_loop()

        def work() -> tuple[tuple[Arm, RankedItems, list[str]], float]:
            refuse_late(asked)
            start = thread_time()
            return self.service.rank(request), thread_time() - start

        ranked, took = await loop.run_in_executor(self._ranking, work)
        self._count_cost(token, took, "ranking")
        return ranked

    def _count_cost(self, token: int, took: float, thread: str) -> None:
        """Count CPU seconds of a slate, and charge what is beyond the usual."""
        self.metrics.later(self._cpu[thread].inc, took)
        if took > USUAL:
            self.gate.rate.spend(token, (took - USUAL) / UNIT)

    async def _on_the_spot(self, request: Request, token: int) -> Made | None:
        """Make a slate here, unless the store must be asked.

        One for every round of the event loop: others wait for one slate rather than for all, which
        halves what feedback takes beside eight connections that ask for slates.
        """
        asked = monotonic()
        async with self._turn:
            refuse_late(asked)
            await asyncio.sleep(0)
            if not self.service.at_hand(request):
                return None
            made, took = self._timed(request)
        self._count_cost(token, took, "http")
        self._learn(took)
        return made

    def _timed(self, request: Request, asked: float | None = None) -> tuple[Made, float]:
        """Make a slate that was asked for at a time; return also the CPU seconds that it took."""
        if asked is not None:
            refuse_late(asked)
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
            self._attempt("follow models and items", self._refresh)
            if self._shared_limit is not None:
                self._attempt("share limits with other hosts", self._shared_limit.exchange)
            self._attempt("update the metrics", self.count)
            self._attempt("remove what erased people left", self._tidy)

    def _refresh(self) -> None:
        self.service.refresh()
        self.refreshed = time()

    def _attempt(self, what: str, work: Callable[[], None]) -> None:
        """Do one thing of every second; the next second may be better, and the rest goes on."""
        try:
            work()
        except SlatewiseError as error:  # such as a store that is down
            _log.warning("Could not %s: %s", what, error)
        except Exception:
            _log.exception("Could not %s.", what)

    def _tidy(self) -> None:
        """Remove what erased people left where a reader kept it from being removed at once."""
        if monotonic() - self._tidied >= TIDY_SECONDS:
            self._tidied = monotonic()
            self.store.tidy()

    @property
    def is_refreshing(self) -> bool:
        """Whether new models, items and popularity are still looked for."""
        return self._ticking.is_alive()

    def count(self) -> None:
        """Update the metrics."""
        self.metrics.watch(self.writer)
        self.metrics.refreshed.set(self.refreshed)
        self.metrics.clock.set(abs(self.service.clock.ahead) / 1e6)
        self.metrics.store_ahead.set(self.service.clock_watch.store_ahead / 1e6)
        for (model, outcome), at in self.nights.times().items():
            self.metrics.nights.labels(model, outcome).set(at)
        arms = self.service.arms
        self.metrics.serving({(arm.name, arm.model, arm.version, arm.digest) for arm in arms})


def refuse_late(asked: float) -> None:
    """Refuse a slate that has waited for its turn for too long, since a monotonic time."""
    if monotonic() - asked > LATE:
        raise Problem(
            503,
            "More slates are asked for than can be made.",
            f"Ask again in {RETRY_SECONDS} s; more workers make more.",
            {"Retry-After": str(RETRY_SECONDS)},
        )


def _shared(setup: Setup, rate: limits.RateLimit, store: Store) -> SharedLimit | None:
    """Return what hosts share limits by; None where there is one host, or no token."""
    if setup.tokens is None or not store.is_shared:
        return None
    # Beginnings of digests of long random tokens: enough to tell tokens apart, not to use one.
    names = [digest.hex()[:16] for digest in setup.tokens.digests]
    return SharedLimit(rate, names, store, setup.rates.with_suffix(".lock"))
