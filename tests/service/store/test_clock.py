import threading
import time

from slatewise.service.store.clock import Clock


def test_the_clock_tells_microseconds_since_1970() -> None:
    assert abs(Clock().now() / 1e6 - time.time()) < 60


def test_a_clock_that_is_set_back_goes_on_and_is_caught_up_with() -> None:
    wall = iter([100, 200, 50, 60, 60, 201, 300])
    clock = Clock(wall=lambda: next(wall))
    assert [clock.now() for _ in range(7)] == [100, 200, 201, 202, 203, 204, 300]


def test_the_clock_starts_after_the_last_time_that_was_written_down() -> None:
    assert Clock(last=500, wall=lambda: 100).now() == 501
    assert Clock(last=500, wall=lambda: 900).now() == 900


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
