from pathlib import Path
from typing import Any

import pytest

from slatewise.data.dataset import SlateDataset
from slatewise.experiments import days as loop
from slatewise.experiments.daily_log import FIRST_DAY, DailyLog, DaySlates
from slatewise.experiments.days import run_days
from slatewise.experiments.online import Arm
from slatewise.experiments.store import Tables, plain
from tests.experiments.worlds import bench, small

ARMS = [Arm("slate-gru-hier"), Arm("slate-gru-hier", "thompson"), Arm("slate-linear-hier")]
DAY = 86_400_000_000


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return run_days(small(), 0, ARMS, 3, bench(tmp_path_factory.mktemp("days")))


def test_every_arm_has_a_row_for_every_day(tables: Tables) -> None:
    expected = [(arm.name, day) for day in range(3) for arm in ARMS]
    assert [(row["arm"], row["day"]) for row in tables["shown"]] == expected
    assert [(row["arm"], row["day"]) for row in tables["slates"]] == expected


def test_counts_add_up(tables: Tables) -> None:
    for shown, slates in zip(tables["shown"], tables["slates"], strict=True):
        assert sum(shown["served"]) == slates["slates"]
        assert (shown["clicks"] <= shown["served"]).all()
        assert ((shown["served"] == 0) | (shown["served"] == shown["slates"])).all()
        assert (shown["slates"] >= 1).all()
        assert (shown["expected"] > 0).all()
        assert (shown["expected"] < shown["slates"]).all()
        assert len(set(shown["users"])) == len(shown["users"])


def test_no_user_is_served_by_two_arms_and_all_arms_are_judged_on_all_users(
    tables: Tables,
) -> None:
    served = [
        {
            int(user)
            for row in tables["shown"]
            if row["arm"] == arm.name
            for user in row["users"][row["served"] > 0]
        }
        for arm in ARMS
    ]
    assert sum(map(len, served)) == len(set.union(*served))
    for day in range(3):
        rows = [row for row in tables["shown"] if row["day"] == day]
        assert all((row["users"] == rows[0]["users"]).all() for row in rows)
        assert all((row["slates"] == rows[0]["slates"]).all() for row in rows)


def test_arms_with_the_same_model_share_it(tables: Tables) -> None:
    nights = [(row["day"], row["variant"]) for row in tables["nights"]]
    assert nights == [(d, v) for d in range(3) for v in ("slate-gru-hier", "slate-linear-hier")]


def test_the_same_seed_gives_the_same_numbers(tables: Tables, tmp_path: Path) -> None:
    again = run_days(small(), 0, ARMS, 3, bench(tmp_path / "again"))
    assert plain(again) == plain(tables)
    other = run_days(small(), 1, ARMS[:1], 1, bench(tmp_path / "other"))
    assert plain(other["shown"][0]["users"]) != plain(tables["shown"][0]["users"])


def test_models_that_serve_have_learned_from_the_past_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    read: list[tuple[int, int]] = []
    starts: list[Any] = []
    retrain = loop.retrain

    def spy(config: Any, models: Any, variant: str, dataset: SlateDataset, *rest: Any) -> Any:
        ends = int(dataset.times.min()), int(dataset.times.max())
        read.append(tuple(time // DAY - FIRST_DAY for time in ends))
        starts.append(models.get(variant))
        made.append(retrain(config, models, variant, dataset, *rest))
        return made[-1]

    made: list[Any] = []
    monkeypatch.setattr(loop, "retrain", spy)
    run_days(small(), 0, ARMS[:1], 3, bench(tmp_path / "spied"))
    assert read == [(-4, -1), (-3, 0), (-2, 1)]
    assert starts == [None, *made[:2]]


def test_a_poisoned_day_changes_nothing_until_the_night_after_it(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record = DailyLog.record

    def poison(log: DailyLog, day: int, met: DaySlates) -> None:
        record(log, day, met.only(met.searched) if day == 1 else met)

    monkeypatch.setattr(DailyLog, "record", poison)
    poisoned = plain(run_days(small(), 0, ARMS, 3, bench(tmp_path / "poisoned")))
    for name in ("shown", "slates", "nights"):
        for now, then in zip(poisoned[name], plain(tables)[name], strict=True):
            if now["day"] <= 1:
                assert now == then
    last = [(found["nights"][-1]["interactions"]) for found in (poisoned, tables)]
    assert last[0] < last[1]


def test_lost_searches_are_missing_from_what_the_nights_read(tmp_path: Path) -> None:
    found = run_days(small(window=2), 0, ARMS[:1], 5, bench(tmp_path / "lost"), lost=range(1, 2))
    shares = {row["day"]: row["search_share"] for row in found["nights"]}
    assert all(shares[day] < 0.75 for day in (2, 3))
    assert all(shares[day] > 0.75 for day in (0, 1, 4))
