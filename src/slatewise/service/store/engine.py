"""Connections to SQLite or PostgreSQL: reading, writing, and what can go wrong with either."""

import math
import sqlite3
import time
from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from slatewise.errors import SlatewiseError

Result = TypeVar("Result")

PATIENCE = 10
"""Seconds that a writer waits for another one."""
READING, WRITING, LONG = 4.0, PATIENCE + 2.0, 120.0
"""Seconds in which PostgreSQL must say something: to a reader, to a writer, who may have to wait
for another one, and to a reader of much. A request then ends in good time, come what may."""
ALERT = {
    "connect_timeout": 3,
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": PATIENCE * 1_000,
}
"""With these, a PostgreSQL that is gone is noticed in seconds; by TCP's defaults, in hours."""
MIGRATION_LOCK = 5_110_476_842_915
"""Any number, as long as nothing else locks it in the same database."""


class StoreError(SlatewiseError):
    """The store cannot do it now: it cannot be reached, or its disk is full. Try again later."""


class Database:
    """Where the store is. Work may be done twice when a connection breaks, so it must bear that."""

    def __init__(self, url: str) -> None:
        self.url = _parsed(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._engine = _sqlite(self.url) if self.is_sqlite else _postgresql(self.url)
        # PostgreSQL: no BEGIN and ROLLBACK around a single SELECT. SQLite is in that mode anyway.
        reading = {} if self.is_sqlite else {"isolation_level": "AUTOCOMMIT"}
        self._reader = self._engine.execution_options(**reading)

    def read(self, work: Callable[[Connection], Result], patience: float | None = None) -> Result:
        """Do the work, each statement seeing what was written before it.

        `patience` is for how many seconds a server may say nothing; READING without it.
        """

        def run() -> Result:
            with self._reader.connect() as connection:
                self._limit(connection, READING if patience is None else patience)
                return work(connection)

        return self._attempt(run)

    def write(self, work: Callable[[Connection], Result], patience: float | None = None) -> Result:
        """Do the work in one transaction, which is on disk before this returns."""

        def run() -> Result:
            with self._engine.begin() as connection:
                self._limit(connection, WRITING if patience is None else patience)
                if self.is_sqlite:  # Otherwise a reader would have to become a writer, and may not.
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                return work(connection)

        return self._attempt(run)

    def change_schema(self, work: Callable[[Connection], None]) -> None:
        """Do the work in a transaction that no other process that changes the schema shares."""

        def alone(connection: Connection) -> None:
            if not self.is_sqlite:
                lock = select(func.pg_advisory_xact_lock(MIGRATION_LOCK))
                connection.execute(lock)
            work(connection)

        if self.is_sqlite:
            self._attempt(self._write_ahead)
        self.write(alone, math.inf)

    def _limit(self, connection: Connection, patience: float) -> None:
        if not self.is_sqlite:
            driver: Any = connection.connection.driver_connection
            driver.patience = patience

    def _write_ahead(self) -> None:
        """Put the file into the mode in which readers and a writer do not wait for each other."""
        give_up = time.monotonic() + PATIENCE
        while True:
            try:
                with self._engine.connect() as connection:
                    connection.exec_driver_sql("PRAGMA journal_mode = WAL")
                return
            except OperationalError as error:
                # Two processes that open a new file at once: SQLite itself does not wait here.
                if "locked" not in str(error.orig) or time.monotonic() > give_up:
                    raise
                time.sleep(0.01)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def _attempt(self, run: Callable[[], Result]) -> Result:
        try:
            try:
                return run()
            except DBAPIError as error:
                # Nor would a new one be answered by a server that has been silent.
                if not error.connection_invalidated or isinstance(error.orig, TimeoutError):
                    raise
            return run()  # The connection had been lost since it was last used: take a new one.
        except (DBAPIError, PoolTimeout) as error:
            raise self.error(error) from error

    def error(self, error: Exception) -> StoreError:
        """Say what went wrong, without the password and without users' data."""
        cause = error.orig if isinstance(error, DBAPIError) else error
        lines = str(cause).strip().splitlines() or [type(cause).__name__]
        problem = lines[0]
        if self.url.password:
            problem = problem.replace(str(self.url.password), "***")
        where = self.url.render_as_string(hide_password=True)
        return StoreError(f"The store {where} failed: {problem}", _remedy(problem))


def _remedy(problem: str) -> str:
    if "full" in problem or "No space" in problem:
        return "Make room on its disk; nothing was half-written, and it goes on by itself."
    if "locked" in problem or "lock timeout" in problem:
        return "Another process has been writing for too long: try again."
    return "See that it runs, can be reached and may be written to; then try again."


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        parsed = None
    kinds = {
        "sqlite": "sqlite",
        "postgresql": "postgresql+psycopg",
        "postgres": "postgresql+psycopg",
    }
    # The text is not shown: it may hold a password.
    if parsed is None or parsed.get_backend_name() not in kinds:
        raise SlatewiseError(
            "The URL of the store is neither of SQLite nor of PostgreSQL.",
            "Give sqlite:///path/to/store.sqlite or postgresql://user:password@host/database.",
        )
    return parsed.set(drivername=kinds[parsed.get_backend_name()])


def _unless_said(url: URL, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that the URL leaves open (`?timeout=…`)."""
    return {name: value for name, value in settings.items() if name not in url.query}


def _sqlite(url: URL) -> Engine:
    if not url.database or url.database == ":memory:":
        raise SlatewiseError("A store is a file.", "Give sqlite:///path/to/store.sqlite.")
    engine = create_engine(
        url,
        hide_parameters=True,
        pool_timeout=PATIENCE,
        # None: transactions begin where we say so.
        connect_args={"isolation_level": None} | _unless_said(url, {"timeout": PATIENCE}),
    )
    event.listen(engine, "connect", _prepare_sqlite)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _: Any) -> None:
    # FULL: a commit is on disk when it returns. secure_delete: what is erased is overwritten.
    for setting in ("synchronous = FULL", "secure_delete = ON"):
        connection.execute(f"PRAGMA {setting}")


def _postgresql(url: URL) -> Engine:
    try:
        from slatewise.service.store.silence import PatientConnection  # noqa: PLC0415

        engine = create_engine(
            url,
            hide_parameters=True,
            pool_timeout=PATIENCE,
            connect_args=_unless_said(url, ALERT),
        )
    except ModuleNotFoundError as error:
        raise SlatewiseError(
            "PostgreSQL is spoken to with psycopg, which is not installed.",
            "pip install 'slatewise[serve]'",
        ) from error
    event.listen(
        engine,
        "do_connect",
        lambda dialect, record, words, names: PatientConnection.connect(*words, **names),
    )
    event.listen(engine, "connect", _prepare_postgresql)
    return engine


def _prepare_postgresql(connection: Any, _: Any) -> None:
    with connection.cursor() as cursor:
        # A writer that froze in a transaction must not hold up the others for ever.
        cursor.execute(f"SET lock_timeout = '{PATIENCE}s'")
        cursor.execute("SET idle_in_transaction_session_timeout = '60s'")
    connection.commit()
