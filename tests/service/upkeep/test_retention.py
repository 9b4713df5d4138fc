"""Slates leave the store, and histories, experiments, popularity and nights stay right."""

import json
from pathlib import Path

import polars as pl
import pytest

from slatewise.errors import SlatewiseError
from slatewise.service.analysis import Tally, as_json, report
from slatewise.service.logs import export_log, load_log
from slatewise.service.nights import schedule
from slatewise.service.serving.item_states import COUNTS, ItemStates
from slatewise.service.serving.items import ItemLog
from slatewise.service.settings import RetentionConfig, ServiceConfig
from slatewise.service.store import Store
from slatewise.service.store import retention as slices
from slatewise.service.store.clock import wall_clock
from slatewise.service.store.records import ItemState, Outcome, SlateRecord
from slatewise.service.upkeep import retention
from slatewise.service.upkeep.retention import expire
from tests.service.analysis.log import DAY, START, fill
from tests.service.serving.world import a_model

NOW = START + 12 * DAY
KEPT = RetentionConfig(days=9)
ARMS = ServiceConfig.model_validate({"arms": {"x": {}, "y": {}}})


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE", 7)


def fill_days(store: Store, days: int = 12, first: int = 0) -> None:
    """Ten users a day who see a slate, of our own and by others; some click, some say nothing."""
    rows = [
        (f"user-{user}" if user else None, "xy"[user % 2], day + user / 100, (None, True, False)[n])
        for day in range(first, days)
        for user in range(10)
        for n in [(day + user) % 3]
    ]
    fill(store, rows)
    searched = [
        SlateRecord(f"search-{day}", "ann", START + day * DAY, "search", ("a", "b", "c"))
        for day in range(first, days)
    ]
    seen = [Outcome(slate.slate_id, 2, ("b",), slate.time) for slate in searched]
    store.put_items([("a", "red", ItemState.SHOWN), ("b", "red", ItemState.SHOWN)])
    store.write(searched, seen)


def log_of(store: Store, file: Path, start: int = 0) -> pl.DataFrame:
    export_log(store, file, start=start)
    return pl.read_parquet(file).sort("time", "user_id")


def experiment(store: Store) -> str:
    tally = Tally()
    tally.read(store)
    return json.dumps(as_json(report(tally, ARMS, since=START, daily=True), {}))


def test_old_slates_leave_and_what_goes_by_them_stays_right(tmp_path: Path, store: Store) -> None:
    fill_days(store)
    newer = log_of(store, tmp_path / "log.parquet", START + 3 * DAY)
    reading, before, numbers = Tally(), experiment(store), store.seq()
    reading.read(store)
    report_ = expire(tmp_path, KEPT, store, NOW)
    assert (report_.slates, report_.archived, report_.held_back) == (33, 0, None)
    assert log_of(store, tmp_path / "log.parquet").equals(newer)
    assert len(store.history("ann", 100).visits) == 9
    assert store.slate("search-2") is None
    assert store.slate("search-3") is not None
    assert store.seq() == numbers
    assert experiment(store) == before
    reading.read(store)
    assert json.dumps(as_json(report(reading, ARMS, since=START, daily=True), {})) == before
    assert store.write([], [Outcome("search-2", 3, (), NOW)]) == ["unknown slate"]
    assert expire(tmp_path, KEPT, store, NOW).slates == 0


def test_what_experiments_count_goes_with_the_person_and_with_time(
    tmp_path: Path, store: Store
) -> None:
    fill_days(store)
    expire(tmp_path, KEPT, store, NOW)
    store.erase("user-1", NOW)
    gone = Tally()
    gone.read(store)
    # Anonymous users are one for each slate.
    assert sum(gone.slates(START, NOW).people().values()) == 8 + 12
    late = START + 92 * DAY + 2 * DAY
    store.write([SlateRecord("late", "ann", late, "search", ("a",))], [])
    expire(tmp_path, KEPT, store, late)
    rest = Tally()
    rest.read(store)
    assert min(rest.slates(0, NOW).time) == START + 2 * DAY


def test_a_clock_that_is_a_year_ahead_takes_no_more_than_a_day(
    tmp_path: Path, store: Store
) -> None:
    fill_days(store)
    newer = log_of(store, tmp_path / "log.parquet", START + 4 * DAY)
    report_ = expire(tmp_path, KEPT, store, NOW + 365 * DAY)
    assert log_of(store, tmp_path / "log.parquet", START + 4 * DAY).equals(newer)
    assert report_.before < START + 4 * DAY
    assert "ages count from a day after the newest slate, 2024-10-15T" in report_.words()


def test_an_archive_is_a_log_by_day_of_all_that_left(tmp_path: Path, store: Store) -> None:
    fill_days(store)
    older = log_of(store, tmp_path / "log.parquet").filter(
        pl.col("time").cast(pl.Int64) < START + 3 * DAY
    )
    settings = RetentionConfig(days=9, archive="old")
    report_ = expire(tmp_path, settings, store, NOW)
    assert (report_.slates, report_.archived) == (33, 33)
    files = sorted((tmp_path / "old" / "log").iterdir())
    assert [file.name for file in files] == [f"2024-10-0{day}.parquet" for day in (4, 5, 6)]
    raw = pl.read_parquet(tmp_path / "old" / "log" / "*.parquet")
    assert raw.select(older.columns).sort("time", "user_id").equals(older)
    ours = raw.filter(pl.col("serving").is_not_null())
    assert set(ours["serving"].str.json_decode(pl.Struct({"arm": pl.String})).struct[0]) == {
        "x",
        "y",
    }
    assert raw["shown"].list.len().max() == 3
    unanswered = pl.read_parquet(tmp_path / "old" / "unanswered" / "*.parquet")
    assert len(raw) + len(unanswered) == 33
    other = Store.open(f"sqlite:///{tmp_path / 'other.sqlite'}")
    other.put_items([("a", "red", ItemState.SHOWN)])
    assert load_log(tmp_path / "old" / "log", tmp_path, other).slates.new == len(older)
    assert log_of(other, tmp_path / "again.parquet").equals(older)
    other.close()


def test_killed_between_archive_and_deletion_nothing_is_archived_twice(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_days(store, 4)
    settings = RetentionConfig(days=1, archive=str(tmp_path / "old"))
    expire_slice, calls = Store.expire_slice, []

    def die(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return expire_slice(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "expire_slice", die)
    with pytest.raises(KeyboardInterrupt):
        expire(tmp_path, settings, store, START + 3 * DAY)
    # What comes late of a slate that is archived and not deleted yet is archived too.
    late = Outcome("search-1", None, ("c",), START + 2 * DAY)
    assert store.write([], [late]) == ["recorded"]
    expire(tmp_path, settings, store, START + 3 * DAY)
    raw = pl.read_parquet(tmp_path / "old" / "*" / "*.parquet")
    assert not raw.select("slate_id", "key").is_duplicated().any()
    assert raw["slate_id"].n_unique() == 22
    clicks = raw.filter(pl.col("slate_id") == "search-1")["click"].to_list()
    assert set(clicks[-1]) == {"b", "c"}


def test_an_outcome_that_comes_meanwhile_keeps_its_slate(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_days(store, 3)
    archive, late = retention._archive, Outcome("search-0", 3, ("c",), START)

    def answered(*arguments: object) -> int:
        count = archive(*arguments)  # type: ignore[arg-type]
        assert store.write([], [late]) in (["recorded"], ["duplicate"])
        return count

    monkeypatch.setattr(retention, "_archive", answered)
    settings = RetentionConfig(days=1, archive="old")
    assert expire(tmp_path, settings, store, START + 2 * DAY).slates == 10
    slate = store.slate("search-0")
    assert slate is not None
    assert set(store.history("ann", 9).visits[0].clicked) == {"b", "c"}


def test_what_a_version_has_not_counted_stays_until_it_has(tmp_path: Path, store: Store) -> None:
    fill_days(store, 3)
    terms, log = a_model(("popularity",)).terms, ItemLog()
    log.read(store)
    counted = ItemStates.of(terms, log, None)
    assert counted is not None
    counted.read(store)
    run = tmp_path / "models" / "main" / "1"
    run.mkdir(parents=True)
    counted.save(run)
    fill_days(store, 6, first=3)

    def features() -> list[list[float]]:
        states = ItemStates.of(terms, log, run)
        assert states is not None
        states.read(store)
        return states.by_name["popularity"].features(NOW).tolist()

    before = features()
    days = RetentionConfig(days=1)
    part = expire(tmp_path, days, store, START + 6 * DAY)
    assert part.held_back == "version 1 of main"
    assert "version 1 of main has not counted" in part.words()
    assert part.slates == 33
    assert features() == before
    later = ItemStates.of(terms, log, run)
    assert later is not None
    later.read(store)
    later.save(run)
    rest = expire(tmp_path, days, store, START + 6 * DAY)
    assert (rest.slates, rest.held_back) == (22, None)
    assert features() == before
    (run / COUNTS).write_text("damaged: it will be counted anew")
    assert expire(tmp_path, days, store, START + 6 * DAY).slates == 0


def test_slates_stay_for_as_long_as_nights_learn_from_them() -> None:
    settings = {"retention": {"days": 20}, "retraining": {"window_days": 28}}
    with pytest.raises(SlatewiseError, match=r"20 days \(retention\) and are learned from for 28"):
        ServiceConfig.build(settings, "the settings")


def test_a_night_lets_old_slates_leave_and_a_service_without_a_rule_keeps_them(
    tmp_path: Path, store: Store, store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    fill_days(store, 3)
    store.write([SlateRecord("now", "ann", wall_clock(), "search", ("a",))], [])
    settings = {"store": {"url": store_url}, "retention": {"days": 30}}
    schedule.train_quietly(tmp_path, ServiceConfig.model_validate({"store": {"url": store_url}}))
    assert "left the store" not in caplog.text
    schedule.train_quietly(tmp_path, ServiceConfig.model_validate(settings))
    assert "33 slates from before" in caplog.text
    with pytest.raises(SlatewiseError, match="how long slates stay"):
        expire(tmp_path, RetentionConfig(), store, NOW)
