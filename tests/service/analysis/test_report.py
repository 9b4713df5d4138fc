import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from slatewise.errors import SlatewiseError
from slatewise.evaluation.ab import click_rate, compare
from slatewise.evaluation.arms import arm_totals
from slatewise.evaluation.sequential import Verdict
from slatewise.service.analysis import Tally, overview, report
from slatewise.service.settings import ArmConfig, ServiceConfig
from slatewise.service.store import Store
from slatewise.service.store.records import ItemState
from tests.service.analysis.log import DAY, START, fill

CONFIG = ServiceConfig(
    arms={"old": ArmConfig(share=2), "new": ArmConfig(strategy="greedy", share=1)}
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """One kind of store will do: what is read is tested with both elsewhere."""
    opened = Store.open(f"sqlite:///{tmp_path}/store.sqlite")
    yield opened
    opened.close()


def experiment(store: Store, users: int, old: float, new: float, days: float = 10) -> None:
    """Users of two arms, each with one to four slates."""
    rng = np.random.default_rng(0)
    rows = [("first", "old", 0.0, False), ("second", "new", 0.0, False)]
    for user in range(users):
        arm, rate = ("old", old) if user % 3 else ("new", new)
        for day in np.sort(rng.random(rng.integers(1, 5))) * days:
            rows.append((f"u{user}", arm, float(day), bool(rng.random() < rate)))
    fill(store, sorted(rows, key=lambda row: row[2]))


def read(store: Store) -> Tally:
    tally = Tally()
    tally.read(store)
    return tally


def test_rates_and_comparisons_are_those_of_the_users_of_the_log(store: Store) -> None:
    rng, rows = np.random.default_rng(3), []
    for _ in range(400):
        user = int(rng.integers(60))
        rows.append((f"u{user}", ("old", "new")[user % 2], 1.0, bool(rng.random() < 0.3)))
    fill(store, rows)
    users, arms, _, clicks = (np.array(column) for column in zip(*rows, strict=True))
    wanted = arm_totals(users, arms, clicks.astype(np.int64), np.ones(len(rows), dtype=np.int64))
    found = report(read(store), CONFIG)
    assert list(found.arms) == ["old", "new"]
    for name, arm in found.arms.items():
        assert arm.rate.low == pytest.approx(click_rate(wanted[name]).low)
        assert (arm.users, arm.slates) == (30, (arms == name).sum())
    versus, expected = found.arms["new"].versus, compare(wanted["new"], wanted["old"])
    assert versus is not None
    assert versus.lift.high == pytest.approx(expected.lift.high)
    assert found.arms["old"].versus is None
    assert sum(arm.best for arm in found.arms.values()) == pytest.approx(1)


def test_a_better_arm_is_found_and_said_to_be(store: Store) -> None:
    experiment(store, 1_200, 0.1, 0.3)
    found = report(read(store), CONFIG)
    advice = found.arms["new"].advice
    assert advice is not None
    assert advice.verdict is Verdict.BETTER
    assert advice.worth == pytest.approx(0.05 * found.arms["old"].rate.value)
    assert found.assignment.problem is None
    assert report(read(store), CONFIG, reference="new").arms["old"].advice is not None


def test_arms_against_one_reference_share_what_may_go_wrong(store: Store) -> None:
    experiment(store, 900, 0.1, 0.12)
    alone = report(read(store), CONFIG).arms["new"].advice
    three = CONFIG.changed(arms={**CONFIG.model_dump()["arms"], "third": {}})
    beside = report(read(store), three).arms["new"].advice
    assert alone is not None
    assert beside is not None
    assert beside.difference.low < alone.difference.low


def test_the_comparison_begins_with_the_youngest_running_arm_unless_said(store: Store) -> None:
    early = [(f"e{n}", "old", 0.0, True) for n in range(50)]
    fill(store, [*early, ("ann", "new", 5.0, False), ("bob", "old", 6.0, False)])
    found = report(read(store), CONFIG)
    assert found.start == START + 5 * DAY
    assert found.arms["old"].slates == 1
    assert found.days == pytest.approx(1)
    assert report(read(store), CONFIG, since=START).arms["old"].slates == 51
    assert report(read(store), CONFIG, since=START, until=START + DAY).arms["new"].slates == 0


def test_every_day_has_its_own_rates(store: Store) -> None:
    fill(store, [("ann", "old", 0.1, True), ("bob", "new", 0.2, False), ("ann", "old", 1.1, False)])
    found = report(read(store), CONFIG, since=START, daily=True)
    assert list(found.daily) == [20_000, 20_001]
    assert {name: rate.value for name, rate in found.daily[20_000].items()} == {"old": 1, "new": 0}
    assert list(found.daily[20_001]) == ["old"]


def test_an_arm_that_only_the_log_has_is_shown_and_an_unknown_reference_refused(
    store: Store,
) -> None:
    fill(store, [("ann", "old", 0, True), ("bob", "gone", 0, True)])
    found = report(read(store), CONFIG)
    assert list(found.arms) == ["old", "new", "gone"]
    assert found.arms["gone"].settings is None
    assert math.isnan(found.arms["new"].rate.value)
    with pytest.raises(SlatewiseError, match="no arm 'nothing'"):
        report(read(store), CONFIG, reference="nothing")


def test_an_overview_is_json_and_follows_what_is_written(store: Store) -> None:
    empty = overview(store, CONFIG)
    assert empty["arms"]["old"]["click_rate"]["value"] is None
    store.put_items([(item, "g", ItemState.SHOWN) for item in "abcd"])
    experiment(store, 600, 0.1, 0.2)
    found = overview(store, CONFIG)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    old = found["arms"]["old"]
    assert (old["share"], old["strategy"], old["users"]) == (2, "in-slate-thompson", 401)
    assert old["diversity"]["coverage"] == 0.5
    assert old["diversity"]["groups"] == 1
    assert found["arms"]["new"]["advice"]["words"].split(":")[0] in ("stop", "go on")
    fill(store, [("late", "old", 11, True)])
    assert overview(store, CONFIG)["arms"]["old"]["users"] == 402


def test_the_comparison_begins_anew_when_users_were_moved_and_says_so_if_it_does_not(
    store: Store,
) -> None:
    fill(store, [("ann", "old", 0, True), ("bob", "new", 0, True), ("ann", "new", 2, True)])
    found = report(read(store), CONFIG)
    assert (found.start, found.changed) == (START + 2 * DAY, 0)
    assert report(read(store), CONFIG, since=START).changed == 1
