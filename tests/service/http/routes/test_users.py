"""People over HTTP: seen, and forgotten."""

import threading
import time
from typing import Any

import pytest

from slatewise.service.http.backend import Backend
from tests.service.http.conftest import TestClient


def visit(client: TestClient, user: str, clicked: int | None = 0) -> dict[str, Any]:
    slate = client.post("/v1/recommend", json={"user_id": user, "k": 3}).json()
    items = [item["id"] for item in slate["items"]]
    event = {"slate_id": slate["slate_id"], "clicked": None if clicked is None else items[clicked]}
    assert client.post("/v1/feedback", json={"events": [event]}).json()["recorded"] == 1
    return event


def test_somebody_unknown_has_no_visits(client: TestClient) -> None:
    assert client.get("/v1/users/nobody").json() == {"user_id": "nobody", "visits": []}
    assert client.delete("/v1/users/nobody").json() == {
        "user_id": "nobody",
        "slates": 0,
        "notes": [],
    }


def test_slates_are_seen_with_an_answer_and_without(client: TestClient, backend: Backend) -> None:
    event = visit(client, "anna")
    unheard = client.post("/v1/recommend", json={"user_id": "anna", "k": 3}).json()
    backend.writer.call(lambda: None).result()  # by then the slate is written
    first, second = client.get("/v1/users/anna").json()["visits"]
    assert (first["slate_id"], first["answered"]) == (event["slate_id"], True)
    assert (first["seen"], first["clicked"]) == (3, [event["clicked"]])
    assert (second["slate_id"], second["answered"]) == (unheard["slate_id"], False)
    assert (second["seen"], second["clicked"], second["arm"]) == (None, [], "main")
    assert second["items"] == [item["id"] for item in unheard["items"]]
    event = {"slate_id": unheard["slate_id"], "seen": 1}
    client.post("/v1/feedback", json={"events": [event]})
    seen = [(v["answered"], v["seen"]) for v in client.get("/v1/users/anna").json()["visits"]]
    assert seen == [(True, 3), (True, 1)]


def test_erasing_forgets_one_person_and_no_other(client: TestClient) -> None:
    event = visit(client, "anna")
    visit(client, "bo")
    erased = client.delete("/v1/users/anna").json()
    assert erased == {"user_id": "anna", "slates": 1, "notes": []}
    assert client.get("/v1/users/anna").json()["visits"] == []
    assert len(client.get("/v1/users/bo").json()["visits"]) == 1
    # What she had clicked may be shown to her again: the caches have forgotten, too.
    slate = client.post("/v1/recommend", json={"user_id": "anna"}).json()
    assert event["clicked"] in [item["id"] for item in slate["items"]]


def test_erasing_deletes_the_copy_that_a_killed_training_left(
    client: TestClient, backend: Backend
) -> None:
    copy = backend.service.directory / ".retraining" / "log.parquet"
    copy.parent.mkdir()
    copy.write_bytes(b"anna was here")
    assert client.delete("/v1/users/anna").status_code == 200
    assert not copy.exists()


def test_late_events_of_somebody_erased_are_refused_and_new_ones_are_not(
    client: TestClient,
) -> None:
    old = {"slate_id": "old", "user_id": "anna", "source": "search", "items": ["a", "b"]}
    old |= {"time": time.time_ns() // 1_000 - 1_000_000}
    client.delete("/v1/users/anna")
    told = client.post("/v1/feedback", json={"events": [old]}).json()["events"][0]
    assert told["status"] == "refused"
    assert "erased" in told["problem"]
    visit(client, "anna")
    assert len(client.get("/v1/users/anna").json()["visits"]) == 1


def test_what_waits_to_be_written_is_erased_too(
    client: TestClient, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    door, real = threading.Event(), backend.store.write
    monkeypatch.setattr(backend.store, "write", lambda *given: door.wait() and real(*given))
    slate = client.post("/v1/recommend", json={"user_id": "anna"}).json()["slate_id"]
    threading.Timer(0.1, door.set).start()
    assert client.delete("/v1/users/anna").json()["slates"] == 1
    assert backend.store.slate(slate) is None
