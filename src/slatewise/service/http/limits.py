"""How often a token may ask and how much it may send, over all workers together.

A token bucket kept as one number per token: the time at which its bucket will be full again.
Workers share the numbers through mapped memory. They do not lock it: two that write at the same
moment may let one request more through, which a limit of this kind can afford.
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
BYTES = 10_000
"""of a body that cost as much as a request: what is slow to answer has long lists in it"""
_Endpoint = TypeVar("_Endpoint", bound=Callable[..., object])
_SLOT = struct.Struct("d")


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

    @classmethod
    def open(cls, rate: float, file: Path, tokens: int = 1) -> "RateLimit":
        """Share the buckets of some tokens with whoever else opens them; full, where none did."""
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a+b") as stream:
            size = _SLOT.size * tokens
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
        offset = number * _SLOT.size
        full = max(_SLOT.unpack_from(self._memory, offset)[0], now) + self._cost * units
        # One request may always go, whatever it costs and however slow the rate.
        wait: float = full - now - max(BURST, self._cost * (units + before))
        if wait > 1e-9:
            return wait
        _SLOT.pack_into(self._memory, offset, full)
        return 0.0
