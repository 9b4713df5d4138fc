"""Stores to test with: SQLite in a file, and a real PostgreSQL."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest

from slatewise.service.store import Store
from tests.service.postgres import Postgres, running

SCHEMAS = count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server, started once."""
    with running() as server:
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
