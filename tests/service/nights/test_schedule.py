"""When the next night is."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from slatewise.service.nights import next_night

OSLO = ZoneInfo("Europe/Oslo")


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (datetime(2026, 11, 16, 2, 59, tzinfo=UTC), datetime(2026, 11, 16, 3, tzinfo=UTC)),
        (datetime(2026, 11, 16, 3, 0, tzinfo=UTC), datetime(2026, 11, 17, 3, tzinfo=UTC)),
        (datetime(2026, 12, 31, 23, 0, tzinfo=UTC), datetime(2027, 1, 1, 3, tzinfo=UTC)),
    ],
)
def test_the_next_night_is_the_first_such_hour_that_is_yet_to_come(
    after: datetime, expected: datetime
) -> None:
    assert next_night("03:00", after) == expected


@pytest.mark.parametrize(
    ("at", "first", "hours"),
    [
        ("03:00", datetime(2026, 3, 27, 12, tzinfo=OSLO), [23, 24, 24]),  # the 29th has 23 hours
        ("03:00", datetime(2026, 10, 23, 12, tzinfo=OSLO), [25, 24, 24]),  # the 25th has 25
        ("02:30", datetime(2026, 10, 23, 12, tzinfo=OSLO), [24, 25, 24]),  # which comes twice
    ],
)
def test_nights_follow_the_clock_on_the_wall(at: str, first: datetime, hours: list[int]) -> None:
    nights = [next_night(at, first)]
    for _ in hours:
        nights.append(next_night(at, nights[-1]))
    moments = [night.astimezone(UTC) for night in nights]
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    assert gaps == [timedelta(hours=count) for count in hours]
