"""Workers of one directory see what the others change, at their next request."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slatewise.service.serving import Request, Service
from tests.service.serving.world import a_model, a_service, promote, put, visit

WORKER = """
import json, sys
from pathlib import Path
from slatewise.service.settings import ServiceConfig
from slatewise.service.store.records import ItemState
from slatewise.service.serving import Request, Service
from slatewise.service.store import Store

directory, config = Path(sys.argv[1]), ServiceConfig.build({"cache_seconds": 1000}, "a test")
service = Service.open(directory, config, Store.open(config.store_url(directory)))
print("ready", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if "put" in asked:
        service.store.put_items([(asked["put"], "red", ItemState(asked["state"]))])
        service.changed_items()
        print("{}", flush=True)
    elif "refresh" in asked:
        service.refresh()
        print("{}", flush=True)
    else:
        record, _, notes = service.recommend(Request(asked["user"], k=100, seed=1))
        answer = {"items": record.items, "version": record.serving.version, "notes": notes}
        print(json.dumps(answer), flush=True)
"""


class Worker:
    """A service in a process of its own."""

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "ready\n"

    def ask(self, **asked: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._line())
        return answer

    def close(self) -> None:
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Service:
    return a_service(tmp_path_factory.mktemp("workers"), a_model())


@pytest.fixture(scope="module")
def worker(ours: Service) -> Iterator[Worker]:
    worker = Worker(ours.directory)
    yield worker
    worker.close()


def test_items_that_one_worker_changes_are_changed_in_the_other(
    ours: Service, worker: Worker
) -> None:
    assert "fresh" not in worker.ask(user=None)["items"]
    put(ours, "fresh")
    assert "fresh" in worker.ask(user=None)["items"]
    put(ours, "fresh", state="hidden")
    assert "fresh" not in worker.ask(user=None)["items"]
    worker.ask(put="fresh", state="shown")
    worker.ask(put="a03", state="removed")
    items = ours.recommend(_all())[0].items
    assert "fresh" in items
    assert "a03" not in items
    assert worker.ask(put="a03", state="shown") == {}
    assert "a03" in ours.recommend(_all())[0].items


def test_clicks_that_one_worker_wrote_count_in_the_other(ours: Service, worker: Worker) -> None:
    assert "a10" in worker.ask(user="ann")["items"]
    visit(ours, "ann", ["a10", "a11"], ["a10"])
    assert "a10" not in worker.ask(user="ann")["items"]
    assert "a10" in worker.ask(user="bob")["items"]


def test_workers_make_the_same_slates(ours: Service, worker: Worker) -> None:
    visit(ours, "carl", ["a20", "a21"], ["a20"])
    worker.ask(refresh=True)  # or it would note that nothing was ever clicked
    for user in (None, "ann", "carl"):
        mine = list(ours.recommend(_all(user))[0].items)
        assert worker.ask(user=user) == {"items": mine, "version": "1", "notes": []}


def test_a_new_version_serves_in_all_workers(ours: Service, worker: Worker) -> None:
    version = promote(ours.directory, a_model(seed=31))
    assert worker.ask(user=None)["version"] == "1"
    worker.ask(refresh=True)
    ours.refresh()
    mine = list(ours.recommend(_all())[0].items)
    assert worker.ask(user=None) == {"items": mine, "version": version, "notes": []}
    tables = list((ours.directory / "models" / "main" / version).glob("table-*"))
    assert len(tables) == 1


def _all(user: str | None = None) -> Request:
    return Request(user, k=100, seed=1)
