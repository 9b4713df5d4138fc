"""Errors: in words, with a remedy, and never with more than a client should know."""

import logging
import re
from typing import Any

import pytest

from slatewise.errors import SlatewiseError
from slatewise.service.http.backend import Backend
from tests.service.http.conftest import TOKENS, TestClient
from tests.service.http.test_guard import problem


def test_paths_that_are_not_there_are_problems(anvil: TestClient) -> None:
    for path in ("/v1", "/v1/items/", "/docs/", "/v2/recommend", "/v1/recommend/"):
        assert "/v1/openapi.json" in problem(anvil.get(path), 404)["remedy"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/recommend", "POST"),
        ("PATCH", "/v1/items", "GET, PUT"),
        ("POST", "/v1/items/x", "DELETE, GET, PUT"),
        ("OPTIONS", "/v1/users/x", "DELETE, GET"),
        ("TRACE", "/health/live", "GET"),
        ("BREW", "/metrics", "GET"),
    ],
)
def test_other_methods_are_problems_that_name_those_allowed(
    anvil: TestClient, method: str, path: str, allowed: str
) -> None:
    answer = anvil.request(method, path)
    problem(answer, 405)
    assert answer.headers["allow"] == allowed


def test_head_is_refused_without_a_body_of_data(anvil: TestClient) -> None:
    assert anvil.head("/v1/items").status_code == 405


@pytest.mark.parametrize(
    ("method", "path", "body", "field", "meant"),
    [
        ("POST", "/v1/recommend", {"user": "anna"}, "body: There is no field 'user'", "user_id"),
        ("POST", "/v1/feedback", {"event": []}, "body: There is no field 'event'", "events"),
        (
            "POST",
            "/v1/feedback",
            {"events": [{"slate_id": "s", "click": "a"}]},
            "body.events.0: There is no field 'click'",
            "clicked",
        ),
        (
            "PUT",
            "/v1/items",
            {"items": [{"id": "a", "grup": "b", "group": "c"}]},
            "body.items.0: There is no field 'grup'",
            "group",
        ),
        ("PUT", "/v1/items/x", {"group": "a", "stat": "b"}, "body: There is no field 's", "state"),
    ],
)
def test_a_misspelt_field_is_named_with_those_there_are(
    anvil: TestClient, method: str, path: str, body: object, field: str, meant: str
) -> None:
    told = problem(anvil.request(method, path, json=body), 422)
    assert field in told["detail"]
    assert f"Did you mean {meant}?" in told["remedy"]


def test_a_field_of_several_kinds_is_judged_by_the_one_that_was_sent(anvil: TestClient) -> None:
    for path, body, field in (
        ("recommend", {"groups": {"lamps": 0}}, "body.groups"),
        ("feedback", {"events": [{"slate_id": "x", "seen": -1}]}, "body.events.0.seen"),
    ):
        detail = problem(anvil.post(f"/v1/{path}", json=body), 422)["detail"]
        assert detail.startswith(f"{field}: Input should be greater than or equal to")
    clicked = {"events": [{"slate_id": "x", "clicked": ["a", "\x00"]}]}
    detail = problem(anvil.post("/v1/feedback", json=clicked), 422)["detail"]
    assert detail.startswith("body.events.0.clicked: String should match pattern")


def test_a_field_that_may_be_anything_is_not_repeated(anvil: TestClient) -> None:
    told = problem(anvil.post("/v1/recommend", json={"anna@example.org": 1}), 422)
    assert "anna" not in str(told)
    assert "user_id, clicks, k" in told["remedy"]


def test_a_fault_of_ours_is_an_id_outside_and_a_trace_inside(
    client: TestClient,
    backend: Backend,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(request: Any) -> Any:
        raise RuntimeError("the password is swordfish")

    monkeypatch.setattr(backend.service, "recommend", fail)
    answer = client.post("/v1/recommend", json={})
    told = problem(answer, 500)
    assert "swordfish" not in answer.text
    assert "RuntimeError" not in answer.text
    number = re.findall(r"error ([0-9a-f]{16})", told["detail"])[0]
    assert number in told["remedy"]
    (record,) = [one for one in caplog.records if number in one.getMessage()]
    assert record.exc_info is not None
    assert "swordfish" in str(record.exc_info[1])
    monkeypatch.undo()
    assert client.post("/v1/recommend", json={}).status_code == 200


def test_what_the_service_refuses_in_words_reaches_the_client(
    client: TestClient, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(request: Any) -> Any:
        raise SlatewiseError("that cannot be.", "Ask for something else.")

    monkeypatch.setattr(backend.service, "recommend", refuse)
    told = problem(client.post("/v1/recommend", json={}), 422)
    assert (told["detail"], told["remedy"]) == ("that cannot be.", "Ask for something else.")


def test_a_refusal_names_the_field_and_not_its_value(anvil: TestClient) -> None:
    for body in ({"k": "swordfish"}, {"user_id": ["swordfish"]}, {"clicked": "swordfish"}):
        answer = anvil.post("/v1/recommend", json=body)
        assert next(iter(body)) in problem(answer, 422)["detail"]
        assert "swordfish" not in answer.text
    answer = anvil.post("/v1/recommend", json={"groups": {"swordfish": "many"}})
    assert problem(answer, 422)["detail"].startswith("body.groups: Input should be")
    answer = anvil.post("/v1/feedback", json={"events": [{"slate_id": 5}]})
    assert "body.events.0.slate_id" in problem(answer, 422)["detail"]


def test_the_log_has_a_line_for_every_request_and_nobody_s_name_or_token(
    client: TestClient, backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    assert client.portal is not None
    client.portal.call(backend.metrics.later.now)
    caplog.clear()
    caplog.set_level(logging.INFO)
    client.get("/v1/users/anna-karenina?password=swordfish")
    client.get("/v1/items", headers={"Authorization": "Bearer swordfish-swordfish"})
    client.get("/nowhere/anna-karenina")
    client.request("BREW\u0041", "/metrics")
    client.portal.call(backend.metrics.later.now)
    lines = [one.getMessage() for one in caplog.records if one.name == "slatewise.access"]
    shapes = [re.sub(r"[\d.]+ ms$", "N ms", line) for line in lines]
    expected = [
        "GET /v1/users/{user_id} 400 N ms",
        "GET /v1/items 401 N ms",
        "GET unknown 404 N ms",
        "unknown /metrics 405 N ms",
    ]
    # Other applications of this process may note what they were asked before.
    assert [shape for shape in shapes if shape in expected] == expected
    ours = " ".join(one.getMessage() for one in caplog.records if one.name != "httpx")
    for secret in ("swordfish", "anna-karenina", *TOKENS.values()):
        assert secret not in ours
