"""Health, metrics and the experiment."""

import re
import threading

import pytest

from slatewise.service.http import backend as backend_module
from slatewise.service.http.backend import Backend
from slatewise.service.http.routes import operations
from tests.service.http.conftest import TestClient, eventually


def sample(text: str, name: str, *labels: str) -> float:
    """Return the one sample of a metric that has these labels."""
    lines = [line for line in text.splitlines() if line.startswith(name)]
    found = [line for line in lines if all(label in line for label in labels)]
    assert len(found) == 1, lines
    return float(found[0].rsplit(" ", 1)[1])


def test_health_needs_no_token(client: TestClient) -> None:
    none = {"Authorization": ""}
    assert client.get("/health/live", headers=none).json() == {"status": "alive"}
    assert client.get("/health/ready", headers=none).json() == {"status": "ready", "notes": []}


def test_a_damaged_version_is_noted_without_its_path(
    client: TestClient, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend.service, "ready", lambda: ["/srv/secret/current.json is damaged"])
    answer = client.get("/health/ready")
    assert answer.status_code == 200
    assert answer.json()["notes"] == [operations.DAMAGED]


def test_a_missing_past_is_noted_as_it_is(
    client: TestClient, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend.service, "missing_past", lambda: ["popularity is empty"])
    assert client.get("/health/ready").json()["notes"] == ["popularity is empty"]
    monkeypatch.setattr(backend.service, "ready", lambda: ["damaged", "popularity is empty"])
    notes = client.get("/health/ready").json()["notes"]
    assert notes == [operations.DAMAGED, "popularity is empty"]


def test_a_worker_goes_on_refreshing_whatever_counting_does(
    client: TestClient, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = threading.Event()
    monkeypatch.setattr(backend_module, "_TICK", 0.05)

    def fail(*_: object) -> None:
        failed.set()
        raise RuntimeError("a test")

    with monkeypatch.context() as broken:
        broken.setattr(backend.metrics, "watch", fail)
        assert failed.wait(60)
    before = backend.refreshed
    eventually(lambda: backend.refreshed > before)
    text = client.get("/metrics").text
    told = sample(text, "slatewise_refreshed_timestamp_seconds")
    assert before < told <= backend.refreshed  # it may have refreshed again meanwhile


def test_a_worker_that_does_not_refresh_says_so(client: TestClient, backend: Backend) -> None:
    backend._ended.set()
    backend._ticking.join()
    problem = client.get("/health/ready")
    assert problem.status_code == 503
    assert "no longer follows models" in problem.json()["detail"]


def test_a_worker_that_refreshes_late_says_so(
    client: TestClient, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "LATE_SECONDS", -1.0)
    assert client.get("/health/ready").json()["notes"] == [operations.LATE]


def test_a_clock_that_jumped_and_slates_of_the_future_are_told_of(
    client: TestClient, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    day, service = 86_400_000_000, backend.service
    now = service.clock.now()
    monkeypatch.setattr(service.clock, "_wall", lambda: now + 365 * day)
    slate = client.post("/v1/recommend", json={}).json()
    assert int(slate["slate_id"][:14], 16) < now + day
    monkeypatch.setattr(service.clock_watch, "_newest", now + 9 * day)
    jumped, future = client.get("/health/ready").json()["notes"]
    assert "clock jumped: it is 31,5" in jumped
    assert "slatewise repair" in future
    text = client.get("/metrics").text
    assert sample(text, "slatewise_clock_jump_seconds") == pytest.approx(365 * 86_400, rel=0.01)
    assert sample(text, "slatewise_store_ahead_seconds") == pytest.approx(9 * 86_400, rel=0.01)


def test_metrics_count_what_was_asked_and_answered(client: TestClient, backend: Backend) -> None:
    slate = client.post("/v1/recommend", json={"user_id": "anna"}).json()
    event = {"slate_id": slate["slate_id"]}
    client.post("/v1/feedback", json={"events": [event, event, event | {"time": "never"}]})
    client.get("/v1/users/some-person-s-name")
    client.get("/no/such/path?token=something-secret")
    client.post("/v1/recommend", json={"k": -1})
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    text = answer.text
    requests = "slatewise_requests_total"
    assert sample(text, requests, "/v1/recommend", '"200"', '"POST"') == 1
    assert sample(text, requests, "/v1/recommend", '"422"') == 1
    assert sample(text, requests, 'route="unknown"', '"404"') == 1
    assert sample(text, requests, "/v1/users/{user_id}", '"200"') == 1
    assert sample(text, "slatewise_request_seconds_count", "/v1/recommend") == 2
    assert sample(text, "slatewise_slates_total", 'arm="main"', slate["version"]) == 1
    for status in ("recorded", "duplicate", "refused"):
        assert sample(text, "slatewise_feedback_total", status) == 1
    assert sample(text, "slatewise_model_info", slate["version"]) == 1
    assert sample(text, "slatewise_queue_records") == 0
    assert sample(text, "slatewise_dropped_slates_total") == 0
    assert sample(text, "slatewise_store_errors_total") == 0
    assert "some-person" not in text
    assert "secret" not in text


def test_metrics_follow_versions_and_troubles(client: TestClient, backend: Backend) -> None:
    backend.writer.dropped += 3
    backend.writer.failures += 2
    backend.metrics.serving({("main", "main", "1", "f00")})
    backend.metrics.serving({("main", "main", "2", "ba4")})
    text = client.get("/metrics").text
    assert sample(text, "slatewise_dropped_slates_total") == 3
    assert sample(text, "slatewise_store_errors_total") == 2
    assert sample(text, "slatewise_model_info", 'version="1"') == 0
    again = client.get("/metrics").text
    assert sample(again, "slatewise_dropped_slates_total") == 3
    assert re.search(r"# HELP slatewise_queue_records .+", again)


def test_the_experiment_is_told_and_not_counted_anew_for_everybody(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []

    def overview(backend: Backend) -> dict[str, int]:
        counted.append(1)
        return {"arms": len(backend.service.arms)}

    monkeypatch.setattr(operations, "_overview", overview)
    assert [client.get("/v1/experiment").json() for _ in range(3)] == [{"arms": 1}] * 3
    assert len(counted) == 1


def test_the_experiment_of_an_empty_and_of_a_busy_service_is_told(client: TestClient) -> None:
    empty = client.get("/v1/experiment")
    assert empty.status_code == 200
    client.app.state.overview_at = -1e9  # type: ignore[attr-defined]
    for number in range(12):
        slate = client.post("/v1/recommend", json={"user_id": f"user-{number}", "k": 3}).json()
        click = slate["items"][0]["id"] if number % 2 else None
        event = {"slate_id": slate["slate_id"], "clicked": click}
        client.post("/v1/feedback", json={"events": [event]})
    told = client.get("/v1/experiment")
    assert told.status_code == 200
    assert "main" in told.text
    assert "NaN" not in told.text
    assert told.json() != empty.json()
