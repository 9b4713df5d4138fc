"""The time of the service: microseconds since 1970 that never go back."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

DAY: Final = 86_400_000_000
"""Microseconds."""
AHEAD: Final = 5 * 60 * 1_000_000
"""Microseconds by which the clocks of others may be ahead of ours."""
EARLIEST: Final = 946_684_800_000_000
"""The year 2000: smaller numbers are seconds or milliseconds."""


def iso(time: int) -> str:
    """Return a time, in microseconds since 1970, as text of UTC, to the second."""
    return datetime.fromtimestamp(time // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def wall_clock() -> int:
    """Return the computer's time, in microseconds since 1970."""
    return time.time_ns() // 1_000


class Clock:
    """The computer's clock as long as it goes forward.

    When it is set back, times go on by a microsecond from where they were until it has caught up:
    what comes later keeps the later time. Start it with the last time that the service wrote down
    (`Store.last_served`), and that holds across restarts.
    """

    def __init__(self, last: int = 0, wall: Callable[[], int] = wall_clock) -> None:
        self._last = last
        self._wall = wall
        self._lock = threading.Lock()

    def now(self) -> int:
        """Return a time later than every time before."""
        with self._lock:
            self._last = max(self._wall(), self._last + 1)
            return self._last
