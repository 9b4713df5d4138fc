"""Stores to test with: SQLite in a file, and a real PostgreSQL."""

from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import psycopg
import pytest

from slatewise.service.store import Store
from tests.service.postgres import Postgres, running
from tests.service.sharing import FAILED, Shared

SCHEMAS = count(1)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Forget that the first try failed."""
    item.stash[FAILED] = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note that a test failed, for the fixtures that end with it."""
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.fixture(scope="session")
def postgresqls() -> Iterator[Shared[Postgres]]:
    with closing(Shared(running)) as servers:
        yield servers


@pytest.fixture
def postgres(postgresqls: Shared[Postgres], request: pytest.FixtureRequest) -> Iterator[Postgres]:
    """A PostgreSQL server, the same for all until a test fails."""
    with postgresqls.lend(request) as server:
        yield server


def new_schema(server: Postgres) -> str:
    """Make an empty schema in the database; return the URL that leads to it."""
    name = f"test_{next(SCHEMAS)}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return server.url(f"options=-csearch_path%3D{name}")


@pytest.fixture(
    params=["sqlite", pytest.param("postgresql", marks=pytest.mark.xdist_group("postgresql"))]
)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.sqlite"
    return new_schema(request.getfixturevalue("postgres"))


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """An empty store, of either kind."""
    opened = Store.open(store_url)
    yield opened
    opened.close()
