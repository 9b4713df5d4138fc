"""Slates over HTTP."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from fastapi import FastAPI

from slatewise.service.http.backend import Backend
from slatewise.service.http.schemas import RecommendAnswer
from slatewise.service.store import StoreError
from tests.service.http.conftest import ITEMS, TestClient, bearer, eventually


def slate(client: TestClient, **body: Any) -> dict[str, Any]:
    answer = client.post("/v1/recommend", json=body)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def ids(told: dict[str, Any]) -> list[str]:
    return [item["id"] for item in told["items"]]


def test_an_answer_is_as_its_schema_says_and_as_it_was_logged(
    client: TestClient, backend: Backend
) -> None:
    told = slate(client, user_id="anna", k=4, seed=7, source="home")
    RecommendAnswer.model_validate(told, extra="forbid", strict=True)
    assert (told["user_id"], told["seed"], told["source"]) == ("anna", 7, "home")
    assert (told["arm"], told["model"]) == ("main", "main")
    assert len(set(ids(told))) == 4
    eventually(lambda: backend.store.slate(told["slate_id"]))
    record = backend.store.slate(told["slate_id"])
    assert record is not None
    assert record.serving is not None
    assert list(record.items) == ids(told)
    assert (record.serving.seed, record.serving.version) == (7, told["version"])


def test_nobody_known_gets_a_slate_of_the_usual_length(client: TestClient) -> None:
    told = slate(client)
    assert told["user_id"] is None
    assert len(ids(told)) == len(ITEMS)  # there are fewer than twenty


def test_an_empty_service_answers_with_an_empty_slate(make_app: Callable[..., FastAPI]) -> None:
    with TestClient(make_app(), headers=bearer("read")) as client:
        assert slate(client, user_id="anna")["items"] == []


def test_numbers_are_ids_too(client: TestClient) -> None:
    assert slate(client, user_id=17.0, k=3.0)["user_id"] == "17"  # which in JSON is 17
    assert slate(client, user_id=17, clicks=[4, "item-1"])["unknown"] == ["4"]


def test_what_may_be_in_a_slate_can_be_said(client: TestClient) -> None:
    assert set(ids(slate(client, allow=["item-1", "item-2"]))) == {"item-1", "item-2"}
    assert "item-1" not in ids(slate(client, exclude=["item-1"]))
    assert slate(client, allow=[])["items"] == []
    groups = [item["group"] for item in slate(client, groups=2)["items"]]
    assert all(groups.count(group) <= 2 for group in groups)
    assert "item-3" not in ids(slate(client, clicks=["item-3"]))
    assert "item-3" in ids(slate(client, clicks=["item-3"], clicked="show"))


def test_the_same_seed_makes_the_same_slate(client: TestClient) -> None:
    slates = [ids(slate(client, user_id="anna", seed=seed)) for seed in (1, 1, 2, 3, 4)]
    assert slates[0] == slates[1]
    assert any(other != slates[0] for other in slates[2:])


def test_k_is_limited_by_the_configuration(make_app: Callable[..., FastAPI]) -> None:
    app = make_app(limits={"k": 3, "ids": 2, "batch": 2})
    with TestClient(app, headers=bearer("write")) as client:
        bodies = client.get("/v1/openapi.json").json()["components"]["schemas"]
        assert bodies["RecommendBody"]["properties"]["k"]["anyOf"][0]["maximum"] == 3
        assert bodies["ItemsBody"]["properties"]["items"]["maxItems"] == 2
        assert client.post("/v1/recommend", json={"k": 3}).status_code == 200
        for body in ({"k": 4}, {"clicks": ["a", "b", "c"]}, {"allow": ["a", "b", "c"]}):
            answer = client.post("/v1/recommend", json=body)
            assert answer.status_code == 422
            assert answer.json()["remedy"]
        events = [{"slate_id": str(n)} for n in range(3)]
        assert client.post("/v1/feedback", json={"events": events}).status_code == 422
        items = [{"id": n, "group": "a"} for n in range(3)]
        assert client.put("/v1/items", json={"items": items}).status_code == 422


def test_a_slate_does_not_wait_for_a_write(
    client: TestClient, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    door, writing, real = threading.Event(), threading.Event(), backend.store.write

    def stuck(*given: Sequence[Any]) -> Any:
        writing.set()
        door.wait()
        return real(*given)

    monkeypatch.setattr(backend.store, "write", stuck)
    try:
        told = [slate(client, user_id="anna")]
        assert writing.wait(20)
        start = time.monotonic()
        told += [slate(client, user_id=f"user-{n}") for n in range(20)]
        assert time.monotonic() - start < 10
        assert len(backend.writer) >= 20
        assert not client.get("/v1/users/anna").json()["visits"]  # nor do reads
    finally:
        door.set()
    eventually(lambda: all(backend.store.slate(one["slate_id"]) for one in told))


def test_without_a_store_slates_are_made_and_nothing_else_is_promised(
    client: TestClient, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = slate(client, user_id="anna")
    event = {"slate_id": told["slate_id"], "clicked": told["items"][0]["id"]}
    assert client.get("/health/ready").status_code == 200

    def fail(*_: Any, **__: Any) -> Any:
        raise StoreError("postgresql://shop@db.internal is gone", "start it")

    with monkeypatch.context() as down:
        for name in ("write", "history", "ping", "item", "items", "put_items", "erase", "seq"):
            down.setattr(backend.store, name, fail)
        without = slate(client, user_id="bo")
        assert len(ids(without)) == len(ITEMS)
        assert any("history" in note for note in without["notes"])
        eventually(lambda: backend.writer.problem)
        for answer in (
            client.post("/v1/feedback", json={"events": [event]}),
            client.put("/v1/items/x", json={"group": "a"}),
            client.get("/v1/items"),
            client.get("/v1/users/anna"),
            client.delete("/v1/users/anna"),
            client.get("/health/ready"),
        ):
            assert answer.status_code == 503
            assert answer.headers["retry-after"] == "1"
            assert answer.headers["content-type"] == "application/problem+json"
            assert "internal" not in answer.text
        assert client.get("/health/live").status_code == 200
    eventually(lambda: client.get("/health/ready").status_code == 200)
    again = client.post("/v1/feedback", json={"events": [event]})
    assert again.json()["recorded"] == 1
    eventually(lambda: backend.store.slate(without["slate_id"]))
