from pathlib import Path

import numpy as np
import polars as pl
import pytest

from slatewise.experiments.daily_log import SOURCES, DaySlates
from slatewise.experiments.platform import MOMENTS, Platform, ServingPolicy
from tests.experiments.worlds import market, platform


def policies(where: Platform, arms: int = 3) -> list[ServingPolicy]:
    return [where.usual("random")] * arms


def served(where: Platform, days: int) -> list[DaySlates]:
    where.warm_up()
    return [where.day(day, policies(where)) for day in range(days)]


def test_arms_have_equal_shares_of_the_users(tmp_path: Path) -> None:
    counts = np.bincount(platform(tmp_path).population.arm, minlength=3)
    assert counts.max() - counts.min() <= 1


def test_a_share_is_drawn_by_chance_and_not_by_arrival(tmp_path: Path) -> None:
    where = platform(tmp_path, users=3_000)
    arrivals = [where.population.arrival[where.population.arm == arm].mean() for arm in range(3)]
    # The standard error of such a mean is 5 / √2,800 ≈ 0.1 days.
    assert max(arrivals) - min(arrivals) < 0.5


def test_users_stay_in_their_arm(tmp_path: Path) -> None:
    where = platform(tmp_path)
    served(where, 6)
    log = pl.concat(where.log.days.values())
    arms = log.group_by("user_id").agg(pl.col("arm").n_unique())
    assert arms["arm"].max() == 1
    assert (log["arm"].to_numpy() == where.population.arm[log["user_id"].to_numpy()]).all()


def test_as_many_people_are_there_on_every_day(tmp_path: Path) -> None:
    where = platform(tmp_path, users=2_000, days=30)
    present = [len(where.population.present(day)) for day in range(-4, 30)]
    # Binomial: 2,000 ± 4 · √2,000.
    assert all(abs(count - 2_000) < 180 for count in present)


def test_some_users_are_new_every_day_and_others_have_left(tmp_path: Path) -> None:
    population = platform(tmp_path).population
    for day in range(7):
        today, tomorrow = set(population.present(day)), set(population.present(day + 1))
        assert tomorrow - today
        assert today - tomorrow


def test_users_take_their_state_and_history_along(tmp_path: Path) -> None:
    where = platform(tmp_path)
    met = served(where, 6)
    users = where.population.users
    log = pl.concat(where.log.days.values()).sort("user_id", "time")
    for (user,), rows in log.group_by("user_id"):
        clicks = rows["click"].fill_null(-1).to_list()
        assert users.history[user, : users.steps[user]].tolist() == clicks
    assert sum(len(day.user) for day in met) > 0


def test_every_slate_that_was_met_is_a_row_of_the_log(tmp_path: Path) -> None:
    where = platform(tmp_path)
    for day, met in enumerate(served(where, 4)):
        rows = where.log.days[day]
        assert rows.height == len(met.user)
        assert (rows["source"] == "search").sum() == met.searched.sum()
        assert rows["click"].count() == (met.clicks >= 0).sum()
        assert (rows["slate"].list.len().to_numpy() == met.scroll).all()
        shown = [slate[:seen].tolist() for slate, seen in zip(met.slates, met.scroll, strict=True)]
        assert rows["slate"].to_list() == shown


def test_histories_hold_what_was_seen_and_when(tmp_path: Path) -> None:
    where = platform(tmp_path)
    served(where, 1)
    log = pl.concat(where.log.days.values()).sort("user_id", "time")
    for (user,), rows in log.group_by("user_id"):
        (known,) = where.memory.histories(np.array([user]))
        assert known.items.tolist() == rows["slate"].explode().to_list()
        assert known.times.tolist() == rows["time"].cast(pl.Int64).to_list()
        assert known.clicked.tolist() == rows["click"].drop_nulls().to_list()
        assert [SOURCES[one] for one in known.sources] == rows["source"].to_list()


def test_people_come_at_moments_of_the_day_and_never_twice_at_one(tmp_path: Path) -> None:
    where = platform(tmp_path, users=400)
    met = where.day(0, policies(where))
    hours = (met.time - where.log.time(where.log.hours(0))) / 3_600_000_000
    assert (np.diff(hours) >= 0).all()
    assert set(hours) == {24 * (moment + 0.5) / MOMENTS for moment in range(MOMENTS)}
    assert len(set(zip(met.user, met.time, strict=True))) == len(met.user)
    # A Poisson number of slates for each: 1.4 ± 4 · √(1.4 / 400).
    assert abs(len(met.user) / len(where.population.present(0)) - 1.4) < 0.24


def test_arms_are_judged_on_the_same_users_at_the_same_moment(tmp_path: Path) -> None:
    where = platform(tmp_path, arms=2)
    where.warm_up()
    met = where.day(0, [where.usual("random"), where.usual("promoted")])
    shown = met.only(~met.searched)
    assert np.isnan(met.judged[met.searched]).all()
    assert ((shown.judged > 0) & (shown.judged < 1)).all()
    assert (shown.judged[:, 0] != shown.judged[:, 1]).all()


def test_chance_is_the_same_whatever_an_arm_shows(tmp_path: Path) -> None:
    days = []
    for name in ("random", "promoted"):
        (tmp_path / name).mkdir()
        where = platform(tmp_path / name, arms=1)
        where.warm_up()
        days += [[where.day(day, [where.usual(name)]) for day in range(3)]]
    for one, other in zip(*days, strict=True):
        for column in ("user", "time", "scroll", "searched"):
            assert (getattr(one, column) == getattr(other, column)).all()
        assert (one.slates != other.slates).any()


def test_training_reads_the_last_days_before_the_day(tmp_path: Path) -> None:
    where = platform(tmp_path)
    served(where, 5)
    assert where.log.before(3)["day"].unique().sort().to_list() == [-1, 0, 1, 2]
    rows = sum(where.log.days[day].height for day in range(-1, 3))
    assert where.log.dataset(3).num_interactions == rows


def test_what_is_yet_to_come_changes_nothing_that_training_reads(tmp_path: Path) -> None:
    where = platform(tmp_path)
    served(where, 5)
    before = where.log.dataset(3).content_hash
    for day in (3, 4):  # today and tomorrow
        where.log.days[day] = where.log.days[day].with_columns(
            pl.lit(None, dtype=pl.Int64).alias("click"), pl.lit("poison").alias("source")
        )
    assert where.log.dataset(3).content_hash == before
    where.log.days[2] = where.log.days[2].with_columns(pl.lit("poison").alias("source"))
    assert where.log.dataset(3).content_hash != before


def test_searches_of_a_lost_day_are_met_and_not_recorded(tmp_path: Path) -> None:
    where = platform(tmp_path)
    where.warm_up()
    steps = where.population.users.steps.copy()
    lost = where.day(0, policies(where), lost=True)
    kept = where.day(1, policies(where))
    assert lost.searched.sum() > 0
    assert (lost.clicks[lost.searched] >= 0).sum() > 0
    assert where.log.days[0]["source"].unique().to_list() == ["recommendation"]
    assert where.log.days[0].height == (~lost.searched).sum()
    assert set(where.log.days[1]["source"]) == {"search", "recommendation"}
    met = np.bincount([*lost.user, *kept.user], minlength=len(steps))
    assert (where.population.users.steps - steps == met).all()


def test_a_lost_search_is_in_no_history(tmp_path: Path) -> None:
    where = platform(tmp_path)
    where.day(0, policies(where), lost=True)
    recorded = {
        (row["user_id"], row["click"])
        for row in where.log.days[0].drop_nulls("click").iter_rows(named=True)
    }
    everybody = np.arange(len(where.population))
    known = where.memory.histories(everybody)
    assert {(user, item) for user in everybody for item in known[user].clicked} == recorded
    assert all((one.sources == SOURCES.index("recommendation")).all() for one in known)


@pytest.mark.parametrize("day", [1, 2, 3, 4])
def test_a_lost_day_is_absent_while_it_is_in_the_window(tmp_path: Path, day: int) -> None:
    where = platform(tmp_path)
    where.warm_up()
    for number in range(5):
        where.day(number, policies(where), lost=number == 0)
    lost = where.log.before(day).filter(pl.col("day") == 0)
    assert lost.height > 0
    assert (lost["source"] == "recommendation").all()
    assert (where.log.before(5)["source"] == "search").sum() > 0
    assert 0 not in where.log.before(5)["day"]


def test_the_same_seed_gives_the_same_days(tmp_path: Path) -> None:
    logs = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        where = platform(tmp_path / name)
        served(where, 2)
        logs.append(pl.concat(where.log.days.values()))
    assert logs[0].equals(logs[1])


def test_nights_read_the_groups_that_the_items_table_tells(tmp_path: Path) -> None:
    told = platform(tmp_path, simulation={"catalogue": {"mislabelled": 1.0}})
    groups = told.log.items["group"].to_list()
    assert groups == [f"group-{group:03d}" for group in told.market.listed_groups]
    assert (told.market.listed_groups != told.market.catalogue.group).mean() > 0.5


def test_where_items_come_and_go_nothing_is_shown_before_or_after_its_time(tmp_path: Path) -> None:
    where = market(tmp_path)
    life = where.market.life
    assert life is not None
    where.warm_up()
    for day in range(2):
        met = where.day(day, [where.usual("front-page")])
        hours = (met.time - where.log.time(0.0)) / 3_600_000_000
        assert life.alive(met.slates, hours).all()
        assert met.searched.any()


def test_a_longer_study_has_more_items_and_as_many_at_a_time(tmp_path: Path) -> None:
    where = market(tmp_path, days=26, window=4)
    assert where.market.config.days == 30
    alive = where.market.config.alive
    assert alive == pytest.approx(100, rel=0.01)
    assert where.market.catalogue.items == pytest.approx(alive * (30 + 2) / 2, abs=1)


def test_a_night_learns_of_the_items_that_were_on_offer_in_its_window(tmp_path: Path) -> None:
    where = market(tmp_path)
    where.warm_up()
    life = where.market.life
    assert life is not None
    first, last = where.log.hours(-4), where.log.hours(0)
    offered = (life.published < last) & (life.published + 48 > first)
    assert where.log.dataset(0).item_ids.to_list() == np.flatnonzero(offered).tolist()
    assert 0 < offered.sum() < len(offered)


def test_some_groups_have_no_items_at_first(tmp_path: Path) -> None:
    where = market(tmp_path)
    life, group = where.market.life, where.market.catalogue.group
    assert life is not None
    first = [life.published[group == number].min() for number in range(10)]
    assert sum(hour > 24 for hour in first) in range(1, 6)
