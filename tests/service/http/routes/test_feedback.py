"""Feedback over HTTP: once, in any order, and on disk."""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from slatewise.service.http import backend as backend_module
from slatewise.service.http.backend import Backend
from slatewise.service.store import Store, writer
from slatewise.service.store.records import SlateRecord
from tests.service.http.conftest import TestClient, eventually

DAY = 86_400_000_000


def tell(client: TestClient, *events: dict[str, Any]) -> list[dict[str, Any]]:
    answer = client.post("/v1/feedback", json={"events": list(events)})
    assert answer.status_code == 200, answer.text
    told: list[dict[str, Any]] = answer.json()["events"]
    return told


def shown(client: TestClient, user: str = "anna", k: int = 5) -> tuple[str, list[str]]:
    slate = client.post("/v1/recommend", json={"user_id": user, "k": k}).json()
    return slate["slate_id"], [item["id"] for item in slate["items"]]


def visits(client: TestClient, user: str = "anna") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"/v1/users/{user}").json()["visits"]
    return found


def test_what_a_user_did_is_known_at_once(client: TestClient, backend: Backend) -> None:
    slate, items = shown(client)
    event = {"slate_id": slate, "seen": 3, "clicked": items[1]}
    assert tell(client, event)[0]["status"] == "recorded"
    (visit,) = visits(client)
    assert (visit["slate_id"], visit["items"]) == (slate, items)
    assert (visit["seen"], visit["clicked"], visit["arm"]) == (3, [items[1]], "main")
    again = client.post("/v1/recommend", json={"user_id": "anna"}).json()
    assert items[1] not in [item["id"] for item in again["items"]]


def test_a_retry_never_counts_twice(client: TestClient) -> None:
    slate, items = shown(client)
    event = {"slate_id": slate, "seen": 3, "clicked": items[1]}
    told = [tell(client, event)[0]["status"] for _ in range(5)]
    assert told == ["recorded", *["duplicate"] * 4]
    later = event | {"time": "2026-05-17T12:30:00Z"}  # the same message with another time
    assert [one["status"] for one in tell(client, later, later)] == ["duplicate"] * 2
    assert len(visits(client)) == 1


def test_what_contradicts_a_slate_is_refused_and_changes_nothing(client: TestClient) -> None:
    slate, items = shown(client)
    theirs = {"slate_id": "page-1", "source": "search", "items": ["a", "b"], "user_id": "carl"}
    assert tell(client, theirs)[0]["status"] == "recorded"
    wrong = [
        {"slate_id": slate, "user_id": "bo", "clicked": items[0]},
        theirs | {"user_id": "bo", "clicked": "b"},
        theirs | {"items": ["a", "c"], "clicked": "a"},
    ]
    for event in wrong:
        answer = client.post("/v1/feedback", json={"events": [event]})
        assert answer.status_code == 409
        assert "another user" in answer.json()["detail"]
    right = {"slate_id": slate, "user_id": "anna", "clicked": items[1]}
    again = theirs | {"clicked": "b"}
    told = tell(client, *wrong, right, again, {"slate_id": "page-1", "clicked": "a"})
    assert [one["status"] for one in told] == ["refused"] * 3 + ["recorded"] * 3
    assert "id of its own" in told[0]["remedy"]
    assert visits(client)[0]["clicked"] == [items[1]]
    assert sorted(visits(client, "carl")[0]["clicked"]) == ["a", "b"]
    assert not visits(client, "bo")


def test_a_click_from_before_its_slate_is_recorded_as_of_then_and_counted(
    client: TestClient, backend: Backend
) -> None:
    slate, items = shown(client)
    event = {"slate_id": slate, "clicked": items[0], "time": "2001-05-17T12:30:00Z"}
    (told,) = tell(client, event)
    assert told["status"] == "recorded"
    assert "before the slate was shown" in told["problem"]
    assert "slatewise_corrected_events_total 1.0" in client.get("/metrics").text
    assert tell(client, event)[0]["status"] == "duplicate"
    shown_at, time_ = backend.store.read(
        lambda connection: connection.exec_driver_sql("SELECT shown, time FROM outcomes").one()
    )
    assert shown_at == time_
    assert items[0] in visits(client)[0]["clicked"]


def test_a_storm_of_retries_counts_once(client: TestClient) -> None:
    slate, items = shown(client)
    event = {"slate_id": slate, "seen": 2, "clicked": items[0]}
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda _: tell(client, event, event), range(20)))
    counts = Counter(one["status"] for answer in told for one in answer)
    assert counts == {"recorded": 1, "duplicate": 39}


def test_messages_about_a_slate_add_up(client: TestClient) -> None:
    slate, items = shown(client)
    tell(client, {"slate_id": slate, "seen": 2})
    tell(client, {"slate_id": slate, "seen": 4, "clicked": items[3]})
    tell(client, {"slate_id": slate, "seen": 3, "clicked": [items[0]]})
    (visit,) = visits(client)
    assert visit["seen"] == 4
    assert set(visit["clicked"]) == {items[0], items[3]}


def test_slates_of_others_come_late_and_in_any_order(client: TestClient) -> None:
    now = time.time_ns() // 1_000
    for days in (1, 3, 2):
        event = {"slate_id": f"{days} ago", "user_id": "bo", "source": "search"}
        event |= {"items": [5, "b"], "clicked": 5, "time": now - days * DAY}
        assert tell(client, event)[0]["status"] == "recorded"
    assert [one["slate_id"] for one in visits(client, "bo")] == ["3 ago", "2 ago", "1 ago"]
    assert visits(client, "bo")[0]["items"] == ["5", "b"]
    assert visits(client, "bo")[0]["arm"] is None


def test_events_that_cannot_be_are_refused_one_by_one(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "PATIENCE", 0.1)
    slate, items = shown(client)
    ahead = time.time_ns() // 1_000 + DAY
    told = tell(
        client,
        {"slate_id": "nobody's"},
        {"slate_id": slate, "clicked": "not in it"},
        {"slate_id": slate, "seen": 6},
        {"slate_id": slate, "time": ahead},
        {"slate_id": slate, "time": "tomorrow"},
        {"slate_id": slate, "clicked": items[0]},
    )
    assert [one["status"] for one in told] == [*["refused"] * 5, "recorded"]
    words = ["not known", "no such item", "no such item", "future", "ISO"]
    assert all(word in one["problem"] for word, one in zip(words, told, strict=False))
    assert len(visits(client)) == 1


def test_feedback_for_a_slate_on_its_way_is_waited_for(
    client: TestClient, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    for patient in (writer, backend_module):
        monkeypatch.setattr(patient, "PATIENCE", 60.0)
    record = SlateRecord("elsewhere", "anna", time.time_ns() // 1_000, "home", ("a", "b"))
    timer = threading.Timer(0.2, lambda: backend.store.write([record], []))
    timer.start()
    assert tell(client, {"slate_id": "elsewhere", "clicked": "b"})[0]["status"] == "recorded"
    timer.join()


def test_a_full_queue_is_said_and_empties(
    client: TestClient, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    slate, items = shown(client)
    event = {"slate_id": slate, "clicked": items[0]}
    eventually(lambda: len(backend.writer) == 0)
    with monkeypatch.context() as small:
        small.setattr(backend.writer, "_size", 0)
        answer = client.post("/v1/feedback", json={"events": [event]})
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert "waiting" in answer.json()["detail"]
        assert shown(client)[1]  # slates go on, unlogged
        assert backend.writer.dropped == 1
    assert tell(client, event)[0]["status"] == "recorded"


def test_what_is_acknowledged_is_in_the_file(client: TestClient, backend: Backend) -> None:
    slate, items = shown(client)
    tell(client, {"slate_id": slate, "clicked": items[0]})
    other = Store.open(backend.config.store_url(backend.service.directory))
    assert other.history("anna", 5).visits[0].clicked == (items[0],)
    other.close()


def test_a_store_that_hangs_is_not_waited_for_for_ever(
    client: TestClient, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    slate, items = shown(client)
    event = {"slate_id": slate, "clicked": items[0]}
    eventually(lambda: len(backend.writer) == 0)
    door, real = threading.Event(), backend.store.write
    monkeypatch.setattr(backend.store, "write", lambda *given: door.wait() and real(*given))
    with monkeypatch.context() as hasty:
        hasty.setattr(backend_module, "PATIENCE", 0.1)
        answer = client.post("/v1/feedback", json={"events": [event]})
    door.set()
    assert answer.status_code == 503
    eventually(lambda: visits(client))  # not lost: it was only not promised
    assert tell(client, event)[0]["status"] == "duplicate"
