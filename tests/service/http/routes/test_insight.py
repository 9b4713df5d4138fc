"""What the page asks: what serves, slates to try, a map, nights, and what it changes."""

import json
import threading
from pathlib import Path

import pytest

from slatewise.service.http.backend import WAITING, Backend
from slatewise.service.http.limits import RateLimit
from slatewise.service.http.routes import insight
from slatewise.service.serving import Request
from tests.service.http.conftest import TestClient, bearer, eventually

CHANGES = [
    ("PUT", "/v1/arms", {"arms": {"main": {"share": 1}}}),
    ("DELETE", "/v1/arms", None),
    ("POST", "/v1/models/main/rollback", None),
    ("POST", "/v1/try", {"user_id": "anna"}),
]


@pytest.mark.parametrize("role", ["read", "write", "admin"])
def test_a_token_is_told_its_role(client: TestClient, role: str) -> None:
    answer = client.get("/v1/token", headers=bearer(role)).json()
    assert answer == {"role": role, "open": False}


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
def test_only_an_administrator_changes_arms_and_looks_at_people(
    client: TestClient, method: str, path: str, body: object
) -> None:
    refused = client.request(method, path, json=body, headers=bearer("write"))
    assert refused.status_code == 403
    assert client.request(method, path, json=body).status_code in (200, 409)


def test_tried_slates_are_those_of_the_service_and_are_not_logged(
    client: TestClient, backend: Backend
) -> None:
    body = {"clicks": ["item-3", "nothing"], "k": 4, "seed": 7}
    tried = client.post("/v1/try", json=body).json()
    served = client.post("/v1/recommend", json={"clicks": ["item-3"], "k": 4, "seed": 7}).json()
    by_name = {slate["strategy"]: slate["items"] for slate in tried["slates"]}
    assert list(by_name) == ["greedy", "thompson", "in-slate-thompson"]
    assert [item["id"] for item in by_name["in-slate-thompson"]] == [
        item["id"] for item in served["items"]
    ]
    assert tried["unknown"] == ["nothing"]
    assert tried["clicked"] == [{"id": "item-3", "group": "group-0"}]
    assert len(tried["path"]) == 2
    backend.writer.call(lambda: None).result()
    assert backend.store.seq() == 1  # the slate of /v1/recommend alone


def test_terms_add_up_to_the_utility_that_ranks(client: TestClient) -> None:
    tried = client.post("/v1/try", json={"clicks": ["item-3"], "strategies": ["greedy"]}).json()
    items = tried["slates"][0]["items"]
    body = {"clicks": ["item-3"], "items": [item["id"] for item in items]}
    ranked = client.post("/v1/rank", json=body).json()["items"]
    utilities = {item["id"]: item["utility"] for item in ranked}
    for item in items:
        assert sum(item["adds"].values()) == pytest.approx(utilities[item["id"]], abs=1e-5)


def test_a_person_is_tried_with_her_history(client: TestClient) -> None:
    slate = client.post("/v1/recommend", json={"user_id": "anna", "k": 3}).json()
    clicked = slate["items"][0]["id"]
    event = {"slate_id": slate["slate_id"], "clicked": clicked}
    client.post("/v1/feedback", json={"events": [event]}).raise_for_status()
    tried = client.post("/v1/try", json={"user_id": "anna", "clicks": ["item-3"]}).json()
    assert [item["id"] for item in tried["clicked"]] == [clicked, "item-3"]


def test_the_map_has_all_items_or_a_sample_with_all_groups(client: TestClient) -> None:
    whole = client.get("/v1/map").json()
    assert sorted(whole["ids"]) == sorted(f"item-{n}" for n in range(12))
    assert [group["items"] for group in whole["groups"]] == [4, 4, 4]
    part = client.get("/v1/map", params={"limit": 11}).json()
    assert part["offered"] == 12
    assert len(part["ids"]) == len(part["x"]) == len(part["scale"]) == 10
    assert part["groups"] == whole["groups"]
    client.put("/v1/items/item-1", json={"group": "group-1", "state": "hidden"})
    assert "item-1" not in client.get("/v1/map").json()["ids"]
    assert client.get("/v1/map", params={"model": "other"}).status_code == 404


def test_maps_of_almost_the_same_size_are_drawn_once(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []
    monkeypatch.setattr(insight, "map_json", lambda live, most: drawn.append(most) or b"{}")
    for limit in (1_000, 1_001, 2_345, 3_999):
        assert client.get("/v1/map", params={"limit": limit}).status_code == 200
    assert drawn == [1_000]


@pytest.mark.parametrize(
    ("path", "units"),
    [
        ("/v1/map", 50),
        ("/v1/experiment/history", 20),
        ("/v1/items?search=item", 20),
        ("/v1/items?limit=3", 1),
    ],
)
@pytest.mark.usefixtures("still")
def test_what_takes_long_to_work_out_is_charged_by_its_cost(
    client: TestClient, backend: Backend, path: str, units: float
) -> None:
    backend.gate.rate = RateLimit.alone(0.01, 3)  # one at once, and the next after 100 s
    assert client.get(path).status_code == 200
    refused = client.get("/v1/token")
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) == pytest.approx(100 * units, abs=2)


def test_who_asks_too_much_at_once_of_what_takes_long_is_refused(
    client: TestClient, backend: Backend
) -> None:
    go, answers = threading.Event(), list[int]()
    assert client.portal is not None
    waiting = [
        client.portal.start_task_soon(backend.look, lambda: go.wait(60)) for _ in range(WAITING + 1)
    ]
    eventually(lambda: backend._looking == WAITING + 1)
    answers = [client.post("/v1/try", json={}).status_code, client.get("/v1/map").status_code]
    assert answers == [429, 429]
    # Nobody else is kept waiting.
    for path in ("/health/ready", "/metrics", "/v1/items", "/v1/status"):
        assert client.get(path).status_code == 200
    go.set()
    assert [one.result(60) for one in waiting] == [True] * (WAITING + 1)
    assert client.post("/v1/try", json={}).status_code == 200


def test_items_are_searched_by_id_and_group_with_their_numbers(client: TestClient) -> None:
    found = client.get("/v1/items", params={"search": "GROUP-1", "numbers": True}).json()["items"]
    assert [item["id"] for item in found] == ["item-1", "item-10", "item-4", "item-7"]
    assert found[0]["numbers"]["main"]["views"] == 0
    assert found[0]["numbers"]["main"]["scale"] > 0
    assert client.get("/v1/items", params={"search": "%"}).json()["items"] == []


def test_arms_are_changed_while_it_runs_and_kept(client: TestClient, backend: Backend) -> None:
    body = {"arms": {"new": {"share": 3, "strategy": "greedy"}}}
    assert client.put("/v1/arms", json=body).json() == {"shares": {"main": 0.0, "new": 1.0}}
    slate = client.post("/v1/recommend", json={"user_id": "anna"}).json()
    assert (slate["arm"], slate["strategy"]) == ("new", "greedy")
    assert client.get("/v1/experiment").json()["reference"] == "main"
    service = backend.service
    again = type(service).open(service.directory, service.given, backend.store)
    assert again.recommend(Request(user_id="anna"))[0].serving.arm == "new"  # type: ignore[union-attr]
    other = service.given.changed(arms={"main": {"share": 2.0}})
    assert type(service).open(service.directory, other, backend.store).config.shares == {"main": 2}
    assert client.get("/v1/status").json()["changed"]
    assert client.delete("/v1/arms").json() == {"shares": {"main": 1.0}}
    assert client.post("/v1/recommend", json={"user_id": "anna"}).json()["arm"] == "main"


@pytest.mark.parametrize(
    "arms", [{"main": {"share": 0}}, {"b": {"share": 1, "model": "other"}}], ids=["none", "model"]
)
def test_arms_that_cannot_run_are_refused(client: TestClient, arms: object) -> None:
    refused = client.put("/v1/arms", json={"arms": arms})
    assert refused.status_code == 409
    assert refused.json()["remedy"]
    assert client.get("/v1/status").json()["arms"][0]["share"] == 1


def test_a_misspelt_field_of_an_arm_is_named(client: TestClient) -> None:
    refused = client.put("/v1/arms", json={"arms": {"main": {"shares": 1}}})
    assert refused.status_code == 422
    assert "Did you mean share?" in refused.json()["remedy"]


def test_status_counts_requests_and_their_times(client: TestClient) -> None:
    client.post("/v1/recommend", json={}).raise_for_status()
    status = client.get("/v1/status").json()
    route = status["routes"]["/v1/recommend"]
    assert route["requests"] == 1
    assert route["seconds"][-1][1] == 1
    assert status["models"][0]["last_night"] is None
    assert status["offered"] == 12


def test_history_tells_click_rates_by_period(client: TestClient) -> None:
    slate = client.post("/v1/recommend", json={"user_id": "anna", "k": 3}).json()
    event = {"slate_id": slate["slate_id"], "clicked": slate["items"][0]["id"]}
    client.post("/v1/feedback", json={"events": [event]}).raise_for_status()
    found = client.get("/v1/experiment/history").json()
    (period,) = found["periods"]
    assert period["arms"]["main"]["seen"] == 1
    assert period["arms"]["main"]["click_rate"]["value"] == 1
    assert period["arms"]["main"]["little_seen"] == 1  # before training nothing was seen


def test_slates_of_others_are_counted_by_day_and_source(client: TestClient) -> None:
    assert client.get("/v1/loaded").json() == {"days": []}
    day = "2026-03-0{}T12:00:00Z"
    events = [
        {
            "slate_id": f"theirs-{number}",
            "user_id": "anna",
            "source": source,
            "items": ["item-1", "item-2"],
            "time": day.format(date),
            "clicked": clicked,
        }
        for number, (date, source, clicked) in enumerate(
            [(1, "search", "item-1"), (1, "search", None), (1, "home", None), (2, "home", "item-2")]
        )
    ]
    client.post("/v1/feedback", json={"events": events}).raise_for_status()
    client.app.state.kept.clear()  # what was counted lately is kept for a moment
    found = client.get("/v1/loaded").json()["days"]
    assert [tuple(one.values()) for one in found] == [
        ("2026-03-01T00:00:00Z", "home", 1, 0),
        ("2026-03-01T00:00:00Z", "search", 2, 1),
        ("2026-03-02T00:00:00Z", "home", 1, 1),
    ]


def test_nights_are_told_newest_first_and_damaged_reports_left_out(
    client: TestClient, backend: Backend
) -> None:
    reports: Path = backend.service.directory / "models" / "main" / "reports"
    reports.mkdir(parents=True)
    for name in ("20260101T000000Z", "20260102T000000Z"):
        (reports / f"{name}.json").write_text(json.dumps({"time": name, "outcome": "kept"}))
    (reports / "20260103T000000Z.json").write_text("{")
    nights = client.get("/v1/nights").json()["nights"]["main"]
    assert [night["time"] for night in nights] == ["20260102T000000Z", "20260101T000000Z"]
    learned = client.get("/v1/models/main").json()
    assert learned["versions"] == []
    assert [one["items"] for one in learned["scales"]] == [12]
