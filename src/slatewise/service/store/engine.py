"""Connections to SQLite or PostgreSQL: reading, writing, and what can go wrong with either."""

import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from slatewise.errors import SlatewiseError, install_remedy

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
CHECK_SECONDS = 20.0
"""for looking through a file of SQLite before it is served: some 10 GB"""
KEPT, MOST = 5, 15
"""connections to PostgreSQL that a process keeps, and opens at most: one for each of its threads"""
MIGRATION_LOCK = 5_110_476_842_915
"""Any number, as long as nothing else locks it in the same database."""


class RecordError(SlatewiseError):
    """The store refuses what it was given, and will refuse it again."""


class StoreError(SlatewiseError):
    """The store cannot do it now: it cannot be reached, or its disk is full. Try again later."""


class Database:
    """Where the store is. Work may be done twice when a connection breaks, so it must bear that."""

    def __init__(self, url: str) -> None:
        self.url = parse_url(url)
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

    @contextmanager
    def alone(self, lock: int) -> Iterator[bool]:
        """Hold a PostgreSQL lock inside the block; yield whether it was free.

        It is freed at the end, and by the server when the connection breaks, however that comes.
        A file of SQLite is of one host, where processes lock files.
        """
        if self.is_sqlite:
            yield True
            return
        with ExitStack() as held:
            try:
                connection = held.enter_context(self._reader.connect())
                self._limit(connection, READING)
                held.callback(connection.invalidate)  # the lock goes with it
                free = bool(connection.scalar(select(func.pg_try_advisory_lock(lock))))
                if free:
                    held.callback(_unlock, connection, lock)
            except (DBAPIError, PoolTimeout) as error:
                raise self.error(error) from error
            yield free

    def require_unicode(self) -> None:
        """Refuse a PostgreSQL database that cannot keep every text."""
        if self.is_sqlite:
            return
        ask = "SHOW server_encoding"
        encoding = self.read(lambda connection: connection.exec_driver_sql(ask).scalar_one())
        if encoding != "UTF8":
            raise SlatewiseError(
                f"The database of the store is encoded in {encoding}, and cannot keep every text.",
                "Make one with: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
            )

    def check(self, seconds: float = CHECK_SECONDS) -> None:
        """Refuse a damaged file of SQLite, as far as it can be looked through in a time."""
        if not self.is_sqlite:
            return
        end = time.monotonic() + seconds
        try:
            found = self.read(lambda connection: _first_damage(connection, end))
        except StoreError as error:
            damaged = isinstance(error.__cause__, DBAPIError) and _is_damage(error.__cause__)
            found = error.problem if damaged else None
            if not damaged:
                raise
        if found is not None:
            raise SlatewiseError(
                f"{self.url.database} is damaged: {found}.",
                "Restore a backup, or recover what can be read with: sqlite3 FILE .recover",
            )

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

    def error(self, error: Exception) -> SlatewiseError:
        """Return what went wrong, without the password and without users' data."""
        cause = error.orig if isinstance(error, DBAPIError) else error
        lines = str(cause).strip().splitlines() or [type(cause).__name__]
        problem = lines[0]
        if self.url.password:
            problem = problem.replace(str(self.url.password), "***")
        if isinstance(error, DataError | IntegrityError):
            return RecordError(f"The store refuses a record: {problem}", "Do not send it again.")
        where = self.url.render_as_string(hide_password=True)
        return StoreError(f"The store {where} failed: {problem}", _remedy(problem))


def _unlock(connection: Connection, lock: int) -> None:
    """Free a lock at once; if that is not possible, it goes with its connection."""
    with suppress(DBAPIError):
        connection.execute(select(func.pg_advisory_unlock(lock)))


def _first_damage(connection: Connection, end: float) -> str | None:
    """Return what is wrong with a file of SQLite, None if nothing was found until a time."""
    driver: Any = connection.connection.driver_connection
    driver.set_progress_handler(lambda: time.monotonic() > end, 10_000)
    try:
        found = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one())
    except OperationalError as error:
        if "interrupted" not in str(error.orig):
            raise
        return None
    finally:
        driver.set_progress_handler(None, 0)
    return None if found == "ok" else " ".join(found.split())


def _is_damage(error: DBAPIError) -> bool:
    return any(word in str(error.orig) for word in ("malformed", "not a database", "corrupt"))


def _remedy(problem: str) -> str:
    if "full" in problem or "No space" in problem:
        return "Make room on its disk; nothing was half-written, and it goes on by itself."
    if "locked" in problem or "lock timeout" in problem:
        return "Another process has been writing for too long: try again."
    return "See that it runs, can be reached and may be written to; then try again."


def parse_url(url: str) -> URL:
    """Return a URL with its driver; one that is neither of SQLite nor of PostgreSQL is refused."""
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
    _make_private(Path(url.database))
    engine = create_engine(
        url,
        hide_parameters=True,
        pool_timeout=PATIENCE,
        # None: transactions begin where we say so.
        connect_args={"isolation_level": None} | _unless_said(url, {"timeout": PATIENCE}),
    )
    event.listen(engine, "connect", _prepare_sqlite)
    return engine


def _make_private(file: Path) -> None:
    """Make the file of a new store, for its owner alone; SQLite's other files take after it."""
    with suppress(OSError):  # it is there, or cannot be made, which SQLite says
        os.close(os.open(file, os.O_CREAT | os.O_EXCL, 0o600))


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
            pool_size=KEPT,
            max_overflow=MOST - KEPT,
            pool_timeout=PATIENCE,
            connect_args=_unless_said(url, ALERT),
        )
    except ModuleNotFoundError as error:
        raise SlatewiseError(
            "PostgreSQL is spoken to with psycopg, which is not installed.",
            install_remedy("serve"),
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
