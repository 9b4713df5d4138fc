"""Training every night, in a process of its own beside the workers."""

import logging
import logging.config
import multiprocessing
import os
import signal
import threading
import time
from contextlib import closing
from datetime import datetime, timedelta
from datetime import time as time_of_day
from pathlib import Path
from types import FrameType

from slatewise.errors import SlatewiseError
from slatewise.service.http.setup import LOGGING, end_with_parent
from slatewise.service.nights.night import retrain
from slatewise.service.settings import ServiceConfig
from slatewise.service.store import Store
from slatewise.service.upkeep.repair import compact_items
from slatewise.service.upkeep.retention import expire

LOOK = 10.0
"""seconds between looks at the clock: it may be set, and a computer may sleep"""
_FARTHEST = timedelta(days=2)
"""A night that is farther away was planned by a clock that was wrong."""
_NICE = 10
_log = logging.getLogger(__name__)


class NightlyTraining(threading.Thread):
    """Retrains a service every day at a time of the local clock."""

    def __init__(self, directory: Path, config: ServiceConfig) -> None:
        super().__init__(name="nightly", daemon=True)
        self._directory, self._config = directory, config
        self._ended = threading.Event()

    def run(self) -> None:
        """Wait for the time, over and over."""
        at, due = self._next()
        while not self._ended.wait(LOOK):
            # A clock that was far ahead for a moment would else call off all nights until then.
            ahead = due is not None and due - _now() > _FARTHEST
            if ahead or at != self._config.retraining.at:
                at, due = self._next()
            if due is not None and _now() >= due:
                self._train()
                at, due = self._next()

    def follow(self, config: ServiceConfig) -> None:
        """Use other settings from the next night on; without a time, there is none."""
        self._config = config

    def _next(self) -> tuple[str | None, datetime | None]:
        at = self._config.retraining.at
        return at, None if at is None else next_night(at, _now())

    def end(self) -> None:
        """Stop, also a training under way: what serves stays, and the next one clears up."""
        self._ended.set()
        self.join()

    def _train(self) -> None:
        # Spawned, not called by its name: the store's password is then in no list of processes.
        training = multiprocessing.get_context("spawn").Process(
            target=_apart, args=(self._directory, self._config), name="retraining"
        )
        training.start()
        while training.is_alive():
            if self._ended.wait(0.2):
                training.terminate()
                break
        training.join()
        if training.exitcode:
            _log.error("The night's training ended with status %s.", training.exitcode)


def next_night(at: str, after: datetime) -> datetime:
    """Return the first moment later than `after` that is `at` (such as 03:00) by the same clock.

    The clock is that of the time zone of `after`; without one, that of this machine. An hour that a
    change to summer time leaves out is taken an hour later, and one that comes twice is taken once.
    `at` is as the configuration has it, which has checked it.
    """
    wanted = time_of_day.fromisoformat(at)
    naive = after.replace(tzinfo=None)
    for day in range(3):
        moment = datetime.combine(naive.date() + timedelta(days=day), wanted, after.tzinfo)
        if moment.timestamp() > after.timestamp():
            return moment
    raise AssertionError("two days hold every time of day")


def _apart(directory: Path, config: ServiceConfig) -> None:
    """Train in a process of its own; slates come first, so it takes what processors they leave."""
    logging.config.dictConfig(LOGGING)
    signal.signal(signal.SIGTERM, _stop)
    end_with_parent()
    os.nice(_NICE)
    train_quietly(directory, config)


def _stop(number: int, frame: FrameType | None) -> None:
    # As an exception, so that the copy of the log that training reads is cleared away.
    raise SystemExit(128 + number)


def train_quietly(directory: Path, config: ServiceConfig) -> None:
    """Train all models; what goes wrong is said in the log."""
    try:
        store, now = Store.open(config.store_url(directory)), time.time_ns() // 1_000
        with closing(store):
            for night in retrain(directory, config, store, now=now):
                _log.info("Night: %s", " ".join(night.words()))
            if config.retention.days is not None:
                _log.info("Night: %s", expire(directory, config.retention, store, now).words())
            if void := compact_items(directory, store):
                _log.info("Night: %s void changes of items were deleted.", f"{void:,}")
            _clear_traces(config, store)
    except SlatewiseError as error:
        _log.error("The night's training was not possible: %s", error)


def _clear_traces(config: ServiceConfig, store: Store) -> None:
    """Remove all bytes of erased people, or warn that some may be left and what to do."""
    if not store.has_traces:
        return
    if not config.retention.rewrite:
        # Events wait while it is written: 3 CPU seconds for 500 MB, and as long as the disk takes.
        _log.warning(
            "Night: bytes of people who were erased may be left in unused places of the store. "
            "Stop the service and run slatewise repair, or set rewrite in [retention]."
        )
    elif store.scrub():
        _log.info("Night: the store was written anew, without those who were erased.")


def _now() -> datetime:
    # Without a zone, so that both sides are what the clock on the wall shows, summer or winter.
    return datetime.now()
