"""A real PostgreSQL for the tests: a cluster of its own in a temporary directory."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.debian import found_or_installed
from tests.service.sharing import free_port

PASSWORD = "s3cret/p@ss"


def programs() -> Path | None:
    """Find PostgreSQL's programs, or install Debian's where that is allowed."""
    return found_or_installed(_programs, "postgresql")


def _programs() -> Path | None:
    homes = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    found = str(homes[-1]) if homes else shutil.which("initdb")
    return Path(found).resolve().parent if found else None


class Postgres:
    """A PostgreSQL server that can be stopped and started. It refuses to run as root."""

    def __init__(self, bin_directory: Path) -> None:
        self._bin = bin_directory
        self._home = Path(tempfile.mkdtemp(prefix="slatewise-postgres-"))
        self._data = self._home / "data"
        self.port = free_port()
        self.own(self._home)
        secret = self._home / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run(
            "initdb",
            "-D",
            self._data,
            "-U",
            "tester",
            "--pwfile",
            secret,
            "-A",
            "scram-sha-256",
            "-E",
            "UTF8",
            "--locale",
            "C.UTF-8",
            "--no-sync",
        )
        self.start()

    def url(self, query: str = "") -> str:
        return f"postgresql://tester:s3cret%2Fp%40ss@127.0.0.1:{self.port}/postgres" + (
            f"?{query}" if query else ""
        )

    def own(self, folder: Path) -> None:
        """Let the server write to a place."""
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")

    def start(self) -> None:
        options = (
            f"-p {self.port} -k {self._home} -c listen_addresses=127.0.0.1 -c shared_buffers=32MB"
        )
        self._run(
            "pg_ctl",
            "-D",
            self._data,
            "-w",
            "-t",
            "120",
            "-l",
            self._home / "log",
            "-o",
            options,
            "start",
        )

    def stop(self) -> None:
        """Stop at once, as a crash would: nothing is written that was not on disk."""
        self._run("pg_ctl", "-D", self._data, "-w", "-m", "immediate", "stop")

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop it, and start it again whatever happens meanwhile."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def freeze(self) -> None:
        """Stop all its processes where they are: connections stay, and nobody answers."""
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        first = psutil.Process(int((self._data / "postmaster.pid").read_text().split()[0]))
        for process in (first, *first.children(recursive=True)):  # the first, lest it makes more
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def remove(self) -> None:
        try:
            if (self._data / "postmaster.pid").exists():  # else it was stopped
                self.thaw()
                self.stop()
        finally:
            shutil.rmtree(self._home, ignore_errors=True)

    def _run(self, program: str, *arguments: str | Path) -> None:
        user = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        ended = subprocess.run(
            [str(self._bin / program), *map(str, arguments)],
            user=None if user is None else user.pw_uid,
            group=None if user is None else user.pw_gid,
            extra_groups=None if user is None else [],
            cwd=self._home,
            stdin=subprocess.DEVNULL,
            # A file, for the server inherits it: a pipe would stay open as long as it runs.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if ended.returncode != 0:
            log = self._home / "log"
            raise RuntimeError(f"{program} failed\n{log.read_text() if log.exists() else ''}")


@contextmanager
def running() -> Iterator[Postgres]:
    """A new server, for as long as it is needed; without PostgreSQL the test is skipped."""
    found = programs()
    if found is None:
        pytest.skip("NOT TESTED ON POSTGRESQL: it is not installed, and cannot be installed")
    server = Postgres(found)
    try:
        yield server
    finally:
        server.remove()
