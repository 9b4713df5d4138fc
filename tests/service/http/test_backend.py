"""Where slates are made, and what that costs."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from fastapi import FastAPI

from slatewise.service.http import backend as backend_module
from slatewise.service.http.backend import QUICK, Backend
from slatewise.service.serving import Request
from tests.service.http.conftest import TestClient

ANNA = Request(user_id="anna", k=3)


def cpu(backend: Backend) -> dict[str, float]:
    """Return the CPU seconds that were counted, by thread."""
    name, tell = "slatewise_ranking_cpu_seconds_total", backend.metrics.registry.get_sample_value
    return {thread: tell(name, {"thread": thread}) or 0.0 for thread in ("http", "ranking")}


@pytest.fixture
def make(
    client: TestClient, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """Return what makes a slate that takes some CPU seconds, and tells in which thread."""
    recommend, threads, extra = backend.service.recommend, list[str](), [0.0]

    def slow(request: Request) -> Any:
        threads.append("ranking" if "ranking" in threading.current_thread().name else "http")
        end = time.thread_time() + extra[0]
        while time.thread_time() < end:
            pass
        return recommend(request)

    def made(seconds: float = 0.0, request: Request = ANNA) -> str:
        extra[0] = seconds
        assert client.portal is not None
        client.portal.call(backend.recommend, request)
        client.portal.call(backend.metrics.later.now)
        return threads[-1]

    monkeypatch.setattr(backend.service, "recommend", slow)
    return made


def test_slates_that_take_little_are_made_on_the_spot(
    make: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend_module, "QUICK", 0.05)  # on a slow machine, too
    assert make() == "ranking"
    assert "http" in [make() for _ in range(200)]


def test_slates_with_long_lists_are_made_in_threads(
    make: Callable[..., str], backend: Backend
) -> None:
    backend._usual = 0.0
    for lists in ({"clicks": 101}, {"exclude": 101}, {"allow": 60, "exclude": 60}):
        wanted = {name: tuple(map(str, range(size))) for name, size in lists.items()}
        assert make(request=Request(**wanted)) == "ranking"  # type: ignore[arg-type]
    assert backend._usual == 0.0
    assert make(request=Request(clicks=("item-1",) * 100)) == "http"


def test_slates_that_take_long_are_made_in_threads(
    make: Callable[..., str], backend: Backend
) -> None:
    make()  # now she is known
    backend._usual = 0.0
    assert make(20 * QUICK) == "http"
    assert make(20 * QUICK) == "ranking"


def test_nobody_waits_for_the_store_on_the_spot(make: Callable[..., str], backend: Backend) -> None:
    backend._usual = 0.0
    assert make() == "ranking"  # her history has to be read
    backend._usual = 0.0
    assert make() == "http"
    backend.service.changed_users(["anna"])
    assert make() == "ranking"
    backend._usual = 0.0
    assert make(request=Request(k=3)) == "http"
    backend.service.changed_items()
    assert make(request=Request(k=3)) == "ranking"


def test_what_changed_while_a_slate_waited_for_its_turn_is_not_read_on_the_spot(
    make: Callable[..., str], client: TestClient, backend: Backend
) -> None:
    make()
    backend._usual, before = 0.0, cpu(backend)
    assert client.portal is not None
    client.portal.call(backend._turn.acquire)
    waiting = client.portal.start_task_soon(backend.recommend, ANNA)
    client.portal.call(asyncio.sleep, 0)
    backend.service.changed_users(["anna"])
    client.portal.call(backend._turn.release)
    waiting.result()
    client.portal.call(backend.metrics.later.now)
    after = cpu(backend)
    assert after["http"] == before["http"]
    assert after["ranking"] > before["ranking"]


def test_others_have_their_turn_between_slates_made_on_the_spot(
    client: TestClient, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    recommend, order = backend.service.recommend, list[str]()

    def noted(request: Request) -> Any:
        order.append("slate")
        return recommend(request)

    async def other() -> None:
        for _ in range(20):
            order.append("other")
            await asyncio.sleep(0)

    async def all_at_once() -> None:
        await backend.recommend(Request(k=3))  # now the items are known
        order.clear()
        backend._usual = 0.0
        await asyncio.gather(*(backend.recommend(Request(k=3)) for _ in range(5)), other())

    monkeypatch.setattr(backend.service, "recommend", noted)
    assert client.portal is not None
    client.portal.call(all_at_once)
    assert order.count("slate") == 5
    assert ("slate", "slate") not in pairwise(order)


@pytest.mark.parametrize("thread", ["http", "ranking"])
def test_the_processor_time_of_slates_is_counted_by_thread(
    make: Callable[..., str], backend: Backend, thread: str
) -> None:
    make()
    backend._usual = 0.0 if thread == "http" else 1.0
    before = cpu(backend)
    assert make(0.2) == thread
    after = cpu(backend)
    assert 0.2 <= after.pop(thread) - before.pop(thread) < 0.4
    assert after == before


def test_a_slate_that_takes_long_costs_its_token_more(
    make: Callable[..., str], backend: Backend
) -> None:
    def cost(seconds: float) -> float:
        before = backend.gate.rate.taken(0)
        make(seconds)
        return backend.gate.rate.taken(0) - before

    make()
    assert min(cost(0.0) for _ in range(5)) < 20
    assert 90 < cost(0.1) < 500


@pytest.mark.parametrize("usual", [0.0, 1.0])
def test_a_slate_that_waited_too_long_for_its_turn_is_refused(
    client: TestClient, backend: Backend, monkeypatch: pytest.MonkeyPatch, usual: float
) -> None:
    assert client.post("/v1/recommend", json={"user_id": "anna"}).status_code == 200
    monkeypatch.setattr(backend_module, "LATE", -1.0)
    backend._usual = usual
    answer = client.post("/v1/recommend", json={"user_id": "anna"})
    assert answer.status_code == 503
    assert answer.headers["retry-after"]
    assert client.post("/v1/rank", json={"items": ["item-1"]}).status_code == 503
    assert client.get("/health/ready").status_code == 200


def test_the_last_lines_of_the_log_are_written_before_a_worker_ends(app: FastAPI) -> None:
    flushed: list[bool] = []

    class Lines(logging.Handler):
        def flush(self) -> None:
            flushed.append(app.state.backend._ticking.is_alive())

    handler = Lines()
    logging.getLogger().addHandler(handler)
    try:
        with TestClient(app):
            pass
        assert flushed == [False]  # once, after the backend was closed and could say what is lost
    finally:
        logging.getLogger().removeHandler(handler)
