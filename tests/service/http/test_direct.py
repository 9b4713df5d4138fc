"""Routes that are led past FastAPI answer as if they were not."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI

from tests.service.http.conftest import ITEMS, TestClient, bearer, client_of

JSON = {"Content-Type": "application/json"}
EVENT = b'{"events": [{"slate_id": "x", "items": ["a", "b"], "source": "search"}]}'
REQUESTS: list[tuple[str, bytes, dict[str, str]]] = [
    ("recommend", b'{"k": 3, "seed": 5, "user_id": "anna"}', JSON),
    ("recommend", b'{"k": 0}', JSON),
    ("recommend", b'{"k": 201}', JSON),
    ("recommend", b"{", JSON),
    ("recommend", b"{}", {"Content-Type": "text/plain"}),
    ("recommend", b" " * 5_001, JSON),
    ("recommend", b"{}", JSON | {"Authorization": "Bearer nobody-s-token"}),
    ("recommend?k=3", b"{}", JSON),
    ("feedback", EVENT, JSON),
    ("feedback", EVENT, JSON | bearer("read")),
    ("feedback", b'{"events": []}', JSON),
    ("feedback", b'{"events": [{"slate_id": "nobody-s"}]}', JSON),
]


def fail(*_: object) -> None:
    raise AssertionError


def test_slates_and_feedback_pass_fastapi_by(
    app: FastAPI, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.router, "middleware_stack", fail)
    assert client.get("/v1/items").status_code == 500
    assert client.post("/v1/recommend", json={}).status_code == 200
    told = {"events": [{"slate_id": "x", "items": ["a"], "source": "search"}]}
    assert client.post("/v1/feedback", json=told).json()["recorded"] == 1


def test_the_short_way_answers_as_the_long_one(make_app: Callable[..., FastAPI]) -> None:
    app: Any = make_app(limits={"body_bytes": 5_000})
    with client_of(app) as client:
        client.put("/v1/items", json={"items": ITEMS}).raise_for_status()
        short = [_answer(client, *request) for request in REQUESTS]
        app.direct.clear()
        long = [_answer(client, *request) for request in REQUESTS]
    # The second time, the event was known.
    assert short[8][2].pop("events")[0]["status"] == "recorded"
    assert long[8][2].pop("events")[0]["status"] == "duplicate"
    for told in (short[8][2], long[8][2]):
        assert told.pop("recorded") + told.pop("duplicate") == 1
    assert short == long
    assert {status for status, _, _ in short} == {200, 400, 401, 403, 413, 415, 422}


def _answer(
    client: TestClient, path: str, content: bytes, headers: dict[str, str]
) -> tuple[int, dict[str, str], dict[str, Any]]:
    """Return status, headers and body, without what no two answers have in common."""
    answer = client.post(f"/v1/{path}", content=content, headers=headers)
    told = answer.json()
    told.pop("slate_id", None)
    names = answer.headers.keys() - {"content-length"}
    return answer.status_code, {name: answer.headers[name] for name in names}, told
