"""When the next night is."""

from datetime import datetime, time, timedelta


def next_night(at: str, after: datetime) -> datetime:
    """Return the first moment later than `after` that is `at` (such as 03:00) by the same clock.

    The clock is that of the time zone of `after`; without one, that of this machine. An hour that a
    change to summer time leaves out is taken an hour later, and one that comes twice is taken once.
    `at` is as the configuration has it, which has checked it.
    """
    wanted = time.fromisoformat(at)
    naive = after.replace(tzinfo=None)
    for day in range(3):
        moment = datetime.combine(naive.date() + timedelta(days=day), wanted, after.tzinfo)
        if moment.timestamp() > after.timestamp():
            return moment
    raise AssertionError("two days hold every time of day")
