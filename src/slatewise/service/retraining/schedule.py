"""When the next night is."""

from datetime import datetime, time, timedelta

from slatewise.errors import SlatewiseError


def next_night(at: str, after: datetime) -> datetime:
    """Return the first moment later than `after` that is `at` (such as 03:00) by the same clock.

    The clock is that of the time zone of `after`; without one, that of this machine. An hour that a
    change to summer time leaves out is taken an hour later, and one that comes twice is taken once.
    """
    wanted = _time_of_day(at)
    naive = after.replace(tzinfo=None)
    for day in range(3):
        moment = datetime.combine(naive.date() + timedelta(days=day), wanted, after.tzinfo)
        if moment.timestamp() > after.timestamp():
            return moment
    raise AssertionError("two days hold every time of day")


def _time_of_day(text: str) -> time:
    try:
        found = time.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is not None:
        raise SlatewiseError(f"'{text}' is not a time of day.", "Write it as 03:00.")
    return found
