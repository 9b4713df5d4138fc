"""Nights of a running service: at the time, beside the workers, and ended with them."""

import multiprocessing
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from slatewise.service.nights import schedule
from slatewise.service.nights.schedule import NightlyTraining, next_night
from slatewise.service.settings import ServiceConfig
from slatewise.service.store import Store, erasure
from slatewise.service.store.records import SlateRecord

OSLO = ZoneInfo("Europe/Oslo")


def eventually(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def nightly(at: str | None) -> ServiceConfig:
    return ServiceConfig.model_validate({"retraining": {"at": at}})


def test_training_starts_every_day_at_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [datetime(2026, 5, 17, 2, 59, tzinfo=UTC)]
    nights: list[datetime] = []
    looks: list[int] = []

    def clock() -> datetime:
        looks.append(1)
        return now[0]

    monkeypatch.setattr(schedule, "LOOK", 0.001)
    monkeypatch.setattr(schedule, "_now", clock)
    monkeypatch.setattr(NightlyTraining, "_train", lambda self: nights.append(now[0]))
    thread = NightlyTraining(tmp_path, nightly("03:00"))
    thread.start()

    def look_twice() -> None:
        seen = len(looks)
        eventually(lambda: len(looks) >= seen + 4)

    look_twice()
    assert not nights
    for day in range(3):
        for minutes in (1, 2, 30):
            now[0] = datetime(2026, 5, 17 + day, 2, 59, tzinfo=UTC) + timedelta(minutes=minutes)
            look_twice()
    changes, look_ahead = list[int](), thread._next

    def noted() -> tuple[str | None, datetime | None]:
        changes.append(1)
        return look_ahead()

    monkeypatch.setattr(thread, "_next", noted)
    thread.follow(nightly(None))
    eventually(lambda: changes)  # from here on it does not look at the clock
    now[0] = datetime(2026, 5, 20, 4, 1, tzinfo=UTC)
    thread.follow(nightly("04:00"))
    eventually(lambda: len(changes) > 1)
    look_twice()
    now[0] += timedelta(days=1)
    look_twice()
    thread.end()
    assert [(night.day, night.hour, night.minute) for night in nights] == [
        (17, 3, 0),
        (18, 3, 0),
        (19, 3, 0),
        (21, 4, 1),  # none on the 20th: 03:00 was called off, and 04:00 had passed
    ]


def test_a_clock_that_was_a_year_ahead_for_a_moment_calls_no_night_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [datetime(2026, 5, 17, 2, 0)]
    nights: list[datetime] = []
    looks: list[int] = []

    def clock() -> datetime:
        looks.append(1)
        return now[0]

    def look_twice() -> None:
        seen = len(looks)
        eventually(lambda: len(looks) >= seen + 4)

    monkeypatch.setattr(schedule, "LOOK", 0.001)
    monkeypatch.setattr(schedule, "_now", clock)
    monkeypatch.setattr(NightlyTraining, "_train", lambda self: nights.append(now[0]))
    thread = NightlyTraining(tmp_path, nightly("03:00"))
    thread.start()
    right = [
        datetime(2026, 5, 17, 2, 30),
        datetime(2026, 5, 17, 2, 40),
        datetime(2026, 5, 18, 3, 1),
    ]
    for moment in (datetime(2027, 5, 17, 2, 10), *right):
        now[0] = moment
        look_twice()
    thread.end()
    assert nights == [datetime(2027, 5, 17, 2, 10), right[-1]]


def test_a_training_under_way_is_ended_with_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In another process: an empty store has nothing to train on, so it ends by itself too.
    monkeypatch.setattr(schedule, "LOOK", 0.001)
    times = iter([datetime(2026, 5, 17, 2, 59, tzinfo=UTC)])
    late = datetime(2026, 5, 17, 3, 1, tzinfo=UTC)
    monkeypatch.setattr(schedule, "_now", lambda: next(times, late))
    thread = NightlyTraining(tmp_path, nightly("03:00"))
    thread.start()
    eventually(_children)
    start = time.monotonic()
    thread.end()
    assert time.monotonic() - start < 30
    assert not _children()


def test_a_night_without_a_log_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    schedule.train_quietly(tmp_path, ServiceConfig())
    assert "Night: main" in caplog.text
    assert "enough" in caplog.text
    caplog.clear()
    broken = ServiceConfig.model_validate({"store": {"url": "sqlite:////no/such/place/store"}})
    schedule.train_quietly(tmp_path, broken)
    assert "not possible" in caplog.text


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


def _children() -> list[object]:
    return list(multiprocessing.active_children())


@pytest.mark.parametrize("rewrite", [True, False])
def test_a_night_writes_the_file_anew_only_where_it_may(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    rewrite: bool,
) -> None:
    monkeypatch.setattr(erasure, "SMALL", 0)
    config = ServiceConfig.build({"retention": {"rewrite": rewrite}}, "a test")
    store = Store.open(config.store_url(tmp_path))
    store.write([SlateRecord("s", "anna", 5, "search", ("a",))], [])
    store.erase("anna", 9)
    with caplog.at_level("INFO"):
        schedule.train_quietly(tmp_path, config)
    assert store.has_traces is not rewrite
    assert ("slatewise repair" in caplog.text) is not rewrite
    store.close()
