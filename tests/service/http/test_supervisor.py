"""Taking a port, and what workers are started with; their lives are in http/test_server."""

import pickle
import signal
import socket
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest
import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import SIGNALS

from slatewise.errors import SlatewiseError
from slatewise.service.http import supervisor
from slatewise.service.http.security import read_tokens
from slatewise.service.http.setup import Setup, worker
from slatewise.service.http.supervisor import listen
from slatewise.service.settings import ServiceConfig


def test_a_port_is_taken_and_a_taken_one_is_refused_in_words() -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        assert port > 0
        with pytest.raises(SlatewiseError, match="cannot be listened on") as refusal:
            listen("127.0.0.1", port)
        assert "--port" in refusal.value.remedy


def test_a_host_that_is_not_this_one_is_refused_in_words() -> None:
    for host in ("192.0.2.1", "no-such-host.invalid"):
        with pytest.raises(SlatewiseError, match="cannot be listened on"):
            listen(host, 0)


def test_addresses_of_both_kinds_are_taken() -> None:
    if socket.has_ipv6:
        with listen("::1", 0) as six:
            assert six.family is socket.AF_INET6
    with listen("localhost", 0) as four:
        assert four.family is socket.AF_INET


def test_what_a_worker_is_started_with_travels_without_tokens(tmp_path: Path) -> None:
    secret = "swordfish-swordfish"
    tokens = read_tokens(None, {"SLATEWISE_TOKENS": f"read:{secret}"})
    setup = Setup(tmp_path, ServiceConfig(), tokens, tmp_path / "rates")
    sent = pickle.dumps(partial(worker, setup))
    assert secret.encode() not in sent
    assert pickle.loads(sent).args == (setup,)


class Worker:
    """A worker that answers, is silent or is dead, as it is told; one after another."""

    made: ClassVar[list["Worker"]] = []
    broken: ClassVar[int | None] = None
    """the status with which those end that are started"""

    def __init__(self, config: uvicorn.Config | None = None, sockets: object = None) -> None:
        self.config = config
        self.pid = 1_000 + len(self.made)
        self.answer: bool | None = True
        self.exitcode: int | None = None
        self.process = self.parent_conn = self
        self.started = self.killed = self.terminated = False
        self.made.append(self)

    def start(self) -> None:
        self.started, self.exitcode = True, self.broken

    def is_alive(self) -> bool:
        return self.exitcode is None

    def _healthcheck(self, timeout: float) -> bool | None:
        return self.answer

    def poll(self) -> bool:
        return False

    def kill(self) -> None:
        self.killed, self.exitcode = True, self.exitcode or -9

    def terminate(self) -> None:
        self.terminated = True

    def join(self) -> None: ...


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[supervisor.Supervisor]:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    monkeypatch.setattr(supervisor, "Process", Worker)
    monkeypatch.setattr(supervisor, "RETRY_SECONDS", 0.2)
    monkeypatch.setattr(Worker, "made", [])
    kept = {number: signal.getsignal(number) for number in SIGNALS}
    monkeypatch.setattr(supervisor, "_has_terminal", lambda: False)
    config = uvicorn.Config("x:y", workers=2, log_config=None)
    again = uvicorn.Config("x:z", workers=2, log_config=None)
    made = supervisor.Supervisor(config, [], tmp_path, lambda: again)
    made.processes = [Worker(), Worker()]  # type: ignore[list-item]
    made.keep_subprocess_alive()
    yield made
    for number, handler in kept.items():
        signal.signal(number, handler)


def pids(watched: supervisor.Supervisor) -> list[int | None]:
    return [process.pid for process in watched.processes]


def test_workers_that_answer_are_left_alone(watched: supervisor.Supervisor) -> None:
    watched.keep_subprocess_alive()
    assert pids(watched) == [1_000, 1_001]


def test_a_dead_worker_is_replaced_once(watched: supervisor.Supervisor) -> None:
    Worker.made[1].exitcode = -9
    for _ in range(3):
        watched.keep_subprocess_alive()
    assert pids(watched) == [1_000, 1_002]
    assert Worker.made[2].started
    assert not watched.should_exit.is_set()


def test_a_silent_worker_is_replaced_after_a_while(
    watched: supervisor.Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    Worker.made[0].answer = None
    watched.keep_subprocess_alive()
    assert pids(watched) == [1_000, 1_001]
    monkeypatch.setattr(supervisor, "SILENCE_SECONDS", 0.01)
    time.sleep(0.02)
    watched.keep_subprocess_alive()
    assert pids(watched) == [1_002, 1_001]
    assert Worker.made[0].killed


@pytest.mark.parametrize("status", [-signal.SIGBUS, 1, STARTUP_FAILURE])
def test_workers_that_end_before_they_serve_end_everything_once_none_is_left(
    watched: supervisor.Supervisor, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(supervisor, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(Worker, "broken", status)
    Worker.made[0].exitcode = -signal.SIGKILL
    for _ in range(2 * supervisor.ATTEMPTS):
        watched.keep_subprocess_alive()
    assert not watched.should_exit.is_set()  # the other one serves
    Worker.made[1].exitcode = -signal.SIGKILL
    for _ in range(2 * supervisor.ATTEMPTS):
        watched.keep_subprocess_alive()
    assert watched.failed
    assert watched.should_exit.is_set()


def test_a_worker_that_cannot_start_beside_others_is_tried_again_later(
    watched: supervisor.Supervisor,
) -> None:
    watched._serving.remove(1_001)
    Worker.made[1].exitcode = STARTUP_FAILURE
    watched.keep_subprocess_alive()
    assert pids(watched) == [1_000, 1_001]
    assert not watched.should_exit.is_set()
    time.sleep(0.25)
    watched.keep_subprocess_alive()
    assert pids(watched) == [1_000, 1_002]
    assert not watched.failed


def test_if_no_worker_can_start_all_ends(watched: supervisor.Supervisor) -> None:
    watched._served, watched._serving = False, set()
    for one in Worker.made:
        one.answer = False
        one.exitcode = STARTUP_FAILURE
    watched.keep_subprocess_alive()
    assert watched.failed
    assert watched.should_exit.is_set()
    assert len(Worker.made) == 2


def test_a_worker_that_cannot_start_beside_one_that_just_died_is_tried_again(
    watched: supervisor.Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "RETRY_SECONDS", 0.0)
    for worker_ in Worker.made:
        worker_.exitcode = -signal.SIGKILL
    for _ in range(supervisor.ATTEMPTS - 1):
        watched.keep_subprocess_alive()
        Worker.made[-1].exitcode = -signal.SIGBUS
    watched.keep_subprocess_alive()
    assert not watched.failed


def test_a_reload_replaces_one_worker_after_the_other_by_one_that_serves(
    watched: supervisor.Supervisor,
) -> None:
    watched.handle_hup()
    watched.keep_subprocess_alive()
    first, second, new = Worker.made
    new.answer = None  # it starts
    watched.keep_subprocess_alive()
    assert pids(watched) == [1_000, 1_001]
    new.answer = True
    watched.keep_subprocess_alive()
    assert pids(watched) == [1_002, 1_001]
    assert (first.terminated, second.terminated) == (True, False)
    assert new.config is not None
    assert new.config.app == "x:z"
    for _ in range(3):
        watched.keep_subprocess_alive()
    assert pids(watched) == [1_002, 1_003]
    assert second.terminated
    assert watched._renewal is None
    assert len(Worker.made) == 4
    first.exitcode = 0
    watched.keep_subprocess_alive()
    assert [worker.pid for worker in watched._leaving] == [1_001]


def test_a_reload_with_which_no_worker_starts_leaves_those_that_serve(
    watched: supervisor.Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Worker, "broken", 1)
    watched.handle_hup()
    for _ in range(4):
        watched.keep_subprocess_alive()
    assert pids(watched) == [1_000, 1_001]
    assert len(Worker.made) == 3
    assert not watched.should_exit.is_set()
    assert watched.config.app == "x:y"

    def refuse() -> uvicorn.Config:
        raise SlatewiseError("the settings are wrong.")

    watched._reread = refuse
    watched.handle_hup()
    assert (watched._renewal, watched.should_exit.is_set()) == (None, False)


def test_a_terminal_that_is_closed_ends_the_service(
    watched: supervisor.Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_has_terminal", lambda: True)
    watched.handle_hup()
    assert watched.should_exit.is_set()
