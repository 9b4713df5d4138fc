"""The application in this process, and the real server as processes."""

import asyncio
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import httpx
import psutil
import pytest
from fastapi import FastAPI

from slatewise.service.http import limits
from slatewise.service.http.app import application
from slatewise.service.http.backend import Backend
from slatewise.service.http.security import read_tokens
from slatewise.service.http.setup import Setup
from slatewise.service.settings import ServiceConfig
from tests.service.sharing import FAILED, free_port

with warnings.catch_warnings():  # it would rather have the successor of httpx
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

Result = TypeVar("Result")
TOKENS = {role: f"{role}-token-0123456789" for role in ("read", "write", "admin")}
VARIABLE = ",".join(f"{role}:{token}" for role, token in TOKENS.items())
ITEMS = [{"id": f"item-{number}", "group": f"group-{number % 3}"} for number in range(12)]
SETTINGS = {"models": {"main": {"model": {"dimensions": 3, "dynamics": "linear"}}}}


def bearer(role: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKENS[role]}"}


def eventually(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def in_a_loop(work: Coroutine[Any, Any, Result]) -> Result:
    """Use another thread: in this one, tests with a browser leave an event loop running."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def make_application(home: Path, *, open_to_all: bool = False, **settings: Any) -> FastAPI:
    """Return an application over an empty store."""
    directory, rates = home / "service", home / "rates.bin"
    directory.mkdir()
    config = ServiceConfig.model_validate(SETTINGS | settings)
    tokens = None if open_to_all else read_tokens(None, {"SLATEWISE_TOKENS": VARIABLE})
    return application(partial(Backend.open, Setup(directory, config, tokens, rates), None))


def client_of(app: FastAPI) -> TestClient:
    """Return a client of an administrator, to be entered."""
    return TestClient(app, headers=bearer("admin"), raise_server_exceptions=False)


@pytest.fixture
def make_app(tmp_path: Path) -> Callable[..., FastAPI]:
    """Return what makes an application over an empty store."""
    return partial(make_application, tmp_path)


@pytest.fixture
def app(make_app: Callable[..., FastAPI]) -> FastAPI:
    return make_app()


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    """A client of an administrator, and a service with some items."""
    with client_of(app) as opened:
        assert opened.put("/v1/items", json={"items": ITEMS}).status_code == 200
        yield opened


@pytest.fixture(scope="session")
def anvil(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A client to hammer on: what is sent to it must leave nothing behind that others mind."""
    with client_of(make_application(tmp_path_factory.mktemp("anvil"))) as opened:
        assert opened.put("/v1/items", json={"items": ITEMS}).status_code == 200
        yield opened


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no time pass for limits: on a busy machine, buckets would fill again meanwhile."""
    monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=partial(float, time.monotonic())))


@pytest.fixture
def backend(client: TestClient, app: FastAPI) -> Backend:
    found: Backend = app.state.backend
    return found


class Server:
    """`slatewise serve` as processes."""

    def __init__(self, directory: Path, workers: int = 2) -> None:
        self.port = free_port()
        self.directory, self.log = directory, directory.with_name("log")
        config = directory.with_name("service.toml")
        config.write_text('[models.main.model]\ndimensions = 3\ndynamics = "linear"\n')
        command = ["serve", directory, "--port", str(self.port), "--workers", str(workers)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "slatewise", *command, "--config", config],
                stdout=log,
                stderr=log,
                env=os.environ | {"SLATEWISE_TOKENS": VARIABLE, "OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )
        self.client = self.connect()
        try:
            eventually(lambda: self._up(workers), 180)
        except BaseException as error:
            error.add_note(self.said())
            self.kill()
            raise

    def _up(self, workers: int) -> bool:
        assert self.process.poll() is None, self.said()
        return self.said().count("startup complete") >= workers

    def connect(self) -> httpx.Client:
        """Return a client with connections of its own."""
        url = f"http://127.0.0.1:{self.port}"
        return httpx.Client(base_url=url, headers=bearer("admin"), timeout=60)

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def workers(self) -> list[psutil.Process]:
        children = psutil.Process(self.process.pid).children()
        return [one for one in children if one.is_running() and _is_worker(one)]

    def stop(self) -> int:
        """Ask it to end; return its status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(120)

    def kill(self) -> None:
        """End everything at once."""
        self.client.close()
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def _is_worker(process: psutil.Process) -> bool:
    try:
        return "spawn_main" in " ".join(process.cmdline())
    except psutil.Error:  # it is ending
        return False


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    started: list[Server] = []
    yield started
    for one in started:
        one.kill()


@pytest.fixture
def server(
    servers: list[Server],
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Server]:
    """A server with two workers and some items, the same for all until a test ends it or fails."""
    if not servers or servers[-1].process.poll() is not None:
        servers.append(Server(tmp_path_factory.mktemp("server") / "service"))
    servers[-1].client.put("/v1/items", json={"items": ITEMS}).raise_for_status()
    yield servers[-1]
    if request.node.stash.get(FAILED, False):
        servers[-1].kill()
