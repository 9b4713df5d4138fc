"""A store that is down, versions that are damaged or change under way: slates go on."""

import math
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from slatewise.service.serving import Replayer, Request, Service
from slatewise.service.serving.models import Models
from slatewise.service.store import Store, StoreError
from slatewise.service.store.records import Item, StoredVisits
from slatewise.training import runs
from tests.service.serving.test_service import ALL, GREEDY, slate
from tests.service.serving.world import COLD, a_model, a_service, promote, put, some_visits, visit


class Broken(Store):
    """A store that cannot be reached when it is `down`."""

    down = False

    def history(self, *given: Any) -> StoredVisits:
        self._fail()
        return super().history(*given)

    def item_seq(self) -> int:
        self._fail()
        return super().item_seq()

    def item_changes(self, *given: Any) -> list[Item]:
        self._fail()
        return super().item_changes(*given)

    def ping(self) -> None:
        self._fail()

    def _fail(self) -> None:
        if self.down:
            raise StoreError("the store is down.", "Start it.")


def test_without_a_store_slates_go_on_without_history_and_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_service(tmp_path, a_model())
    store = Broken.open(GREEDY.store_url(tmp_path))
    assert isinstance(store, Broken)
    service = Service.open(tmp_path, GREEDY, store)
    visit(service, "eve", ["a02"])  # whoever it is: the store is no longer empty
    service.refresh()
    cold = slate(service, k=5)
    visit(service, "ann", ["a01"], ["a01"])
    warm = slate(service, "ann", k=5)
    visit(service, "bob", ["a01"], ["a01"])
    store.down = True
    record, _, notes = service.recommend(Request("bob", k=5))
    assert record.items == cold
    assert "history unavailable" in notes[0]
    assert slate(service, "ann", k=5) == warm
    assert "the store is down" in service.ready()[0]
    service.changed_items()
    assert "items may have changed" in service.recommend(Request(k=5))[2][0]
    store.down = False
    service._access._paused_until = math.inf
    assert "history unavailable" in service.recommend(Request("bob", k=5))[2][-1]
    service._access._paused_until = 0.0
    record, _, notes = service.recommend(Request("bob", k=5))
    assert record.items == warm
    assert notes == []
    assert service.ready() == []


def test_while_the_store_is_in_trouble_only_one_request_waits_for_it(tmp_path: Path) -> None:
    a_service(tmp_path, a_model())
    store = Broken.open(GREEDY.store_url(tmp_path))
    assert isinstance(store, Broken)
    service = Service.open(tmp_path, GREEDY, store)
    visit(service, "eve", ["a02"])
    service.refresh()
    store.down = True
    assert service.recommend(Request("ann"))[2]
    asked, answer, told = threading.Event(), threading.Event(), []

    def silent() -> None:
        asked.set()
        assert answer.wait(60)

    store._fail = silent  # type: ignore[method-assign]
    service._access._paused_until = 0.0
    waiting = threading.Thread(target=lambda: told.append(service.recommend(Request("ann"))[2]))
    waiting.start()
    assert asked.wait(60)
    for user in ("bob", "carl"):  # would wait for ever
        assert "history unavailable" in service.recommend(Request(user))[2][0]
    answer.set()
    waiting.join()
    assert told == [[]]
    assert service.recommend(Request("bob"))[2] == []


def test_a_service_starts_without_its_store(tmp_path: Path) -> None:
    a_service(tmp_path, a_model())
    store = Broken.open(GREEDY.store_url(tmp_path))
    store.down = True  # type: ignore[attr-defined]
    service = Service.open(tmp_path, GREEDY, store)
    record, _, notes = service.recommend(Request("ann"))
    assert record.items == ()
    assert len(notes) == 2
    store.down = False  # type: ignore[attr-defined]
    service._access._paused_until = 0.0
    assert len(slate(service, "ann", k=5)) == 5


def test_a_new_version_serves_after_a_look(tmp_path: Path) -> None:
    service = a_service(tmp_path, a_model(), GREEDY)
    put(service, "new")
    before = slate(service, k=5)
    assert promote(tmp_path, a_model(seed=99)) == "2"
    assert slate(service, k=5) == before
    service.refresh()
    record = service.recommend(Request(k=100))[0]
    assert record.serving is not None
    assert record.serving.version == "2"
    assert record.items[:5] != before
    assert set(record.items) == ALL | {"new"}
    Models.of(tmp_path, "main").rollback()
    service.refresh()
    assert slate(service, k=5) == before


def test_a_damaged_version_is_reported_and_the_old_one_serves_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = a_service(tmp_path, a_model(), GREEDY)
    before = slate(service, k=5)
    version = promote(tmp_path, a_model(seed=99))
    (Models.of(tmp_path, "main").path(version) / runs.POSTERIOR).write_bytes(b"nonsense")
    service.refresh()
    assert slate(service, k=5) == before
    assert "version 2 cannot serve" in service.ready()[0]
    assert "damaged" in caplog.text
    again = a_service(tmp_path, None, GREEDY)
    assert again.arms[0].version == "1"
    assert slate(again, k=5) == before
    promote(tmp_path, a_model(seed=100))
    service.refresh()
    assert service.ready() == [COLD]
    assert service.arms[0].version == "3"


def test_a_version_that_could_not_be_loaded_is_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = a_service(tmp_path, a_model(), GREEDY)
    version = promote(tmp_path, a_model(seed=99))
    run = Models.of(tmp_path, "main").path(version)
    away = (run / runs.POSTERIOR).rename(tmp_path / "away")
    service.refresh()
    away.rename(run / runs.POSTERIOR)
    service.refresh()  # at once it would be read every second
    assert service.arms[0].version == "1"
    later = time.monotonic() + 61
    monkeypatch.setattr(time, "monotonic", lambda: later)
    service.refresh()
    assert service.arms[0].version == "2"
    assert service.ready() == [COLD]


def test_without_any_whole_version_the_prior_serves(tmp_path: Path) -> None:
    a_service(tmp_path, a_model())
    (Models.of(tmp_path, "main").path("1") / runs.RUN).unlink()
    service = a_service(tmp_path, None)
    assert service.arms[0].version.startswith("prior-")
    assert set(slate(service, k=100)) == ALL
    assert service.ready()


def test_versions_and_items_change_while_threads_ask(tmp_path: Path) -> None:
    """No request fails, and every slate is wholly of one version and one state of the items."""
    models = {str(n + 1): a_model(("bias", "history", "popularity"), seed=n) for n in range(4)}
    service = a_service(tmp_path, models["1"], GREEDY)
    some_visits(service, 2, 4)
    asked = [Request("u0", k=8), Request("u1", k=8, groups=2), Request(clicks=("a05",), k=8)]
    records, failures, stop = [], [], threading.Event()

    def ask() -> None:
        number = 0
        while not stop.is_set():
            try:
                records.append(service.recommend(asked[number % 3])[0])
            except Exception as error:
                failures.append(error)
            number += 1

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for version in ("2", "3", "4"):
        for change in range(4):
            put(service, f"new-{version}-{change}", group=f"g{change}")
            put(service, f"a{change:02d}", state="hidden" if version == "3" else "shown")
        assert promote(tmp_path, models[version]) == version
        service.refresh()
    enough, deadline = len(records) + 6, time.monotonic() + 60
    while len(records) < enough and time.monotonic() < deadline:
        time.sleep(0.01)
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    replayer = Replayer(tmp_path, GREEDY, service.store)
    assert {r.serving.version for r in records if r.serving} >= {"1", "4"}
    some = records[:: max(1, len(records) // 60)]
    for record in sorted(some, key=lambda r: (r.serving.version, r.serving.catalogue)):  # type: ignore[union-attr]
        assert tuple(replayer.slate(record).items) == record.items


@pytest.mark.parametrize("down", [False, True])
def test_erased_people_are_forgotten_even_if_the_store_is_down(tmp_path: Path, down: bool) -> None:
    a_service(tmp_path, a_model())
    store = Broken.open(GREEDY.store_url(tmp_path))
    service = Service.open(tmp_path, GREEDY, store)
    visit(service, "ann", ["a01"], ["a01"])
    assert "a01" not in slate(service, "ann", k=100)
    service.store.erase("ann", service.clock.now())
    service.changed_users(["ann"])
    store.down = down  # type: ignore[attr-defined]
    assert "a01" in slate(service, "ann", k=100)


def test_an_old_history_is_better_than_none_while_the_store_is_down(tmp_path: Path) -> None:
    a_service(tmp_path, a_model())
    store = Broken.open(GREEDY.store_url(tmp_path))
    service = Service.open(tmp_path, GREEDY, store)
    service._users._seconds = 0.0  # as in a store that hosts share
    visit(service, "ann", ["a01"], ["a01"])
    slate(service, "ann")
    store.down = True  # type: ignore[attr-defined]
    record, _, notes = service.recommend(Request("ann", k=100))
    assert "a01" not in record.items
    assert "history unavailable" in notes[0]


def test_damaged_counts_of_a_version_are_made_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = a_service(tmp_path, a_model(("popularity",)), GREEDY)
    some_visits(service, 2, 4)
    models = Models.of(tmp_path, "main")
    version = models.next_version()
    runs.save(a_model(("popularity",), seed=5), models.path(version))
    (models.path(version) / "counts.parquet").write_bytes(b"nonsense")
    models.promote(version, "a test")
    service.refresh()
    assert service.arms[0].version == version
    assert "damaged" in caplog.text
    record = service.recommend(Request())[0]
    assert record.serving is not None
    assert record.serving.counted == service.store.seq()
