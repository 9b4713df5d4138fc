"""A store that goes away under load, and comes back; two hosts that share it."""

import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from slatewise.service.serving.models import Models
from slatewise.service.store import Store
from slatewise.training import runs
from tests.service.conftest import new_schema
from tests.service.live.conftest import CONFIG
from tests.service.live.harness import (
    ITEMS,
    SLATEWISE,
    Entry,
    Ledger,
    Load,
    Server,
    eventually,
    settle,
)
from tests.service.postgres import Postgres
from tests.service.serving.world import a_model

pytestmark = pytest.mark.xdist_group("postgresql")


def test_postgresql_may_stop_and_start_under_load(postgres: Postgres, tmp_path: Path) -> None:
    url, ledger = new_schema(postgres), Ledger()
    server = Server(tmp_path / "service", "--config", str(CONFIG), "--store", url, workers=1)
    try:
        server.start().put_items()
        with Load(server.port, ledger) as load:
            load.goes_on()
            with postgres.stopped():
                load.is_refused()
                load.is_served()
            load.goes_on()
    finally:
        server.stop()
    settle(ledger, url)


def test_postgresql_may_freeze_and_thaw_under_load(postgres: Postgres, tmp_path: Path) -> None:
    url, ledger = new_schema(postgres), Ledger()
    server = Server(tmp_path / "service", "--config", str(CONFIG), "--store", url, workers=1)
    try:
        server.start().put_items()
        with Load(server.port, ledger) as load:
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


def test_a_rollback_on_one_host_counts_on_the_other_whatever_happens_to_them(
    postgres: Postgres, tmp_path: Path
) -> None:
    url, ledger = new_schema(postgres), Ledger()
    # Models with the names of the items that the load asks for.
    runs.save(a_model(ids=ITEMS), tmp_path / "run")
    common = ("--config", str(CONFIG), "--store", url)
    first, second = (
        Server(tmp_path / name, *common, *begin, workers=1, log=tmp_path / f"{name}.log")
        for name, begin in (("first", ("--run", str(tmp_path / "run"))), ("second", ()))
    )
    hosts = first, second
    store = Store.open(url)

    def promote(host: Server, seed: int) -> str:
        models = Models.of(host.directory, "main", store)
        runs.save(a_model(seed=seed, ids=ITEMS), tmp_path / f"run-{seed}")
        version = models.add(
            tmp_path / f"run-{seed}", lambda least: store.take_version("main", least)
        )
        models.promote(version, "a test")
        return version

    def roll_back(host: Server) -> str:
        command = [*SLATEWISE, "rollback", str(host.directory), "--store", url]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def all_serve(version: str) -> bool:
        wanted = {"user_id": "stranger", "k": 6, "seed": 3}
        answers = [host.client.post("/v1/recommend", json=wanted) for host in hosts]
        made = [answer.raise_for_status().json() for answer in answers]
        shown = {tuple(item["id"] for item in one["items"]) for one in made}
        return {one["version"] for one in made} == {version} and len(shown) == 1

    with ExitStack() as stack:
        stack.callback(store.close)
        first.start().put_items()
        stack.callback(first.stop)
        second.start()
        stack.callback(second.stop)
        with Load(first.port, ledger), Load(second.port, ledger) as load:
            assert promote(first, 2) == "2"
            eventually(lambda: all_serve("2"), "both serve the second version")
            assert "1 serves again instead of 2" in roll_back(second)
            eventually(lambda: all_serve("1"), "both serve the first version again")
            load.goes_on()
        assert promote(second, 3) == "3"  # the number of what was rolled back is not given again
        eventually(lambda: all_serve("3"), "both serve the third version")
        second.kill()
        assert "1 serves again instead of 3" in roll_back(first)
        second.start()
        eventually(lambda: all_serve("1"), "so does the one that was killed meanwhile")
    assert not {kind for kind in ledger.statuses if not kind.endswith(" 200")}, ledger.statuses
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
