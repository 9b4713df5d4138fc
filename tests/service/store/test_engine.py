import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine, event, make_url

from slatewise.errors import SlatewiseError
from slatewise.service.store import Store, StoreError, engine
from slatewise.service.store.records import SlateRecord, Visit
from tests.service.conftest import new_schema
from tests.service.postgres import PASSWORD, Postgres, running
from tests.service.sharing import free_port
from tests.service.store.making import click, raw, rows, slate
from tests.service.store.test_queries import LOCK

on_postgresql = pytest.mark.xdist_group("postgresql")

MANY = 50


def large(n: int) -> SlateRecord:
    """A slate of 3 kB that does not become smaller by packing it."""
    draw = random.Random(n)
    return slate(f"s{n}", time=n, items=tuple(draw.randbytes(24).hex() for _ in range(64)))


def write_many(store: Store, start: int) -> None:
    slates = [large(n) for n in range(start, start + MANY)]
    store.write(slates, [click(shown.slate_id, shown.items[0]) for shown in slates])


def fill(store: Store) -> int:
    """Write slates until there is no room; return how many were acknowledged."""
    for n in range(0, 10_000, MANY):
        try:
            write_many(store, n)
        except StoreError as error:
            if "Make room" not in error.remedy:
                raise
            return n
    raise AssertionError("it never was full")


def require_whole(store: Store, acknowledged: int) -> None:
    """Everything that was acknowledged is there, and nothing else."""
    visits = store.history("ann", 10_000).visits
    expected = [large(n) for n in range(acknowledged)]
    assert visits == tuple(Visit(shown, 64, shown.items[:1]) for shown in expected)
    assert store.seq() == 2 * acknowledged


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 6 MB, where PostgreSQL's user may go, too."""
    folder = Path(tempfile.mkdtemp(prefix="slatewise-small-"))
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("NOT TESTED ON A FULL DISK: only root can make a small one")
    folder.chmod(0o755)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
    folder.rmdir()


def make_room(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)


def test_a_full_disk_stops_sqlite_with_nothing_half_written(small_disk: Path) -> None:
    store = Store.open(f"sqlite:///{small_disk}/store.sqlite")
    acknowledged = fill(store)
    assert acknowledged > 0
    require_whole(store, acknowledged)
    make_room(small_disk)
    write_many(store, acknowledged)
    require_whole(store, acknowledged + MANY)
    store.close()


@on_postgresql
def test_a_full_disk_stops_postgresql_with_nothing_half_written(small_disk: Path) -> None:
    with running() as postgres:  # One of its own: it would not start again without the small disk.
        folder = small_disk / "space"
        folder.mkdir()
        postgres.own(folder)
        with psycopg.connect(postgres.url(), autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{folder}'")
        store = Store.open(postgres.url("options=-cdefault_tablespace%3Dsmall"))
        acknowledged = fill(store)
        assert acknowledged > 0
        require_whole(store, acknowledged)
        make_room(small_disk)
        write_many(store, acknowledged)
        require_whole(store, acknowledged + MANY)
        store.close()


def test_a_file_that_may_not_grow_stops_sqlite_with_nothing_half_written(tmp_path: Path) -> None:
    # Without a small disk: SQLite itself counts pages.
    def limit(connection: object, _: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")  # type: ignore[attr-defined]

    pages = 300
    event.listen(Engine, "connect", limit)
    try:
        store = Store.open(f"sqlite:///{tmp_path}/store.sqlite")
        acknowledged = fill(store)
        require_whole(store, acknowledged)
        store.close()
    finally:
        event.remove(Engine, "connect", limit)
    store = Store.open(f"sqlite:///{tmp_path}/store.sqlite")
    write_many(store, acknowledged)
    require_whole(store, acknowledged + MANY)
    store.close()


@on_postgresql
def test_a_postgresql_that_stops_is_noticed_at_once_and_used_again_when_it_is_back(
    postgres: Postgres,
) -> None:
    store = Store.open(new_schema(postgres))
    acknowledged: list[int] = []
    failures: list[StoreError] = []
    ended = threading.Event()

    def write() -> None:
        n = 0
        while not ended.is_set():
            try:
                store.write([slate(f"s{n}", time=n)], [click(f"s{n}")])
            except StoreError as error:
                failures.append(error)
                time.sleep(0.02)
            else:
                acknowledged.append(n)
                n += 1

    def wait_for(more: int) -> None:
        goal = len(acknowledged) + more
        while len(acknowledged) < goal:
            assert writer.is_alive()
            time.sleep(0.01)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        wait_for(20)
        with postgres.stopped():
            began = time.monotonic()
            for call in (store.ping, store.seq, lambda: store.history("ann", 1)):
                with pytest.raises(StoreError, match="failed"):
                    call()
            assert time.monotonic() - began < 10
        wait_for(20)
    finally:
        ended.set()
        writer.join()
    assert failures
    assert [v.slate.time for v in store.history("ann", 10**6).visits] == acknowledged
    assert store.seq() == 2 * len(acknowledged)
    store.close()


@on_postgresql
def test_a_connection_that_was_lost_is_replaced_in_silence(postgres: Postgres) -> None:
    store = Store.open(new_schema(postgres))
    for lost in ("s", "t"):
        with psycopg.connect(postgres.url(), autocommit=True) as connection:
            # It waits for their ends: one that comes later would meet the write.
            ended = connection.execute(
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            ).fetchall()
            assert (True,) in ended
        store.write([slate(lost)], [click(lost)])
    assert len(store.history("ann", 5).visits) == 2
    store.close()


@on_postgresql
def test_a_postgresql_that_is_frozen_is_given_up_and_used_again_when_it_thaws(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(new_schema(postgres))
    store.write([slate("s"), slate("t")], [click("s")])
    attempts = (
        lambda: store.history("ann", 1),  # of an open connection
        lambda: store.write([], [click("t")]),  # of a new one
    )
    postgres.freeze()
    try:
        with monkeypatch.context() as hasty:  # frozen only: else it may be slow
            hasty.setattr(engine, "READING", 1.0)
            hasty.setattr(engine, "WRITING", 1.0)
            for attempt in attempts:
                began = time.monotonic()
                with pytest.raises(
                    StoreError, match=r"failed: (no answer|connection timeout)"
                ) as error:
                    attempt()
                assert "See that it runs" in error.value.remedy
                assert time.monotonic() - began < 9
    finally:
        postgres.thaw()
    assert store.write([], [click("t")]) == ["recorded"]
    assert len(store.history("ann", 9).visits) == 2
    store.close()


@on_postgresql
def test_what_was_sent_to_a_frozen_postgresql_may_be_sent_again(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(new_schema(postgres))
    store.write([slate("s")], [])

    def freeze(connection: object) -> None:
        postgres.freeze()

    event.listen(Engine, "commit", freeze)  # then COMMIT is sent, and nothing is heard of it
    try:
        with monkeypatch.context() as hasty:
            hasty.setattr(engine, "WRITING", 3.0)
            with pytest.raises(StoreError, match="no answer"):
                store.write([], [click("s")])
    finally:
        event.remove(Engine, "commit", freeze)
        postgres.thaw()
    assert store.write([], [click("s")])[0] in ("recorded", "duplicate")
    assert store.write([], [click("s")]) == ["duplicate"]
    assert store.seq() == 2
    store.close()


def test_a_writer_gives_up_on_another_one_that_never_ends(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "PATIENCE", 1)
    store = Store.open(store_url)
    stranger = raw(store_url)
    stranger.execute(LOCK[store_url.partition(":")[0]])
    began = time.monotonic()
    with pytest.raises(StoreError, match="lock") as raised:
        store.write([slate("s")], [])
    assert "Another process has been writing" in raised.value.remedy
    assert time.monotonic() - began < 30
    stranger.execute("ROLLBACK")
    stranger.close()
    store.write([slate("s")], [])
    store.close()


@on_postgresql
def test_no_error_tells_the_password(postgres: Postgres) -> None:
    quoted = "s3cret%2Fp%40ss"
    wrong = postgres.url().replace(str(postgres.port), str(free_port()))
    stranger = postgres.url().replace("tester", "stranger")
    for url in (wrong, stranger, f"postgresql://u:{quoted}@[::1/x", f"mysql://u:{quoted}@h/d"):
        with pytest.raises(SlatewiseError) as raised:
            Store.open(url)
        for secret in (PASSWORD, quoted, "s3cret"):
            assert secret not in str(raised.value)
            assert secret not in repr(raised.value.__cause__)


@on_postgresql
def test_sqlite_and_postgresql_are_set_to_be_durable(tmp_path: Path, postgres: Postgres) -> None:
    sqlite = Store.open(f"sqlite:///{tmp_path}/store.sqlite")
    read = sqlite._database.read
    assert read(lambda c: c.exec_driver_sql("PRAGMA journal_mode").scalar()) == "wal"
    assert read(lambda c: c.exec_driver_sql("PRAGMA synchronous").scalar()) == 2
    sqlite.close()
    assert rows(postgres.url(), "SHOW fsync") == [("on",)]


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("nonsense", "neither of SQLite nor of PostgreSQL"),
        ("mysql://host/database", "neither of SQLite nor of PostgreSQL"),
        ("sqlite://", "A store is a file"),
        ("sqlite:///:memory:", "A store is a file"),
        ("sqlite:////no/such/folder/store.sqlite", "unable to open"),
    ],
)
def test_a_url_that_leads_nowhere_is_refused(url: str, problem: str) -> None:
    with pytest.raises(SlatewiseError, match=problem):
        Store.open(url)


@pytest.mark.xdist_group("postgresql")
def test_a_postgresql_that_cannot_keep_every_text_is_refused(postgres: Postgres) -> None:
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(
            "CREATE DATABASE narrow ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' "
            "TEMPLATE template0"
        )
    url = make_url(postgres.url()).set(database="narrow").render_as_string(hide_password=False)
    with pytest.raises(SlatewiseError, match="LATIN1") as refusal:
        Store.open(url)
    assert "UTF8" in refusal.value.remedy


def test_a_file_that_is_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store.sqlite").write_bytes(b"dear diary" * 1_000)
    with pytest.raises(StoreError, match="not a database"):
        Store.open(f"sqlite:///{tmp_path}/store.sqlite")
    assert (tmp_path / "store.sqlite").read_bytes() == b"dear diary" * 1_000


@pytest.mark.parametrize(
    ("module", "url"), [("sqlalchemy", "sqlite:///x"), ("psycopg", "postgresql://x")]
)
def test_without_the_libraries_the_extra_is_named(module: str, url: str, tmp_path: Path) -> None:
    code = (
        f"import sys; sys.modules[{module!r}] = None\n"
        f"from slatewise.service.store import Store; Store.open({url!r})"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "SlatewiseError" in ended.stderr
    assert "pip install '.[serve]'" in ended.stderr
