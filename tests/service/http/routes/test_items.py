"""Items over HTTP: in effect at once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from slatewise.model.config import ModelConfig
from slatewise.service.http.backend import Backend
from tests.contract.world import model_of, small_log
from tests.service.http.conftest import ITEMS, TestClient, client_of
from tests.service.serving.world import a_model, promote


def offered(client: TestClient) -> set[str]:
    answer = client.post("/v1/recommend", json={"k": 50})
    return {item["id"] for item in answer.json()["items"]}


def test_an_item_is_shown_hidden_and_removed_at_once(client: TestClient) -> None:
    everything = {item["id"] for item in ITEMS}
    assert offered(client) == everything
    told = client.put("/v1/items/new", json={"group": "lamps"}).json()
    assert told == {"id": "new", "group": "lamps", "state": "shown"}
    assert offered(client) == {*everything, "new"}
    assert client.put("/v1/items/new", json={"group": "lamps", "state": "hidden"}).is_success
    assert offered(client) == everything
    assert client.get("/v1/items/new").json()["state"] == "hidden"
    assert client.put("/v1/items/new", json={"group": "lamps"}).is_success
    assert offered(client) == {*everything, "new"}
    assert client.delete("/v1/items/new").json()["state"] == "removed"
    assert offered(client) == everything
    assert client.get("/v1/items/new").status_code == 404
    assert client.delete("/v1/items/new").status_code == 404
    assert client.put("/v1/items/new", json={"group": "lamps"}).is_success
    assert offered(client) == {*everything, "new"}


def test_items_are_listed_in_pages(client: TestClient) -> None:
    found, after = [], None
    while True:
        page = client.get("/v1/items", params={"limit": 5} | ({"after": after} if after else {}))
        found += [item["id"] for item in page.json()["items"]]
        after = page.json()["next"]
        if after is None:
            break
    assert found == sorted(item["id"] for item in ITEMS)


def test_a_batch_is_taken_whole_or_not_at_all(client: TestClient, backend: Backend) -> None:
    before = backend.store.item_seq()
    bad = [{"id": "fine", "group": "a"}, {"id": "bad\x00", "group": "a"}]
    assert client.put("/v1/items", json={"items": bad}).status_code == 422
    assert backend.store.item_seq() == before
    both = [{"id": 5, "group": "a"}, {"id": "six", "group": "a", "state": "hidden"}]
    assert client.put("/v1/items", json={"items": both}).json() == {"changed": 2}
    assert "5" in offered(client)
    assert "six" not in offered(client)


def test_an_item_needs_a_group(client: TestClient) -> None:
    assert client.put("/v1/items/new", json={}).status_code == 422
    assert client.put("/v1/items/new", json={"group": ""}).status_code == 422
    assert client.put("/v1/items/new", json={"group": "a", "state": "removed"}).status_code == 422


def test_features_are_kept_until_others_are_told(client: TestClient) -> None:
    dear = {"price": 120, "brand": "ash", "text": [0.5, -2], "new": True, "size": None}
    told = client.put("/v1/items/new", json={"group": "lamps", "features": dear}).json()
    assert told == {"id": "new", "group": "lamps", "state": "shown", "features": dear}
    assert client.get("/v1/items/new").json() == told
    hidden = client.put("/v1/items/new", json={"group": "lamps", "state": "hidden"}).json()
    assert hidden == {"id": "new", "group": "lamps", "state": "hidden"}
    listed = client.get("/v1/items", params={"limit": 1_000}).json()["items"]
    assert [item.get("features") for item in listed if item["id"] == "new"] == [dear]
    assert sum("features" in item for item in listed) == 1
    both = [
        {"id": "new", "group": "lamps", "features": {}},
        {"id": 5, "group": "lamps", "features": {"price": 1.5}},
    ]
    assert client.put("/v1/items", json={"items": both}).json() == {"changed": 2}
    assert client.get("/v1/items/new").json()["features"] == {}
    assert client.get("/v1/items/5").json()["features"] == {"price": 1.5}


@pytest.mark.parametrize(
    "features",
    [
        {"price": {"amount": 3}},
        {"text": [1, "two"]},
        {"text": [0.5] * 5_000},
        {"brand": "x" * 300},
        {"brand": "\x00"},
        {"": 1},
        {"text": [None]},
        {"price": 1e301},
        {f"feature-{number}": number for number in range(101)},
        {f"text-{number}": [0.123456789012345] * 4_000 for number in range(2)},
        [1],
        "dear",
    ],
)
def test_features_that_are_none_are_refused(client: TestClient, features: Any) -> None:
    body = {"items": [{"id": "new", "group": "a", "features": features}]}
    answer = client.put("/v1/items", json=body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["remedy"]
    assert client.get("/v1/items/new").status_code == 404


def test_a_model_that_knows_a_feature_says_what_does_not_fit(
    make_app: Callable[..., FastAPI], tmp_path: Path
) -> None:
    app = make_app()
    promote(tmp_path / "service", a_model(described=True))
    with client_of(app) as client:
        body = {
            "items": [
                {"id": "fine", "group": "red", "features": {"price": 12, "weight": "heavy"}},
                {"id": "bad", "group": "red", "features": {"price": "dear"}},
            ]
        }
        answer = client.put("/v1/items", json=body)
        assert answer.status_code == 422
        assert answer.json()["detail"] == "items.1.features: column 'price': 'dear' is no number."
        assert "leave it out" in answer.json()["remedy"]
        assert offered(client) == set()
        body["items"].pop()
        assert client.put("/v1/items", json=body).is_success
        assert offered(client) == {"fine"}
        far = client.put("/v1/items/far", json={"group": "red", "features": {"price": 1e9}})
        assert "standard deviations" in far.json()["detail"]


def test_features_that_do_not_count_yet_are_noted(
    make_app: Callable[..., FastAPI], tmp_path: Path
) -> None:
    app, config = make_app(), ModelConfig(terms=("network",), network_units=4, network_members=1)
    promote(tmp_path / "service", model_of(config, small_log(tmp_path)))
    dear = {"group": "a", "features": {"price": 3}}
    with client_of(app) as client:
        many = client.put("/v1/items", json={"items": [{"id": "i3", **dear}]}).json()
        assert many["changed"] == 1
        assert "other features of 'i3'" in many["notes"][0]
        assert client.put("/v1/items/i3", json=dear).json()["notes"] == many["notes"]
        assert "notes" not in client.put("/v1/items/new", json=dear).json()
