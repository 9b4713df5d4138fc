import threading
import time

import pytest

from slatewise.service.store.clock import AHEAD, DAY, DOUBTFUL, LASTING, Clock, ClockWatch


def test_the_clock_tells_microseconds_since_1970() -> None:
    assert abs(Clock().now() / 1e6 - time.time()) < 60


def test_a_clock_that_is_set_back_goes_on_and_is_caught_up_with() -> None:
    wall = iter([100, 200, 50, 60, 60, 201, 300])
    clock = Clock(wall=lambda: next(wall))
    assert [clock.now() for _ in range(7)] == [100, 200, 201, 202, 203, 204, 300]


def test_the_clock_starts_after_the_last_time_that_was_written_down() -> None:
    assert Clock(last=500, wall=lambda: 100).now() == 501
    assert Clock(last=500, wall=lambda: 900).now() == 900


class Computer:
    """A computer whose clock is set by hand."""

    def __init__(self) -> None:
        self.wall, self.steady = 1_000 * DAY, 0

    def clock(self, last: int = 0) -> Clock:
        return Clock(last, lambda: self.wall, lambda: self.steady)

    def wait(self, time: int) -> None:
        self.wall, self.steady = self.wall + time, self.steady + time


@pytest.mark.parametrize("days", [365, 2, -2, -365])
def test_a_moment_with_a_wrong_clock_changes_nothing(days: int) -> None:
    computer = Computer()
    clock = computer.clock()
    start = clock.now()
    computer.wait(1_000)
    computer.wall += days * DAY
    assert clock.ahead == days * DAY  # also where nobody has asked for the time since
    assert clock.now() == start + 1_000
    computer.wait(AHEAD // 10)
    assert clock.now() == start + 1_000 + AHEAD // 10
    computer.wall -= days * DAY
    assert clock.now() == start + 1_000 + AHEAD // 10 + 1
    assert abs(clock.ahead) <= 1


@pytest.mark.parametrize("days", [365, -365])
def test_a_clock_that_stays_where_it_jumped_to_is_believed(days: int) -> None:
    computer = Computer()
    clock = computer.clock()
    clock.now()
    computer.wall += days * DAY
    clock.now()
    computer.wait(LASTING)
    assert clock.now() == computer.wall
    assert clock.ahead == 0
    computer.wait(5)
    assert clock.now() == computer.wall


def test_a_time_far_ahead_in_the_store_is_not_held_on_to() -> None:
    computer = Computer()
    assert computer.clock(last=computer.wall + 365 * DAY).now() == computer.wall
    assert computer.clock(last=computer.wall + AHEAD).now() == computer.wall + AHEAD + 1


@pytest.mark.parametrize("hours", [1, 12, 23, -1, -23])
def test_a_clock_that_was_wrong_for_minutes_stops_no_time(hours: int) -> None:
    computer = Computer()
    clock = computer.clock()
    for wrong in (0, hours, -hours):
        computer.wall += wrong * DAY // 24
        for _ in range(18):
            computer.wait(LASTING // 12)
            clock.now()
    assert clock.now() in (computer.wall, computer.wall + 1)
    before = clock.now()
    computer.wait(1_000_000)
    assert clock.now() - before > 900_000


def test_a_shop_that_opens_after_a_week_goes_by_the_clock_which_is_doubted_for_minutes() -> None:
    computer = Computer()
    clock = computer.clock(last=computer.wall - 7 * DAY)
    assert not clock.is_doubtful  # it has not been asked yet
    assert clock.now() == computer.wall
    assert clock.is_doubtful
    assert "7 days past the newest slate" in ClockWatch(clock).notes[0]
    computer.wait(DOUBTFUL)
    assert clock.now() == computer.wall
    assert not clock.is_doubtful
    assert not [note for note in ClockWatch(clock).notes if "past" in note]


@pytest.mark.parametrize("days", [365, 7])
def test_a_start_with_a_wrong_clock_ends_with_its_correction(days: int) -> None:
    computer = Computer()
    clock, right = computer.clock(last=computer.wall - 1_000), computer.wall
    computer.wall += days * DAY
    assert clock.now() == computer.wall
    assert clock.is_doubtful
    computer.wait(1_000)
    computer.wall -= days * DAY  # asked for by now, from a server that knows
    assert clock.now() == computer.wall == right + 1_000
    assert not clock.is_doubtful
    computer.wall += days * DAY  # from here on, a jump is one
    assert clock.now() == right + 1_001


@pytest.mark.parametrize("last", [0, 999 * DAY + 1])
def test_a_first_start_and_one_of_the_same_day_are_not_doubted(last: int) -> None:
    clock = Computer().clock(last=last)
    clock.now()
    assert not clock.is_doubtful


def test_no_two_threads_get_the_same_time() -> None:
    clock = Clock(wall=lambda: 7)
    times: list[int] = []

    def ask() -> None:
        times.extend([clock.now() for _ in range(500)])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(times) == list(range(7, 2_007))
