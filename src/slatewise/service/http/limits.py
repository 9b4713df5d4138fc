"""How often a token may ask and how much it may send, over all workers together.

A token bucket kept as one number per token: the time at which its bucket will be full again.
Workers share the numbers through mapped memory. They do not lock it: two that write at the same
moment may let one request more through, which a limit of this kind can afford.
"""

import mmap
import os
import struct
import time
from pathlib import Path

BURST = 2.0
"""seconds' worth of requests that may come at once"""
BYTES = 10_000
"""of a body that cost as much as a request: what is slow to answer has long lists in it"""
_SLOT = struct.Struct("d")


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

    def take(self, number: int, now: float | None = None, body: int = 0) -> float:
        """Take a request out of a token's bucket, or its body of a number of bytes.

        Return the seconds to wait, 0 if there was enough in it. `now` is a time of the system's
        monotonic clock, which all processes share.
        """
        now = time.monotonic() if now is None else now
        offset = number * _SLOT.size
        cost = self._cost * body / BYTES if body else self._cost
        full = max(_SLOT.unpack_from(self._memory, offset)[0], now) + cost
        # One request may always go with its body, however slow the rate.
        alone = cost + self._cost if body else cost
        wait: float = full - now - max(BURST, alone)
        if wait > 1e-9:
            return wait
        _SLOT.pack_into(self._memory, offset, full)
        return 0.0
