"""One real server for all faults of SQLite, on a disk of its own where that is allowed."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from tests.service.live.harness import Ledger, Load, Server, settle, small_disk
from tests.service.sharing import Shared

CONFIG = Path(__file__).with_name("service.toml")
MEGABYTES = 64

SITE = """
import os, sqlite3, time

real, file = time.time_ns, os.environ["CLOCK_OFFSET"]


def time_ns():
    with open(file) as offset:
        return real() + 1_000_000_000 * int(offset.read())


def connect(*arguments, **settings):
    connection = plain(*arguments, **settings)
    connection.execute("PRAGMA cache_size = -100")
    return connection


time.time_ns, time.time = time_ns, lambda: time_ns() / 1e9
plain = sqlite3.connect
sqlite3.connect = sqlite3.dbapi2.connect = connect
"""
"""What Python imports before anything else: a clock that a file sets forward or back, and 100 kB of
pages for a connection to SQLite. By default these are 2 MB for each of some ten connections, which
fill up while the store grows, and would hide what requests leave behind."""


@dataclass
class Shop:
    """A server that is loaded and mistreated, and what it acknowledged in all its lives."""

    server: Server
    offset: Path
    """seconds by which its clock is wrong"""
    small: bool
    """whether its disk can be filled without harm to others"""
    ledger: Ledger = field(default_factory=Ledger)

    @property
    def directory(self) -> Path:
        return self.server.directory

    @property
    def url(self) -> str:
        return f"sqlite:///{self.directory / 'store.sqlite'}"

    @contextmanager
    def wrong_clock(self) -> Iterator[Callable[[int], None]]:
        """Let its clock be made wrong by so many seconds, and be right again afterwards."""
        try:
            yield self._set_clock
        finally:
            self._set_clock(0)

    def _set_clock(self, seconds: int) -> None:
        new = self.offset.with_name("new-offset")
        new.write_text(str(seconds))
        new.rename(self.offset)  # at once: nobody reads half of it

    def load(self) -> Load:
        return Load(self.server.port, self.ledger)

    def settle(self) -> None:
        settle(self.ledger, self.url)


@contextmanager
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    home = tmp_path_factory.mktemp("live")
    (home / "sitecustomize.py").write_text(SITE)
    (offset := home / "offset").write_text("0")
    paths = filter(None, (str(home), os.environ.get("PYTHONPATH")))
    more = {"PYTHONPATH": os.pathsep.join(paths), "CLOCK_OFFSET": str(offset)}
    small = os.geteuid() == 0
    with ExitStack() as stack:
        disk = home / "disk"
        if small:
            stack.enter_context(small_disk(disk, MEGABYTES))
        server = Server(disk / "service", "--config", str(CONFIG), log=home / "log", more=more)
        stack.callback(server.stop)
        server.start().put_items()
        yield Shop(server, offset, small)


@pytest.fixture(scope="session")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared[Shop]]:
    with closing(Shared(partial(opened, tmp_path_factory))) as shops:
        yield shops


@pytest.fixture
def shop(shops: Shared[Shop], request: pytest.FixtureRequest) -> Iterator[Shop]:
    """A service with two workers and two arms, the same for all until a test fails."""
    with shops.lend(request) as shop:
        yield shop
