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
LASTING: Final = 2 * 60 * 1_000_000
"""Microseconds after which a jump of the clock is believed."""
DOUBTFUL: Final = 5 * 60 * 1_000_000
"""Microseconds for which a clock that starts long after the last time is doubted: a computer that
came up with a wrong one has asked for the time by then."""
EARLIEST: Final = 946_684_800_000_000
"""The year 2000: smaller numbers are seconds or milliseconds."""
_LOOK: Final = 60.0
"""Seconds between looks at whether the store is dated ahead of the clock."""
_STEADY: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def iso(time: int) -> str:
    """Return a time, in microseconds since 1970, as text of UTC, to the second."""
    return datetime.fromtimestamp(time // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def wall_clock() -> int:
    """Return the computer's time, in microseconds since 1970."""
    return time.time_ns() // 1_000


def steady_clock() -> int:
    """Return microseconds since the computer started, asleep or awake, which no setting changes."""
    return time.clock_gettime_ns(_STEADY) // 1_000


class Clock:
    """The computer's clock as long as it goes forward, and does not jump.

    When it is set back a little, times go on by a microsecond from where they were until it has
    caught up: what comes later keeps the later time. Start it with the last time that the service
    wrote down (`Store.last_served`), and that holds across restarts.

    When it jumps, either way, it is not believed until it has stayed there for a while: a slate
    that is dated a year ahead would draw all later ones along. A last time that lies further ahead
    than AHEAD is a mistake of that kind, and is not held on to: time would stand until then.

    When it starts more than a day after the last time, the service was stopped for long, or the
    clock is wrong. It is believed, for a shop that opens again must serve and learn; but it is
    doubted for some minutes, in which a correction is followed at once.
    """

    def __init__(
        self,
        last: int = 0,
        wall: Callable[[], int] = wall_clock,
        steady: Callable[[], int] = steady_clock,
    ) -> None:
        self.gap = 0
        """microseconds from the last time to when it started"""
        self._last = self._before = last
        self._wall, self._steady = wall, steady
        self._offset: int | None = None
        self._jumped: int | None = None
        self._doubted = 0  # until when, by the steady clock
        self._lock = threading.Lock()

    def now(self) -> int:
        """Return a time later than every time before, unless those were far ahead by mistake."""
        with self._lock:
            found, _ = self._found()
            self._last = found + (found == self._last)
            return self._last

    @property
    def ahead(self) -> int:
        """Microseconds by which the computer's clock is ahead of this one, whoever asked before."""
        with self._lock:
            found, wall = self._found()
            return wall - found

    def _found(self) -> tuple[int, int]:
        """Return the time that is believed, no earlier than the last, and the computer's."""
        wall = self._wall()
        found = self._believed(wall, self._steady())
        return (found if self._last - found > AHEAD else max(found, self._last)), wall

    def _believed(self, wall: int, steady: int) -> int:
        """Return the computer's time, or what it would be without a jump that is fresh."""
        if self._offset is None:
            self._begin(wall, steady)
        assert self._offset is not None
        if abs(wall - steady - self._offset) <= AHEAD:
            self._jumped = None
        elif steady < self._doubted and wall < steady + self._offset:
            self._begin(wall, steady)  # the correction that was waited for
        else:
            self._jumped = steady if self._jumped is None else self._jumped
            if steady - self._jumped < LASTING:
                return steady + self._offset
            self._jumped = None
        self._offset = wall - steady
        return wall

    def _begin(self, wall: int, steady: int) -> None:
        """Go by the computer's clock from here, in doubt if it is far from the last time."""
        self._offset = wall - steady
        self.gap = wall - self._before if self._before else 0
        self._doubted = steady + DOUBTFUL if self.gap > DAY else 0

    @property
    def is_doubtful(self) -> bool:
        """Whether it started long after the last time, and may still turn out to be wrong."""
        return self._steady() < self._doubted


class ClockWatch:
    """What is wrong with a clock, and with the times that were written down by it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looked = -_LOOK
        self._newest = 0  # the time of the newest slate in the store, as of the last look

    def look(self, last_shown: Callable[[], int | None]) -> None:
        """Ask for the time of the newest slate, now and then; None if that is not to be had."""
        if time.monotonic() - self._looked >= _LOOK:
            self._looked = time.monotonic()
            self._newest = last_shown() or self._newest

    @property
    def store_ahead(self) -> int:
        """Microseconds by which the newest slate is dated later than now."""
        return max(0, self._newest - wall_clock())

    @property
    def notes(self) -> list[str]:
        """Whether the clock jumped, may be wrong, or was wrong when slates were written."""
        notes, ahead = [], self._clock.ahead
        if abs(ahead) > AHEAD:
            which = f"{abs(ahead) // 1_000_000:,} s {'ahead of' if ahead > 0 else 'behind'}"
            notes.append(f"the computer's clock jumped: it is {which} the service's")
        if self._clock.is_doubtful:
            notes.append(
                f"the computer's clock was {self._clock.gap / DAY:,.0f} days past the newest slate "
                "at the start: see that it is right"
            )
        if self.store_ahead > AHEAD:
            notes.append(
                f"slates are dated later than now, up to {iso(self._newest)}: stop the service and "
                "run slatewise repair DIR"
            )
        return notes
