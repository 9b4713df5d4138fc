"""Requests as spans of OpenTelemetry: off unless wanted, and then with what they consist of."""

import sys
from functools import partial
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from slatewise.errors import SlatewiseError
from slatewise.service.http.access import Access
from slatewise.service.http.app import _Application, application
from slatewise.service.http.backend import Backend
from slatewise.service.http.setup import Setup, worker
from slatewise.service.http.tracing import Tracing
from slatewise.service.settings import ServiceConfig

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
Spans = dict[str, ReadableSpan]


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def app(tmp_path: Path, exporter: InMemorySpanExporter) -> FastAPI:
    """An application that is open, whose spans are kept."""
    tracing = Tracing.start(SimpleSpanProcessor(exporter))
    config = ServiceConfig.build({"models": {"main": {"model": {"dimensions": 2}}}}, "a test")
    setup = Setup(tmp_path, config, None, tmp_path / "rates.bin")
    return application(partial(Backend.open, setup, tracing), tracing)


def spans_of(exporter: InMemorySpanExporter) -> Spans:
    found = {span.name: span for span in exporter.get_finished_spans()}
    exporter.clear()
    return found


def test_a_request_is_a_span_in_the_trace_of_who_asks(
    app: FastAPI, exporter: InMemorySpanExporter
) -> None:
    items = {"items": [{"id": f"item-{n}", "group": "a"} for n in range(5)]}
    with TestClient(app, base_url="http://127.0.0.1") as client:
        assert client.put("/v1/items", json=items).status_code == httpx.codes.OK
        exporter.clear()
        asked = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        slate = client.post("/v1/recommend", json={"user_id": "ann", "k": 2}, headers=asked).json()
        spans = spans_of(exporter)
        request, ranking = spans["POST /v1/recommend"], spans["make a slate"]
        assert request.context is not None
        assert request.parent is not None
        assert f"{request.context.trace_id:032x}" == TRACE
        assert f"{request.parent.span_id:016x}" == PARENT
        assert ranking.parent is not None  # made in another thread, the first time
        assert ranking.parent.span_id == request.context.span_id
        assert request.attributes is not None
        assert request.attributes["http.response.status_code"] == httpx.codes.OK
        event = {"slate_id": slate["slate_id"], "clicked": None}
        client.post("/v1/feedback", json={"events": [event]})
        spans = spans_of(exporter)
        waiting, told = spans["wait for the store"], spans["POST /v1/feedback"]
        assert waiting.parent is not None
        assert told.context is not None
        assert waiting.parent.span_id == told.context.span_id
        client.get("/v1/users/ann")
        (name,) = spans_of(exporter)
        assert name == "GET /v1/users/{user_id}"  # nobody is named


def test_off_nothing_of_it_is_on_the_way_of_a_request(tmp_path: Path) -> None:
    setup = Setup(tmp_path, ServiceConfig(), None, tmp_path / "rates.bin")
    app = worker(setup)
    assert isinstance(app, _Application)
    assert app.direct
    assert all(type(way) is Access for way in app.direct.values())
    assert [one.cls for one in app.user_middleware] == [Access]


def test_without_the_package_tracing_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    setup = Setup(tmp_path, ServiceConfig(tracing=True), None, tmp_path / "rates.bin")
    with pytest.raises(SlatewiseError, match=r"OpenTelemetry, which is not installed"):
        worker(setup)
