"""A store that goes away under load, and comes back."""

import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service.conftest import new_schema
from tests.service.live.conftest import CONFIG
from tests.service.live.harness import Entry, Ledger, Load, Server, settle
from tests.service.postgres import Postgres

pytestmark = pytest.mark.xdist_group("postgresql")


def test_postgresql_may_stop_and_start_under_load(postgres: Postgres, tmp_path: Path) -> None:
    url, ledger = new_schema(postgres), Ledger()
    server = Server(tmp_path / "service", "--config", str(CONFIG), "--store", url, workers=1)
    try:
        server.start().put_items()
        with Load(server.port, ledger, seed=8) as load:
            load.goes_on()
            postgres.stop()
            load.is_refused()
            load.is_served()
            postgres.start()
            load.goes_on()
    finally:
        server.stop()
    settle(ledger, url)


def test_postgresql_may_freeze_and_thaw_under_load(postgres: Postgres, tmp_path: Path) -> None:
    url, ledger = new_schema(postgres), Ledger()
    server = Server(tmp_path / "service", "--config", str(CONFIG), "--store", url, workers=1)
    try:
        server.start().put_items()
        with Load(server.port, ledger, seed=9) as load:
            load.goes_on()
            postgres.freeze()
            try:
                # At once, when nobody knows of it yet, and when everybody does.
                for _ in range(2):
                    assert_degraded(server, ledger)
                    load.is_refused()
                load.is_served()
            finally:
                postgres.thaw()
            load.goes_on()
    finally:
        server.stop()
    settle(ledger, url)


def assert_degraded(server: Server, ledger: Ledger) -> None:
    """Slates go on without history, and feedback is refused, both in seconds."""
    event = {"slate_id": "frozen", "user_id": "user-1", "source": "search", "items": ["item-1"]}
    event |= {"seen": 1, "clicked": None}
    ledger.entries["frozen"] = Entry(event)  # it waits in the queue, and may be written later
    refused = _timed(server, "feedback", {"events": [event]})
    assert refused.status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert "retry-after" in refused.headers
    assert refused.json()["remedy"]
    made = _timed(server, "recommend", {"user_id": f"stranger-{time.monotonic_ns()}"})
    assert made.status_code == httpx.codes.OK
    assert any("history unavailable" in note for note in made.json()["notes"])


def _timed(server: Server, route: str, body: dict[str, Any]) -> httpx.Response:
    began = time.monotonic()
    answer = server.client.post(f"/v1/{route}", json=body)
    assert time.monotonic() - began < 15  # by the clocks of the server 9; others use the machine
    return answer
