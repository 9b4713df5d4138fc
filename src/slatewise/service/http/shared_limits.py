"""Limits of hosts that share a store, as if they were one host.

Asking the store would cost every request more than most answers do. So each host publishes every
second the units that each token used there, and subtracts from its own buckets what others
published: for a second or two a token may have its rate on every host, on average it has it once,
however requests are spread.
"""

import fcntl
import json
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from slatewise.service.http.limits import RateLimit
from slatewise.service.serving.store_access import StoreAccess
from slatewise.service.store import StoreError

_LEFT: Final = 3600.0
"""seconds without news after which the usage of a host is deleted: it is gone"""
_SILENCE: Final = 600.0
"""seconds after which a host without news publishes again, to show that it is there"""


class Ledger(Protocol):
    """Where hosts publish their usage: the store."""

    def published_usage(self) -> dict[str, str]:
        """Return the usage of each host, by the name that it gave itself."""

    def publish_usage(self, host: str, usage: str) -> None:
        """Replace the usage of a host; an empty text deletes it."""


class SharedLimit:
    """A host's part in a limit that hosts share; one worker of the host does it at a time."""

    def __init__(self, rate: RateLimit, names: Sequence[str], ledger: Ledger, lock: Path) -> None:
        self._rate, self._ledger = rate, ledger
        self._numbers = {name: number for number, name in enumerate(names)}
        self._lock, self._access = lock.open("w"), StoreAccess()
        self._host: str | None = None
        self._before: dict[str, float] = {}
        """units taken here before this worker began to publish"""
        self._known: dict[str, dict[str, float]] | None = None
        """the last usage of other hosts; None before it was read"""
        self._published: tuple[float, dict[str, float]] = 0.0, {}
        """when this host published last, and what"""

    def exchange(self, now: float | None = None) -> None:
        """Publish what was taken here, and subtract what was taken on other hosts.

        `now` is in seconds since 1970. While the store is away, a host goes by itself.
        """
        moment = time.time() if now is None else now
        if self._has_turn():
            self._access.ask(lambda: self._exchange(moment))

    def _exchange(self, now: float) -> None:
        assert self._host is not None
        here = {name: self._rate.taken(number) for name, number in self._numbers.items()}
        here = {name: units - self._before[name] for name, units in here.items()}
        if here != self._published[1] or now - self._published[0] > _SILENCE:
            text = {name: units for name, units in here.items() if units}
            self._ledger.publish_usage(self._host, json.dumps({"at": now, "units": text}))
            self._published = now, here
        usage = {host: json.loads(text) for host, text in self._ledger.published_usage().items()}
        for host in [host for host, one in usage.items() if now - one["at"] > _LEFT]:
            self._ledger.publish_usage(host, "")
        self._take({host: one["units"] for host, one in usage.items() if host != self._host})

    def _has_turn(self) -> bool:
        """Return whether this worker exchanges for its host; another does as long as it lives."""
        if self._host is None:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
            self._host = secrets.token_hex(8)
            numbers = self._numbers.items()
            self._before = {name: self._rate.taken(number) for name, number in numbers}
        return True

    def _take(self, others: dict[str, dict[str, float]]) -> None:
        """Subtract what others used since the last time; usage from before the first is over."""
        if self._known is not None:
            for host, units in others.items():
                before = self._known.get(host, {})
                for name, taken in units.items():
                    new = taken - before.get(name, 0.0)
                    if new > 0 and name in self._numbers:
                        self._rate.take_elsewhere(self._numbers[name], new)
        self._known = (self._known or {}) | others  # also of hosts that come back

    def close(self) -> None:
        """Delete this host's usage, if the store is there, and let another worker publish."""
        if self._host is not None:
            with suppress(StoreError):
                self._ledger.publish_usage(self._host, "")
        self._lock.close()
