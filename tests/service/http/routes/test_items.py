"""Items over HTTP: in effect at once."""

from slatewise.service.http.backend import Backend
from tests.service.http.conftest import ITEMS, TestClient


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
