"""The process that starts workers, starts them again when they die, and trains at night."""

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from slatewise.errors import SlatewiseError
from slatewise.service.http.metrics import DIRECTORY, retire_worker
from slatewise.service.http.protocol import BoundedProtocol
from slatewise.service.http.security import VARIABLE, Tokens
from slatewise.service.http.setup import LOGGING, Setup, worker
from slatewise.service.http.state import shared_state
from slatewise.service.settings import ServiceConfig

if TYPE_CHECKING:
    from slatewise.service.nights.schedule import NightlyTraining

Reread = Callable[[], tuple[ServiceConfig, Tokens | None]]
"""Reads settings and tokens anew."""

DRAIN_SECONDS = 30
"""in which requests under way are answered after SIGTERM"""
SILENCE_SECONDS = 120
"""after which a worker counts as hung; loading and compiling keep it from answering for some"""
START_SECONDS = 600
"""in which a worker must serve that is to replace another one"""
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

    def __init__(
        self,
        config: uvicorn.Config,
        sockets: list[socket.socket],
        state: Path,
        reread: Callable[[], uvicorn.Config] | None = None,
    ) -> None:
        """Supervise workers; `reread` returns what they are to be started with after SIGHUP."""
        super().__init__(config, sockets)
        self._reread = reread
        self._renewal: Renewal | None = None
        self._leaving: list[Process] = []
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
        """Read settings again and replace the workers; end when it was a terminal that closed."""
        if self._reread is None or _has_terminal():
            self.handle_term()
            return
        try:
            config = self._reread()
        except (SlatewiseError, OSError) as error:
            _log.error("Reload: the settings stay as they are. %s", error)
            return
        self._abandon()
        _log.info("Reload: workers are replaced one after the other.")
        self._renewal = Renewal(config, list(self.processes))

    def keep_subprocess_alive(self) -> None:
        """Start workers again that died, or do not answer any more; go on with a reload."""
        for index, process in enumerate(self.processes):
            if not self._well(process) and not self.should_exit.is_set():
                self.processes[index] = self._replacement(process)
        # A copy: the list shrinks in the loop. The files of its counts can shrink once it is gone.
        for process in [one for one in self._leaving if not one.process.is_alive()]:
            self._leaving.remove(process)
            retire_worker(self._state, process.pid)
        if self._renewal is not None:
            self._renew(self._renewal)

    def terminate_all(self) -> None:
        """End all workers, also one that is about to take over."""
        self._abandon()
        super().terminate_all()

    def join_all(self) -> None:
        """Wait for all workers, also for those that were replaced and end."""
        super().join_all()
        for process in self._leaving:
            process.join()

    def _abandon(self) -> None:
        """End a reload, and the worker that does not serve yet."""
        if self._renewal is not None and self._renewal.new is not None:
            self._renewal.new.kill()
            self._leaving.append(self._renewal.new)
        self._renewal = None

    def _renew(self, renewal: "Renewal") -> None:
        """Replace a worker by a new one once that serves, or give up if it cannot start."""
        renewal.old = [process for process in renewal.old if process in self.processes]
        if not renewal.old:
            self._renewal = None
            _log.info("Reload: done.")
            return
        if renewal.new is None:
            renewal.new = Process(renewal.config, self.sockets)
            renewal.new.start()
            renewal.until = time.monotonic() + START_SECONDS
        elif not renewal.new.process.is_alive() or time.monotonic() > renewal.until:
            _log.error("Reload: a new worker could not start; those that serve stay.")
            self._abandon()
        elif _serves(renewal.new):
            old, new = renewal.old.pop(0), renewal.new
            # What dies from now on is replaced by what is known to start.
            self.config, renewal.new = renewal.config, None
            self.processes[self.processes.index(old)] = new
            self._serving.discard(old.pid)
            self._serving.add(new.pid)
            old.terminate()
            self._leaving.append(old)

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
            self._retire(process)
        if self.failed or time.monotonic() < self._patience:
            return process
        new = Process(self.config, self.sockets)
        new.start()
        return new

    def _retire(self, process: Process) -> None:
        """End a worker for good; if it could not start and no other one serves, end everything."""
        process.kill()
        process.join()
        self._buried.add(process.pid)
        retire_worker(self._state, process.pid)
        _log.warning("Worker %s ended with status %s.", process.pid, process.exitcode)
        if process.pid in self._serving:
            self._serving.remove(process.pid)
            return
        # It never served: something at its start is wrong, and would be wrong again at once.
        self._patience = time.monotonic() + RETRY_SECONDS
        self._false_starts += 1
        hopeless = process.exitcode == STARTUP_FAILURE and not self._served
        if hopeless or (self._false_starts >= ATTEMPTS and not self._serving):
            self.failed = True
            self.should_exit.set()


class Renewal:
    """A reload under way."""

    def __init__(self, config: uvicorn.Config, old: list[Process]) -> None:
        self.config = config
        self.old = old
        """workers that are to be replaced"""
        self.new: Process | None = None
        """one that was started, and does not serve yet"""
        self.until = 0.0
        """when it is given up"""


def _serves(process: Process) -> bool:
    """Return whether a worker has started to serve.

    While it loads, questions wait, and are then answered all at once: only the last answer counts.
    """
    answer = process._healthcheck(_GLANCE)
    while answer is not None and process.parent_conn.poll():
        answer = bool(process.parent_conn.recv())
    return bool(answer)


def _has_terminal() -> bool:
    """Return whether a terminal can be closed on this process."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


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
    reread: Reread | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; then answer what is under way and write what waits.

    After SIGHUP, workers are replaced one after the other by such as start with what `reread`
    returns.
    """
    with shared_state(directory) as state, _nights(directory, config) as follow:
        os.environ[DIRECTORY] = str(state)
        os.environ.pop(VARIABLE, None)  # workers know digests, and need no more

        def settings(config: ServiceConfig, tokens: Tokens | None) -> uvicorn.Config:
            # A bucket of one token must not become that of another, with its debt.
            rates = state / f"rates-{tokens.name if tokens is not None else 'open'}.bin"
            return _settings(Setup(directory, config, tokens, rates), workers)

        def again() -> uvicorn.Config:
            new, known = (config, tokens) if reread is None else reread()
            if new.store_url(directory) != config.store_url(directory):
                raise SlatewiseError("The store is another one.", "Stop the service for that.")
            follow(new)
            return settings(new, known)

        supervisor = Supervisor(settings(config, tokens), [listening], state, again)
        supervisor.run()
    if supervisor.failed:
        raise SlatewiseError("A worker could not start.", "The reason stands in the log above.")


@contextmanager
def _nights(directory: Path, config: ServiceConfig) -> Iterator[Callable[[ServiceConfig], None]]:
    """Train at night, if that is wanted; yield what takes new settings, from the next night on."""
    nightly: NightlyTraining | None = None

    def follow(config: ServiceConfig) -> None:
        nonlocal nightly
        if nightly is not None:
            nightly.follow(config)
        elif config.retraining.at is not None:
            from slatewise.service.nights.schedule import NightlyTraining  # noqa: PLC0415 (torch)

            nightly = NightlyTraining(directory, config)
            nightly.start()

    follow(config)
    try:
        yield follow
    finally:
        if nightly is not None:
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
