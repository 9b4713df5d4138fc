"""The process that starts workers, starts them again when they die, and trains at night."""

import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from slatewise.errors import SlatewiseError
from slatewise.service.http.metrics import DIRECTORY, bury
from slatewise.service.http.protocol import BoundedProtocol
from slatewise.service.http.security import VARIABLE, Tokens
from slatewise.service.http.setup import LOGGING, Setup, worker
from slatewise.service.http.state import shared_state
from slatewise.service.settings import ServiceConfig

DRAIN_SECONDS = 30
"""in which requests under way are answered after SIGTERM"""
SILENCE_SECONDS = 120
"""after which a worker counts as hung; loading and compiling keep it from answering for some"""
RETRY_SECONDS = 5
"""between attempts to start a worker that cannot"""
ATTEMPTS = 5
"""to start a worker, in a row and with no other one that serves, before everything ends"""
_GLANCE = 0.05
KEEP_ALIVE_SECONDS = 15
_log = logging.getLogger(__name__)


class Supervisor(Multiprocess):
    """Keeps workers alive.

    uvicorn's own way waits for an answer of each worker in turn: as long as one is busy compiling,
    or for the full time when one is killed between question and answer, no other is looked after.
    """

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket], state: Path) -> None:
        super().__init__(config, sockets)
        self.failed = False
        """whether no worker could start"""
        self._state = state
        self._served = False
        self._serving: set[int | None] = set()
        self._false_starts = 0
        self._heard: dict[int | None, float] = {}
        self._buried: set[int | None] = set()
        self._patience = 0.0

    def handle_hup(self) -> None:
        """End when the terminal is closed, rather than start all workers again."""
        self.handle_term()

    def keep_subprocess_alive(self) -> None:
        """Start workers again that died, or do not answer any more."""
        for index, process in enumerate(self.processes):
            if not self._well(process) and not self.should_exit.is_set():
                self.processes[index] = self._replacement(process)

    def _well(self, process: Process) -> bool:
        if not process.process.is_alive():
            return False
        now, answer = time.monotonic(), process._healthcheck(_GLANCE)
        if answer and process.pid not in self._serving:
            self._serving.add(process.pid)
            self._served, self._false_starts = True, 0
        if answer is not None:
            self._heard[process.pid] = now
        return now - self._heard.setdefault(process.pid, now) < SILENCE_SECONDS

    def _replacement(self, process: Process) -> Process:
        """Return a new worker in place of a dead one, or the dead one while it is too early."""
        if process.pid not in self._buried:
            self._bury(process)
        if self.failed or time.monotonic() < self._patience:
            return process
        new = Process(self.config, self.sockets)
        new.start()
        return new

    def _bury(self, process: Process) -> None:
        """End a worker for good; if it could not start and no other one serves, end everything."""
        process.kill()
        process.join()
        self._buried.add(process.pid)
        bury(self._state, process.pid)
        _log.warning("Worker %s ended with status %s.", process.pid, process.exitcode)
        if process.pid in self._serving:
            self._serving.remove(process.pid)
            return
        self._patience = time.monotonic() + RETRY_SECONDS
        self._false_starts += 1
        hopeless = process.exitcode == STARTUP_FAILURE and not self._served
        if hopeless or (self._false_starts >= ATTEMPTS and not self._serving):
            self.failed = True
            self.should_exit.set()


def listen(host: str, port: int) -> socket.socket:
    """Listen on a port, or refuse in words."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SlatewiseError(
            f"{host}:{port} cannot be listened on: {reason}.", "Choose another --host or --port."
        ) from error


def supervise(
    directory: Path,
    config: ServiceConfig,
    tokens: Tokens | None,
    listening: socket.socket,
    workers: int,
) -> None:
    """Serve until SIGTERM or SIGINT; then answer what is under way and write what waits."""
    with shared_state(directory) as state:
        setup = Setup(directory, config, tokens, state / "rates.bin")
        os.environ[DIRECTORY] = str(state)
        os.environ.pop(VARIABLE, None)  # workers know digests, and need no more
        supervisor = Supervisor(_settings(setup, workers), [listening], state)
        with _nights(directory, config):
            supervisor.run()
    if supervisor.failed:
        raise SlatewiseError("A worker could not start.", "The reason stands in the log above.")


@contextmanager
def _nights(directory: Path, config: ServiceConfig) -> Iterator[None]:
    """Train at night, if that is wanted."""
    if config.retraining.at is None:
        yield
        return
    from slatewise.service.nights.schedule import NightlyTraining  # noqa: PLC0415 (torch)

    nightly = NightlyTraining(directory, config, config.retraining.at)
    nightly.start()
    try:
        yield
    finally:
        nightly.end()


def _settings(setup: Setup, workers: int) -> uvicorn.Config:
    return uvicorn.Config(
        partial(worker, setup),
        factory=True,
        workers=workers,
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        log_config=LOGGING,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
