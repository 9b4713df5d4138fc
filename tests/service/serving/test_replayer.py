"""A slate of the log can be made again, bit for bit, whatever has happened since."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from slatewise.errors import SlatewiseError
from slatewise.service.serving import Replayer, Request, Service, replay
from slatewise.service.serving.models import Models
from slatewise.service.serving.request import KEPT
from slatewise.service.serving.users import CLICKS
from slatewise.service.settings import ServiceConfig
from slatewise.service.store import Store
from slatewise.service.store.records import Outcome, SlateRecord
from slatewise.service.store.rows import serving_text
from slatewise.service.upkeep.repair import compact_items
from tests.service.serving.world import (
    GROUPS,
    HOUR,
    ITEMS,
    TERMS,
    a_model,
    a_service,
    promote,
    put,
    visit,
)

ARMS = {
    "one": {"strategy": "in-slate-thompson", "draws": 5},
    "two": {"strategy": "epsilon-mix", "epsilon": 0.3, "rest": "thompson"},
    "three": {"strategy": "posterior-mean", "draws": 3},
    "four": {"strategy": "greedy"},
}
CONFIG = ServiceConfig.build({"arms": ARMS, "history": 12, "salt": "summer"}, "a test")


def live_through(service: Service, directory: Path, *, steps: int) -> list[SlateRecord]:
    """Let much happen, and ask for slates in between; return those that were served."""
    rng, records = np.random.default_rng(3), []
    live = service._live["main"]
    for step in range(steps):
        user = f"u{rng.integers(12)}"
        asked = [
            Request(user, k=6),
            Request(user, clicks=("a07", "nothing"), k=5, clicked="show"),
            Request(None, k=4, groups={"red": 1, "violet": 1, "blue": 1}),
            Request(user, k=6, allow=tuple(f"a{n:02d}" for n in range(0, 60, 2)), exclude=("a02",)),
        ][step % 4]
        record = service.recommend(asked)[0]
        records.append(record)
        service.store.write([record], [])
        if record.items and rng.random() < 0.7:
            clicked = record.items[:1] if rng.random() < 0.5 else ()
            service.store.write(
                [], [Outcome(record.slate_id, len(record.items) - 1, clicked, record.time)]
            )
        if rng.random() < 0.5:  # an event of hours ago, also of items that are not known yet
            items = [f"a{n:02d}" for n in rng.choice(ITEMS, 4, replace=False)] + [f"n{step + 3}"]
            late = service.clock.now() - int(rng.integers(1, 9)) * HOUR
            visit(service, user, items, items[:1], "search", late)
        service.changed_users([f"u{number}" for number in range(12)])
        if step % 3 == 0:
            put(service, f"n{step}", group=["red", "violet"][step % 2])
            put(service, f"a{step:02d}", state="hidden")
        if step % 7 == 0:
            put(service, f"n{step}", group="pink")
            put(service, f"a{step // 2:02d}", group=GROUPS[step % 3])
        if step % 5 == 0:
            live.refresh(service.store, service.clock.now())
        if step == steps // 2:
            promote(directory, a_model(TERMS, ("search",), seed=50))
            service.refresh()
            live = service._live["main"]
    return records


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Service, list[SlateRecord]]:
    directory = tmp_path_factory.mktemp("lived")
    service = a_service(directory, a_model(TERMS, ("search",)), CONFIG)
    return directory, service, live_through(service, directory, steps=40)


def test_every_slate_can_be_made_again(
    lived: tuple[Path, Service, list[SlateRecord]],
) -> None:
    directory, service, records = lived
    replayer = Replayer(directory, CONFIG, service.store)
    for record in records:
        logged = service.store.slate(record.slate_id)
        assert logged is not None
        assert tuple(replayer.slate(logged).items) == record.items
    served = [record.serving for record in records if record.serving]
    assert {serving.version for serving in served} == {"1", "2"}
    assert {serving.arm for serving in served} == set(ARMS)
    assert len({serving.catalogue for serving in served}) > 10
    assert len({serving.counted for serving in served}) > 4
    assert any("n" in item for record in records for item in record.items)


def test_slates_can_be_made_again_in_any_order(
    lived: tuple[Path, Service, list[SlateRecord]],
) -> None:
    directory, service, records = lived
    replayer = Replayer(directory, CONFIG, service.store)
    for record in (records[30], records[3], records[39], records[10]):
        assert tuple(replayer.slate(record).items) == record.items
    assert tuple(replay(directory, CONFIG, service.store, records[21]).items) == records[21].items


def test_replaying_needs_what_was_known_then_and_not_now(
    lived: tuple[Path, Service, list[SlateRecord]],
) -> None:
    """The same requests asked now have other answers: the test above can fail."""
    _, service, records = lived
    differ = 0
    for record in records:
        serving = record.serving
        assert serving is not None
        asked = Request.of_plain(serving.request, serving.k, serving.seed)
        live, user = service._live["main"], service._user(record.user_id, [])
        strategy = service._strategies[serving.arm]
        now = live.answer(user.lookup(asked.clicks), asked, strategy, serving.seed, record.time)
        differ += tuple(now.slate.items) != record.items
    assert differ > len(records) / 2


def test_another_strategy_can_be_asked_what_it_would_have_shown(
    lived: tuple[Path, Service, list[SlateRecord]],
) -> None:
    directory, service, records = lived
    record = next(r for r in records if r.serving and r.serving.arm == "one" and r.user_id)
    replayer = Replayer(directory, CONFIG, service.store)
    greedy = replayer.slate(record, "greedy")
    assert greedy.strategy == "greedy"
    assert tuple(greedy.items) != record.items
    shown, found = replayer.propensities(record, "greedy", draws=20)
    assert tuple(shown.items) == record.items
    assert found.numbers[found.probability.argmax(axis=0)].tolist() == greedy.numbers.tolist()
    own = replayer.propensities(record, draws=50)[1]
    assert own.of(shown)[0].max() > 0


def test_how_much_history_counts_may_change_later(
    lived: tuple[Path, Service, list[SlateRecord]],
) -> None:
    directory, service, records = lived
    replayer = Replayer(directory, CONFIG.changed(history=1), service.store)
    for record in records[25:32]:
        assert tuple(replayer.slate(record).items) == record.items


def test_a_history_that_was_cut_for_its_clicks_is_cut_again(tmp_path: Path) -> None:
    service = a_service(tmp_path, a_model(TERMS, ("search",)), CONFIG)
    items = [f"a{number:02d}" for number in range(20)]
    made = []
    for number in range(3):
        at = service.clock.now() - HOUR + number
        visit(service, "much", items, items[10 * number :][:10], "search", at)
        service.changed_users(["much"])
        made.append(service.recommend(Request("much", k=6, clicked="show"))[0])
    cut = [bool(one.serving and CLICKS in one.serving.request) for one in made]
    assert cut == [False, True, True]
    for record in made:
        assert tuple(replay(tmp_path, CONFIG, service.store, record).items) == record.items


def test_slates_of_day_zero_can_be_made_again(tmp_path: Path) -> None:
    service = a_service(tmp_path)
    put(service, "p", "q", "r", "s")
    record = service.recommend(Request("ann", k=2))[0]
    put(service, "t", "u")
    assert tuple(replay(tmp_path, service.config, service.store, record).items) == record.items
    changed = ServiceConfig.build({"models": {"main": {"model": {"dimensions": 3}}}}, "a test")
    with pytest.raises(SlatewiseError, match="another model"):
        replay(tmp_path, changed, service.store, record)


def test_a_slate_that_others_made_cannot_be_made_again(tmp_path: Path) -> None:
    service = a_service(tmp_path)
    record = SlateRecord("s", "ann", 1, "search", ("a",))
    with pytest.raises(SlatewiseError, match="not made by this service"):
        replay(tmp_path, service.config, service.store, record)


def test_a_version_that_is_gone_is_named(tmp_path: Path) -> None:
    service = a_service(tmp_path, a_model())
    record = service.recommend(Request(k=2))[0]
    for file in (tmp_path / "models" / "main" / "1").iterdir():
        if file.is_file():
            file.unlink()
    with pytest.raises(SlatewiseError, match="not a run"):
        replay(tmp_path, service.config, service.store, record)


def test_it_is_the_same_on_either_store(tmp_path: Path, store: Store) -> None:
    settings = ServiceConfig.build(
        {"models": {"main": {"model": {"evidence": ["search"]}}}}, "test"
    )
    service = Service.open(tmp_path, settings, store)
    put(service, *(f"a{number:02d}" for number in range(ITEMS)))
    promote(tmp_path, a_model(TERMS, ("search",)))
    service.refresh()
    records = []
    for step in range(6):
        visit(service, "ann", [f"a{step:02d}", f"a{step + 20}"], [f"a{step:02d}"])
        service._live["main"].refresh(store, service.clock.now())
        records.append(service.recommend(Request("ann", k=5))[0])
        put(service, f"n{step}", "a30", state="hidden" if step % 2 else "shown")
    store.write(records, [])
    replayer = Replayer(tmp_path, settings, store)
    for record in records:
        logged = store.slate(record.slate_id)
        assert logged == record
        assert tuple(replayer.slate(logged).items) == record.items
    assert len({record.serving.known for record in records if record.serving}) == 6


def test_void_changes_of_items_leave_slates_as_they_were_and_new_versions_without_their_rows(
    lived: tuple[Path, Service, list[SlateRecord]],
) -> None:
    directory, service, records = lived
    before = len(service.store.item_changes(0))
    for number in range(30):
        put(service, "n0", group=f"group-{number % 2}")
    service.refresh()
    rows = len(service._live["main"].catalogue)
    promote(directory, a_model(TERMS, ("search",), seed=51))
    service.refresh()
    assert len(service._live["main"].catalogue) < rows - 25
    new = service.recommend(Request("u1", k=6))[0]
    shutil.rmtree(Models.of(directory, "main").path("1"))  # as old versions go
    assert compact_items(directory, service.store) > 0
    assert len(service.store.item_changes(0)) < before + 30
    replayer = Replayer(directory, CONFIG, service.store)
    kept = [record for record in records if record.serving and record.serving.version == "2"]
    for record in [*kept, new]:
        assert tuple(replayer.slate(record).items) == record.items


@pytest.mark.parametrize("lists", ["exclude", "allow", "groups", "clicks"])
def test_the_log_keeps_little_of_long_lists_and_says_so(
    lived: tuple[Path, Service, list[SlateRecord]], lists: str
) -> None:
    directory, service, _ = lived
    ids = tuple(f"a{n % ITEMS:02d}-{n:08d}" for n in range(10_000))
    values = {"groups": dict.fromkeys(ids, 1)} if lists == "groups" else {lists: ids}
    record, _, notes = service.recommend(Request(None, k=3, **values))  # type: ignore[arg-type]
    assert len(serving_text(record) or "") < KEPT + 1_000
    service.store.write([record], [])
    logged = service.store.slate(record.slate_id)
    assert logged is not None
    if lists == "clicks":  # those of them that count are few
        assert tuple(replay(directory, CONFIG, service.store, logged).items) == record.items
        return
    assert any("cannot be made again" in note for note in notes)
    with pytest.raises(SlatewiseError, match="too long to be logged"):
        replay(directory, CONFIG, service.store, logged)
