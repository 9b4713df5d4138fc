"""A service answers everybody, from what is so at that moment."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from slatewise.errors import SlatewiseError
from slatewise.service.serving import Request, Service
from slatewise.service.settings import ServiceConfig
from slatewise.service.store import Store
from slatewise.service.store.records import Item, ItemState, Outcome, SlateRecord, StoredVisits
from slatewise.slates import Recommender, Seen
from tests.service.serving.world import (
    COLD,
    ITEMS,
    TERMS,
    a_model,
    a_service,
    promote,
    put,
    some_visits,
    visit,
)

ALL = {f"a{number:02d}" for number in range(ITEMS)}


def config(**values: Any) -> ServiceConfig:
    return ServiceConfig.build(values, "a test")


GREEDY = config(arms={"main": {"strategy": "greedy"}})


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Service:
    """A service that tests only ask."""
    return a_service(tmp_path_factory.mktemp("service"), a_model())


def slate(service: Service, user: str | None = None, **asked: Any) -> tuple[str, ...]:
    return service.recommend(Request(user, **asked))[0].items


def test_a_slate_is_what_the_recommender_makes_of_the_history(tmp_path: Path) -> None:
    service = a_service(tmp_path, a_model(("bias", "history"), ("search",)))
    visit(service, "ann", ["a01", "a02", "a03"], ["a02"], "search")
    visit(service, "ann", ["a04", "a05"], [], "search")
    visit(service, "ann", ["a06", "a07"], [], "recommendation")
    recommender = Recommender.load(tmp_path / "a-run")
    events = [
        Seen(["a01", "a02", "a03"], ["a02"], "search"),
        Seen(["a04", "a05"], source="search"),
        Seen(["a06", "a07"], source="recommendation"),
        "a50",
    ]
    for seed in range(20):
        expected = recommender.recommend(events, 8, exclude=["a10"], seed=seed)
        asked = Request("ann", clicks=("a50",), k=8, exclude=("a10",), seed=seed)
        assert service.recommend(asked)[0].items == tuple(expected.items)


def test_a_record_tells_how_the_slate_came_about(service: Service) -> None:
    record, made, notes = service.recommend(Request("ann", clicks=("a03",), k=4, source="mail"))
    assert record.items == tuple(made.items)
    assert (record.user_id, record.source) == ("ann", "mail")
    serving = record.serving
    assert serving is not None
    assert (serving.arm, serving.model, serving.version, serving.k) == ("main", "main", "1", 4)
    assert serving.strategy == "in-slate-thompson draws=12"
    assert serving.seed == made.seed
    assert serving.catalogue == ITEMS
    assert serving.request == {"clicked": "exclude", "clicks": ["a03"], "history": 200}
    assert serving.propensities is None
    assert notes == [COLD]


def test_arms_that_draw_and_hardly_explore_are_named(tmp_path: Path) -> None:
    settings = {"arms": {"sure": {"strategy": "greedy"}, "curious": {"strategy": "thompson"}}}
    config = ServiceConfig.build(settings, "test")
    assert a_service(tmp_path / "whole", a_model(), config).weak_exploration() == []
    model = a_model()
    model.posterior.config = model.config.model_copy(update={"temperature": 0.1})
    (note,) = a_service(tmp_path / "weak", model, config).weak_exploration()
    assert note == f"Arm curious: {model.exploration_note}"
    assert "hardly explores" in note
    assert "temperature = 1" in note


def test_records_differ_and_can_be_written(service: Service) -> None:
    records = [service.recommend(Request())[0] for _ in range(50)]
    assert len({record.slate_id for record in records}) == 50
    assert [record.time for record in records] == sorted({record.time for record in records})
    service.store.write(records, [])
    assert service.store.slate(records[7].slate_id) == records[7]
    assert records[0].source == "recommendation"


def test_without_a_seed_slates_differ_and_with_one_they_do_not(service: Service) -> None:
    assert len({slate(service, k=5) for _ in range(5)}) > 1
    assert len({slate(service, k=5, seed=3) for _ in range(5)}) == 1


def test_cold_and_nameless_users_get_slates(service: Service) -> None:
    for user in (None, "never seen"):
        assert len(set(slate(service, user, k=9))) == 9


def test_what_a_user_clicked_is_not_shown_again_unless_asked_for(tmp_path: Path) -> None:
    service = a_service(tmp_path, a_model())
    visit(service, "ann", ["a01", "a02"], ["a02"])
    assert set(slate(service, "ann", k=100)) == ALL - {"a02"}
    assert set(slate(service, "ann", k=100, clicked="show")) == ALL
    assert set(slate(service, "ann", k=100, clicks=("a09",))) == ALL - {"a02", "a09"}


def test_unknown_clicks_are_named_and_do_no_harm(service: Service) -> None:
    made = service.recommend(Request("bob", clicks=("a01", "nothing", "nothing"), k=3))[1]
    assert made.unknown == ["nothing"]
    assert len(made) == 3


def test_of_many_clicks_the_newest_count_and_cost_little(service: Service) -> None:
    clicks = tuple(f"a{number % 50:02d}" for number in range(10_000))
    record, _, notes = service.recommend(Request(clicks=clicks, seed=5))
    assert "of 10,000 clicks only the last 200 count" in notes
    assert record.serving is not None
    assert record.serving.request["clicks"] == list(clicks[-200:])
    few, _, silent = service.recommend(Request(clicks=clicks[-200:], seed=5))
    assert (few.items, silent) == (record.items, [COLD])
    times = []
    for _ in range(3):
        start = time.thread_time()
        service.recommend(Request(clicks=clicks))
        times.append(time.thread_time() - start)
    assert min(times) < 0.02


def test_filters_hold(service: Service) -> None:
    few = ("a01", "a02", "a03", "unknown")
    assert set(slate(service, allow=few, k=10)) == set(few) - {"unknown"}
    assert set(slate(service, allow=few, exclude=("a02", "unknown"), k=10)) == {"a01", "a03"}
    assert slate(service, allow=("unknown",)) == ()
    assert slate(service, allow=()) == ()
    for groups in ({"red": 2, "green": 0, "blue": 3}, 3):
        made = service.recommend(Request(groups=groups, k=30))[1]
        caps = dict.fromkeys(("red", "green", "blue"), 3) if isinstance(groups, int) else groups
        assert dict(Counter(made.groups)) == {g: most for g, most in caps.items() if most}


def test_a_cap_on_a_group_that_is_not_there_is_noted(service: Service) -> None:
    notes = service.recommend(Request(groups={"violet": 2}, k=5))[2]
    assert notes == ["there is no group 'violet'", COLD]


def test_more_than_there_is_is_all_there_is(service: Service) -> None:
    assert set(slate(service, k=10_000)) == ALL


@pytest.mark.parametrize(
    ("asked", "problem"),
    [({"k": 0}, "0 items"), ({"groups": {"red": -1}}, "-1 items"), ({"seed": -4}, "seed")],
)
def test_what_cannot_be_is_refused_in_words(
    service: Service, asked: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SlatewiseError, match=problem):
        service.recommend(Request(**asked))


def test_feedback_counts_in_the_next_slate(tmp_path: Path) -> None:
    service = a_service(tmp_path, a_model(), GREEDY)
    before = slate(service, "ann", k=5)
    visit(service, "ann", [before[0], before[1]], [before[0]])
    after = slate(service, "ann", k=5)
    assert before[0] not in after
    assert after == slate(service, "bob", k=5, clicks=(before[0],))
    assert slate(service, "carl", k=5) == before


def test_a_history_is_read_once_and_again_when_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, asked = a_service(tmp_path, a_model(), config(cache_seconds=1000)), []
    read = Store.history

    def counting(self: Store, user_id: str, *given: Any) -> StoredVisits:
        asked.append(user_id)
        return read(self, user_id, *given)

    monkeypatch.setattr(Store, "history", counting)
    for user in ("ann", "ann", "bob", "ann"):
        slate(service, user)
    assert asked == ["ann", "bob"]
    service.changed_users(["ann"])
    slate(service, "ann")
    slate(service, "bob")
    assert asked == ["ann", "bob", "ann"]


def test_a_change_while_a_history_is_read_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, read = a_service(tmp_path, a_model(), config(cache_seconds=1000)), Store.history

    def slow(self: Store, *given: Any) -> StoredVisits:
        found = read(self, *given)
        monkeypatch.setattr(Store, "history", read)
        visit(service, "ann", ["a02"], ["a02"])
        return found

    monkeypatch.setattr(Store, "history", slow)
    assert "a02" in slate(service, "ann", k=100)
    assert "a02" not in slate(service, "ann", k=100)


def test_a_change_while_items_are_read_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, read = a_service(tmp_path, a_model()), Store.item_changes

    def slow(self: Store, *given: Any) -> list[Item]:
        found = read(self, *given)
        monkeypatch.setattr(Store, "item_changes", read)
        put(service, "second")
        return found

    monkeypatch.setattr(Store, "item_changes", slow)
    put(service, "first")
    assert "second" not in slate(service, k=100)
    assert {"first", "second"} <= set(slate(service, k=100))


def test_an_old_history_is_read_again_untold(tmp_path: Path) -> None:
    """Workers on other hosts share no stamps."""
    service = a_service(tmp_path, a_model(), config())
    service._users._seconds = 0.0  # as in a store that hosts share
    assert "a02" in slate(service, "ann", k=100)
    other = a_service(tmp_path, None, config())
    service.store.write(*_a_click("ann", "a02"))
    assert "a02" not in slate(service, "ann", k=100)
    assert "a02" not in slate(other, "ann", k=100)


def _a_click(user: str, item: str) -> tuple[list[Any], list[Any]]:
    slates = [SlateRecord(f"{user}-{item}", user, 10**15, "search", (item,))]
    return slates, [Outcome(f"{user}-{item}", None, (item,), 10**15)]


def test_only_so_many_users_are_remembered(tmp_path: Path) -> None:
    service = a_service(tmp_path, a_model(), config(cache_users=3))
    for number in range(10):
        slate(service, f"u{number}")
    assert list(service._users._users) == ["u7", "u8", "u9"]


def test_items_come_and_go_with_the_next_request(tmp_path: Path) -> None:
    service = a_service(tmp_path, a_model())
    put(service, "new", group="violet")
    assert set(slate(service, k=100)) == ALL | {"new"}
    put(service, "a01", "new", state="hidden")
    assert set(slate(service, k=100)) == ALL - {"a01"}
    service.store.remove_items(["a02"])
    service.changed_items()
    assert set(slate(service, k=100)) == ALL - {"a01", "a02"}
    put(service, "a01", "a02")
    assert set(slate(service, k=100)) == ALL


def test_items_change_untold_after_a_look(tmp_path: Path) -> None:
    service = a_service(tmp_path, a_model())
    service.store.put_items([("new", "red", ItemState.SHOWN)])
    assert "new" not in slate(service, k=100)
    service.refresh()
    assert "new" in slate(service, k=100)


def test_a_user_who_clicked_an_item_before_it_was_known_is_understood_later(
    tmp_path: Path,
) -> None:
    service = a_service(tmp_path, a_model())
    visit(service, "ann", ["later", "a01"], ["later"])
    assert service.recommend(Request("ann"))[1].unknown == ["later"]
    put(service, "later")
    made = service.recommend(Request("ann", k=100))[1]
    assert made.unknown == []
    assert "later" not in made.items


def test_ids_that_are_numbers_are_served_as_text(tmp_path: Path) -> None:
    service = a_service(tmp_path, a_model(ids=list(range(100, 130))))
    assert set(slate(service, k=100, clicks=("104",))) == {
        str(number) for number in range(100, 130) if number != 104
    }


def test_arms_have_their_users_and_strategies(tmp_path: Path) -> None:
    arms = {"a": {"strategy": "greedy", "share": 1}, "b": {"strategy": "thompson", "share": 3}}
    service = a_service(tmp_path, a_model(), config(arms=arms))
    records = [service.recommend(Request(f"u{number}", k=3))[0] for number in range(400)]
    served = {(r.serving.arm, r.serving.strategy) for r in records if r.serving}
    assert served == {("a", "greedy"), ("b", "thompson")}
    share = sum(r.serving.arm == "b" for r in records if r.serving) / 400
    assert share == pytest.approx(0.75, abs=4 * (0.75 * 0.25 / 400) ** 0.5)
    again = [service.recommend(Request(f"u{number}", k=3))[0] for number in range(50)]
    assert [r.serving.arm for r in again if r.serving] == [
        r.serving.arm for r in records[:50] if r.serving
    ]
    nameless = Counter(
        r.serving.arm for r in (service.recommend(Request())[0] for _ in range(100)) if r.serving
    )
    assert set(nameless) == {"a", "b"}
    assert [(arm.name, arm.share, arm.version) for arm in service.arms] == [
        ("a", 0.25, "1"),
        ("b", 0.75, "1"),
    ]


def test_arms_may_have_models_of_their_own(tmp_path: Path) -> None:
    settings = config(models={"main": {}, "other": {}}, arms={"x": {"model": "other"}})
    service = a_service(tmp_path, a_model(), settings)
    assert service.arms[0].version.startswith("prior-")
    promote(tmp_path, a_model(seed=3), "other")
    service.refresh()
    assert service.arms[0].version == "1"


def test_propensities_are_logged_where_asked_for(tmp_path: Path) -> None:
    arms = {"main": {"strategy": "thompson", "propensities": 200}}
    service = a_service(tmp_path, a_model(), config(arms=arms))
    record = service.recommend(Request("ann", k=3, allow=("a01", "a02", "a03"), seed=1))[0]
    assert record.serving is not None
    logged = record.serving.propensities
    assert logged is not None
    plain = a_service(tmp_path, None, config(arms={"main": {"strategy": "thompson"}}))
    again = [slate(plain, "ann", k=3, allow=("a01", "a02", "a03")) for _ in range(200)]
    for position in range(3):
        share = sum(one[position] == record.items[position] for one in again) / 200
        # The difference of two shares of 200: four standard errors are at most 0.2.
        assert logged[position] == pytest.approx(share, abs=0.2)
    empty = service.recommend(Request("ann", allow=()))[0]
    assert empty.serving is not None
    assert empty.serving.propensities == ()


def test_popularity_is_counted_and_refreshed(tmp_path: Path) -> None:
    service = a_service(tmp_path, a_model(("popularity",)), GREEDY)
    before = slate(service, k=5)
    some_visits(service, 4, 10)
    live = service._live["main"]
    assert live._refreshed is not None
    assert not live.due(live._refreshed[0])
    later = live._refreshed[0] + 120_000_000
    assert live.due(later)
    live.refresh(service.store, later)
    record = service.recommend(Request(k=5))[0]
    assert record.items != before
    assert record.serving is not None
    assert record.serving.refreshed == later
    assert record.serving.counted == service.store.seq()


def test_terms_are_served(tmp_path: Path) -> None:
    service = a_service(tmp_path, a_model(TERMS, ("search",)))
    some_visits(service, 3, 5)
    made = service.recommend(Request("u1", k=6))[1]
    assert len(made) == 6
    assert len(made.history) == 5


def test_an_arm_says_which_content_it_serves(tmp_path: Path) -> None:
    hosts = [
        a_service(tmp_path / host, a_model(seed=seed))
        for host, seed in zip("abc", (1, 1, 2), strict=True)
    ]
    one, same, other = [host.arms[0].digest for host in hosts]
    assert len(one) == 16
    assert one == same != other
    assert a_service(tmp_path / "d").arms[0].digest == ""
