"""How often a token may ask, over all workers together.

A token bucket kept as one number per token: the time at which its bucket will be full again.
Workers share the numbers through mapped memory. They do not lock it: two that write at the same
moment may let one request more through, which a limit of this kind can afford.
"""

import mmap
import struct
import time
from pathlib import Path

BURST = 2.0
"""seconds' worth of requests that may come at once"""
_SLOT = struct.Struct("d")


def create(file: Path, tokens: int) -> None:
    """Make the shared memory for a number of tokens, all buckets full."""
    file.write_bytes(bytes(_SLOT.size * max(tokens, 1)))


class RateLimit:
    """Requests per second and token."""

    def __init__(self, rate: float, memory: bytearray | mmap.mmap) -> None:
        self._cost, self._memory = 1 / rate, memory

    @classmethod
    def open(cls, rate: float, file: Path) -> "RateLimit":
        """Share the buckets of `create` with whoever else opened them."""
        with file.open("r+b") as stream:
            return cls(rate, mmap.mmap(stream.fileno(), 0))

    def take(self, number: int, now: float | None = None) -> float:
        """Take one request out of a token's bucket; return the seconds to wait, 0 if it was there.

        `now` is a time of the system's monotonic clock, which all processes share.
        """
        now = time.monotonic() if now is None else now
        offset = number * _SLOT.size
        full = max(_SLOT.unpack_from(self._memory, offset)[0], now) + self._cost
        # One request may always go, however slow the rate.
        wait: float = full - now - max(BURST, self._cost)
        if wait > 1e-9:
            return wait
        _SLOT.pack_into(self._memory, offset, full)
        return 0.0
