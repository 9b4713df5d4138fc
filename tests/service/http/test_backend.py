"""Where slates are made, and what that costs."""

import threading
import time

import pytest

from slatewise.service.http.backend import QUICK, Backend
from tests.service.http.conftest import TestClient


def cpu(backend: Backend, thread: str) -> float:
    """Return the CPU seconds that were counted."""
    name = "slatewise_ranking_cpu_seconds_total"
    return backend.metrics.registry.get_sample_value(name, {"thread": thread}) or 0.0


def busy(seconds: float) -> str:
    """Use the processor for a while; return the name of the thread."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
    return threading.current_thread().name


def test_slates_that_take_little_are_made_on_the_spot(client: TestClient, backend: Backend) -> None:
    assert client.portal is not None
    names = [client.portal.call(backend.rank, busy, 0.0) for _ in range(100)]
    assert names[0].startswith("ranking")
    assert not names[-1].startswith("ranking")
    assert len(set(names)) >= 2


def test_one_slate_that_takes_long_is_enough_for_threads(
    client: TestClient, backend: Backend
) -> None:
    assert client.portal is not None
    for _ in range(100):
        client.portal.call(backend.rank, busy, 0.0)
    assert not client.portal.call(backend.rank, busy, 5 * QUICK).startswith("ranking")
    assert client.portal.call(backend.rank, busy, 0.0).startswith("ranking")


def test_slates_are_made_in_threads_while_the_store_is_in_trouble(
    client: TestClient, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.portal is not None
    for _ in range(100):
        client.portal.call(backend.rank, busy, 0.0)
    monkeypatch.setattr(backend.writer, "problem", "no store")
    assert client.portal.call(backend.rank, busy, 0.0).startswith("ranking")


@pytest.mark.parametrize("thread", ["http", "ranking"])
def test_the_processor_time_of_slates_is_counted_by_thread(
    client: TestClient, backend: Backend, thread: str
) -> None:
    assert client.portal is not None
    backend._usual = 0.0 if thread == "http" else 1.0
    before = {name: cpu(backend, name) for name in ("http", "ranking")}
    client.portal.call(backend.rank, busy, 0.05)
    after = {name: cpu(backend, name) for name in ("http", "ranking")}
    assert 0.05 <= after.pop(thread) - before.pop(thread) < 0.1
    assert after == before
