"""The process that starts workers, starts them again when they die, and trains at night."""

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import uvicorn
from prometheus_client.multiprocess import mark_process_dead
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from slatewise.errors import SlatewiseError
from slatewise.service.config import ServiceConfig
from slatewise.service.http import limits
from slatewise.service.http.metrics import DIRECTORY
from slatewise.service.http.protocol import BoundedProtocol
from slatewise.service.http.security import Tokens
from slatewise.service.http.setup import LOGGING, Setup, worker

DRAIN_SECONDS = 30
"""in which requests under way are answered after SIGTERM"""
START_SECONDS = 60
"""in which a worker must answer its parent; loading and compiling keep it from doing so at once"""
KEEP_ALIVE_SECONDS = 15


class Supervisor(Multiprocess):
    """Keeps workers alive; the metrics of a dead one no longer count as present."""

    def keep_subprocess_alive(self) -> None:
        """Start workers again that died."""
        before = {process.pid for process in self.processes}
        super().keep_subprocess_alive()
        for pid in before - {process.pid for process in self.processes}:
            if pid is not None:
                mark_process_dead(pid)  # type: ignore[no-untyped-call]

    @property
    def failed(self) -> bool:
        """Tell whether a worker could not start at all."""
        return any(process.exitcode == STARTUP_FAILURE for process in self.processes)


def listen(host: str, port: int) -> socket.socket:
    """Take a port, or say why not."""
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
    # Not in the service's directory: when a disk is full, mapped files on it kill who writes them.
    with tempfile.TemporaryDirectory(prefix="slatewise-", ignore_cleanup_errors=True) as name:
        setup = Setup(directory, config, tokens, Path(name) / "rates.bin")
        limits.create(setup.rates, 1 if tokens is None else len(tokens.roles))
        os.environ[DIRECTORY] = name
        supervisor = Supervisor(_settings(setup, workers), [listening])
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
    from slatewise.service.nightly import Nightly  # noqa: PLC0415 (torch is slow to load)

    nightly = Nightly(directory, config, config.retraining.at)
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
        timeout_worker_healthcheck=START_SECONDS,
    )
