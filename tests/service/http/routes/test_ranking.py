"""Given items are ordered over HTTP as slates are made, and nothing of it is kept."""

from typing import Any

import pytest

from slatewise.service.http.backend import Backend
from slatewise.service.http.schemas import RankAnswer
from tests.service.http.conftest import ITEMS, TestClient


def ranked(client: TestClient, **body: Any) -> dict[str, Any]:
    answer = client.post("/v1/rank", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    RankAnswer.model_validate(found, extra="forbid", strict=True)
    return found


def test_given_items_come_in_the_order_of_their_utility(
    client: TestClient, backend: Backend
) -> None:
    asked = ["item-4", "item-1", "item-9", "nothing", "item-1"]
    found = ranked(client, user_id="anna", items=asked, clicks=["item-1"])
    assert sorted(item["id"] for item in found["items"]) == ["item-1", "item-4", "item-9"]
    utilities = [item["utility"] for item in found["items"]]
    assert utilities == sorted(utilities, reverse=True)
    assert sum(item["probability"] for item in found["items"]) == pytest.approx(1)
    assert found["left_out"] == ["nothing"]
    assert (found["arm"], found["model"], found["user_id"]) == ("main", "main", "anna")
    best = ranked(client, user_id="anna", items=asked, clicks=["item-1"], k=1)
    assert best["items"] == found["items"][:1]
    backend.writer.close()  # which writes what waits
    assert backend.store.unanswered("anna", 10) == []


def test_a_ranking_is_that_of_a_greedy_slate_of_the_same_items(
    client: TestClient, backend: Backend
) -> None:
    every = [item["id"] for item in ITEMS]
    found = ranked(client, items=every, clicks=["item-2"])
    live = backend.service._live["main"]
    known = live.known(backend.service._user(None, []).lookup(("item-2",)))
    again = live.maker.rank(known, every)
    assert [item["id"] for item in found["items"]] == again.items


def test_an_empty_list_and_one_that_is_too_long_are_refused(
    client: TestClient, backend: Backend
) -> None:
    assert client.post("/v1/rank", json={"items": []}).status_code == 422
    many = [f"item-{n}" for n in range(backend.config.limits.ids + 1)]
    assert client.post("/v1/rank", json={"items": many}).status_code == 422
