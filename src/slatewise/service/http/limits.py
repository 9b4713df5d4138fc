"""How often a token may ask and how much it may send, over all workers and hosts together.

A token bucket kept as two numbers per token: the time at which its bucket will be full again, and
the units that were taken out of it. Workers share the numbers through mapped memory. They do not
lock it: two that write at the same moment may let one request more through, which a limit of this
kind can afford. `shared_limits` does the same for hosts.
"""

import mmap
import os
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

BURST = 2.0
"""seconds' worth of requests that may come at once"""
DEBT = 5.0
"""seconds that a token waits at most for what other hosts gave it"""
BYTES = 10_000
"""bytes of a body that count as one more request: slow requests have long lists"""
_Endpoint = TypeVar("_Endpoint", bound=Callable[..., object])
_NUMBER = struct.Struct("d")


@dataclass(frozen=True)
class Cost:
    """How many ordinary requests a request counts as."""

    units: float = 1.0
    asked: tuple[str, ...] = ()
    """parameters that make it cost this much, any of them; without names, it always does"""

    def of(self, parameters: Mapping[str, str]) -> float:
        """Return the units of a request with some parameters."""
        dear = not self.asked or any(parameters.get(name) for name in self.asked)
        return self.units if dear else 1.0


ORDINARY: Final = Cost()


def costs(units: float, *asked: str) -> Callable[[_Endpoint], _Endpoint]:
    """Declare that an endpoint's requests, or those with some parameters, cost more than others.

    A unit is about a millisecond of a processor with 100,000 items.
    """

    def declared(endpoint: _Endpoint) -> _Endpoint:
        vars(endpoint)["cost"] = Cost(units, asked)
        return endpoint

    return declared


def cost_of(endpoint: Callable[..., object]) -> Cost:
    """Return what an endpoint declares."""
    found: Cost = vars(endpoint).get("cost", ORDINARY)
    return found


class RateLimit:
    """Requests per second and token."""

    def __init__(self, rate: float, memory: bytearray | mmap.mmap) -> None:
        self._cost, self._memory = 1 / rate, memory
        # Units after all times: workers from before an upgrade know times alone, and share them.
        self._units = len(memory) // 2

    @classmethod
    def alone(cls, rate: float, tokens: int = 1) -> "RateLimit":
        """Keep the buckets of some tokens in this process."""
        return cls(rate, bytearray(2 * _NUMBER.size * tokens))

    @classmethod
    def open(cls, rate: float, file: Path, tokens: int = 1) -> "RateLimit":
        """Share the buckets of some tokens with whoever else opens them; full, where none did."""
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a+b") as stream:
            size = 2 * _NUMBER.size * tokens
            # A file with holes would kill whoever writes into one when the disk is full.
            os.posix_fallocate(stream.fileno(), 0, size)
            return cls(rate, mmap.mmap(stream.fileno(), size))

    def take(
        self, number: int, now: float | None = None, units: float = 1.0, before: float = 0.0
    ) -> float:
        """Take a request of some units out of a token's bucket.

        Return the seconds to wait, 0 if there was enough in it. `now` is a time of the system's
        monotonic clock, which all processes share; `before` has the units that were taken for the
        same request already.
        """
        now = time.monotonic() if now is None else now
        full = max(self._number(number), now) + self._cost * units
        # One request may always go, whatever it costs and however slow the rate.
        wait: float = full - now - max(BURST, self._cost * (units + before))
        if wait > 1e-9:
            return wait
        self._set(number, full)
        self._set(number, self.taken(number) + units, self._units)
        return 0.0

    def spend(self, number: int, units: float) -> None:
        """Take what a request turned out to cost, even if there is not enough.

        As for other hosts, nobody waits longer than DEBT for it.
        """
        self.take_elsewhere(number, units)
        self._set(number, self.taken(number) + units, self._units)

    def taken(self, number: int) -> float:
        """Return the units that a token took on this host, since its buckets were made."""
        return self._number(number, self._units)

    def take_elsewhere(self, number: int, units: float, now: float | None = None) -> None:
        """Take out of a token's bucket what another host gave it, even if there is not enough.

        A token never waits longer than DEBT for it: after minutes without the store, all that other
        hosts gave meanwhile comes at once.
        """
        now = time.monotonic() if now is None else now
        full = self._number(number)
        most = max(full, now + BURST + DEBT)
        debt = min(max(full, now) + self._cost * units, most)
        self._set(number, debt)

    def _number(self, token: int, start: int = 0) -> float:
        value: float = _NUMBER.unpack_from(self._memory, start + token * _NUMBER.size)[0]
        return value

    def _set(self, token: int, value: float, start: int = 0) -> None:
        _NUMBER.pack_into(self._memory, start + token * _NUMBER.size, value)
