"""What may break does break here, under load: nothing acknowledged is lost or counts twice."""

import fcntl
import random
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import termios
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import httpx
import psutil
import pytest

from slatewise.service.http.limits import BURST
from slatewise.service.serving import Request, Service, replay
from slatewise.service.serving.models import CurrentVersion, Models
from slatewise.service.settings import ServiceConfig
from slatewise.service.store import Store
from slatewise.service.store.records import Outcome, SlateRecord
from slatewise.service.upkeep.backup import back_up, restore
from tests.service.live.conftest import CONFIG, Shop
from tests.service.live.harness import SLATEWISE, Server, eventually, same
from tests.service.sharing import Shared

TOKEN = "a-token-of-some-length"

pytestmark = pytest.mark.xdist_group("live")


def retraining(directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*SLATEWISE, "retrain", str(directory), "--config", str(CONFIG)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def serving(shop: Shop) -> set[str]:
    """The versions that the next few slates come from, by connections to all workers."""
    once = httpx.Limits(max_keepalive_connections=0)  # one that is kept stays with its worker
    with httpx.Client(base_url=shop.server.client.base_url, timeout=30, limits=once) as client:
        answers = [client.post("/v1/recommend", json={}) for _ in range(20)]
    return {answer.raise_for_status().json()["version"] for answer in answers}


def retrained(shop: Shop) -> CurrentVersion:
    """Return the version that serves, trained here if none was before."""
    models = Models.of(shop.directory, "main")
    if models.current() is None:
        with shop.load() as load:
            load.goes_on(150)
        training = retraining(shop.directory)
        said, _ = training.communicate()
        assert training.returncode == 0, said
    now = models.current()
    assert now is not None
    eventually(lambda: serving(shop) == {now.version}, "all workers serve the version")
    return now


def test_a_killed_worker_takes_nothing_with_it_and_is_replaced(shop: Shop) -> None:
    rng = random.Random(1)
    with shop.load() as load:
        load.goes_on()
        time.sleep(rng.uniform(0.05, 0.5))
        victim = rng.choice(shop.server.workers())
        victim.send_signal(signal.SIGKILL)
        load.goes_on()
        eventually(lambda: len(shop.server.workers()) == 2, "two workers again")
    shop.settle()


def test_a_killed_retraining_leaves_the_old_model_and_two_at_once_are_refused(shop: Shop) -> None:
    rng = random.Random(2)
    with shop.load() as load:
        load.goes_on(150)
        old = serving(shop)
        killed = retraining(shop.directory)
        eventually((shop.directory / "retraining.lock").exists, "it began")
        time.sleep(rng.uniform(0.0, 1.5))
        killed.kill()
        killed.communicate()
        before = Models.of(shop.directory, "main").current()
        left = old if before is None else {before.version}  # it may have been quicker
        eventually(lambda: serving(shop) == left, "a whole model serves")
        first, lock = retraining(shop.directory), shop.directory / "retraining.lock"
        eventually(lambda: lock.read_text().split()[-1:] == [str(first.pid)], "the first has begun")
        first.send_signal(signal.SIGSTOP)  # however quick it is, the second comes meanwhile
        second = retraining(shop.directory)
        said, _ = second.communicate()
        assert second.returncode != 0
        assert "is being retrained already" in said
        first.send_signal(signal.SIGCONT)
        said, _ = first.communicate()
        assert first.returncode == 0, said
        now = Models.of(shop.directory, "main").current()
        assert now is not None
        assert now != before
        eventually(lambda: serving(shop) == {now.version}, "all workers serve the new version")
        load.goes_on()
    shop.settle()


def test_a_reload_under_load_fails_no_request(shop: Shop) -> None:
    shop.ledger.statuses.clear()
    with shop.load() as load:
        load.goes_on()
        before = {worker.pid for worker in shop.server.workers()}
        assert shop.server.process is not None
        shop.server.process.send_signal(signal.SIGHUP)
        eventually(
            lambda: (
                len(now := {worker.pid for worker in shop.server.workers()}) == 2
                and not now & before
            ),
            "two other workers",
            180,
        )
        load.goes_on()
    assert shop.ledger.statuses.keys() == {"recommend 200", "feedback 200"}, shop.ledger.statuses
    shop.settle()


@pytest.mark.parametrize("who", ["all processes", "the parent alone"])
def test_a_killed_server_has_kept_what_it_acknowledged(shop: Shop, who: str) -> None:
    rng = random.Random(f"3 {who}")
    server = shop.server
    with shop.load() as load:
        load.goes_on()
        time.sleep(rng.uniform(0.05, 0.5))
        if who == "all processes":
            server.kill()
        else:
            assert server.process is not None
            left = psutil.Process(server.process.pid).children(recursive=True)
            server.process.kill()
            server.process.wait()
            server.client.close()
            psutil.wait_procs(left, timeout=90)  # requests under way may take them 30 s
            assert not [one for one in left if one.is_running()], "workers live on"
        shop.settle()
        server.start()
        load.goes_on()
    shop.settle()


def test_every_slate_can_be_made_again_from_the_log_whatever_happened(shop: Shop) -> None:
    retrained(shop)
    with shop.load() as load:
        load.goes_on()
    store = Store.open(shop.url)
    config = ServiceConfig.read(CONFIG)
    records = [store.slate(slate_id) for slate_id in shop.ledger.served]
    kept = [record for record in records if record is not None]
    assert len({record.serving.version for record in kept if record.serving}) > 1
    for record in random.Random(4).sample(kept, 25):
        again = replay(shop.directory, config, store, record)
        assert tuple(map(str, again.items)) == record.items
        told = shop.ledger.served[record.slate_id]
        assert tuple(item["id"] for item in told["items"]) == record.items
    store.close()


def test_a_backup_under_load_has_all_that_was_acknowledged_before_it(
    shop: Shop, tmp_path: Path
) -> None:
    file, other = tmp_path / "shop.tar.gz", tmp_path / "restored"
    with shop.load() as load:
        load.goes_on()
        before = shop.ledger.kept()
        back_up(shop.directory, shop.url, file, CONFIG)
        load.goes_on()  # it was not held up for good
    restore(file, other)
    store = Store.open(f"sqlite:///{other / 'store.sqlite'}")
    kept = {visit.slate.slate_id: visit for page in store.export(0, 1 << 62) for visit in page}
    service = Service.open(other, ServiceConfig.read(other / "service.toml"), store)
    record, _, _ = service.recommend(Request("user-1", k=3))
    store.close()
    assert not [name for name in before if name not in kept]
    assert not [n for n, visit in kept.items() if not same(visit, shop.ledger.entries[n])]
    assert record.serving is not None
    assert {record.serving.version} == serving(shop)
    shop.settle()


def test_a_damaged_version_never_serves(shop: Shop) -> None:
    good = retrained(shop)
    models = Models.of(shop.directory, "main")
    bad = models.next_version()
    shutil.copytree(models.path(good.version), models.path(bad))
    posterior = models.path(bad) / "posterior.safetensors"
    damaged = bytearray(posterior.read_bytes())
    damaged[-1] ^= 1
    posterior.write_bytes(damaged)
    with shop.load() as load:
        models.promote(bad, "a test")
        told = "posterior.safetensors"
        eventually(
            lambda: sum(told in line for line in shop.server.said().splitlines()) >= 2,
            "both workers have looked",
        )
        assert serving(shop) == {good.version}
        shop.server.stop()
        shop.server.start()
        assert serving(shop) == {good.version}
        models.rollback("a test")
        shutil.rmtree(models.path(bad))
        load.goes_on()
    shop.settle()


def test_a_clock_that_jumps_does_not_turn_the_log_round(shop: Shop) -> None:
    store = Store.open(shop.url)
    with shop.load() as load, shop.wrong_clock() as set_clock:
        load.goes_on()
        before = store.last_served()
        set_clock(-3_600)
        early = set(shop.ledger.served)
        load.goes_on()
        set_clock(365 * 86_400)
        load.goes_on()
        notes = shop.server.client.get("/health/ready").json()["notes"]
        assert any("clock jumped" in note for note in notes)
        late = set(shop.ledger.served) - early
    times = [record.time for one in late if (record := store.slate(one)) is not None]
    store.close()
    assert len(times) > 5
    assert min(times) > before - 2_000_000  # each worker has a clock of its own
    assert max(times) < time.time_ns() // 1_000 + 2_000_000
    shop.settle()


def test_readiness_stays_while_many_try_slates(shop: Shop) -> None:
    url, over, told = f"http://127.0.0.1:{shop.server.port}", threading.Event(), Counter[int]()

    def attempts(number: int) -> None:
        body = {"clicks": ["item-1"], "k": 50, "seed": number}
        with httpx.Client(base_url=url, timeout=30) as client:
            while not over.is_set():
                told[client.post("/v1/try", json=body).status_code] += 1

    with ThreadPoolExecutor(16) as threads:
        trying = [threads.submit(attempts, number) for number in range(16)]
        try:
            eventually(lambda: told[200] and told[429], "some are answered, others refused")
            looks = [shop.server.client.get("/health/ready").status_code for _ in range(5)]
        finally:
            over.set()
    for one in trying:
        one.result()
    assert looks == [200] * 5
    assert told.keys() == {200, 429}
    time.sleep(BURST)  # the bucket of those who need no token is full again


def test_a_full_disk_refuses_in_words_and_recovers(shop: Shop) -> None:
    if not shop.small:
        pytest.skip("NOT TESTED ON A FULL DISK: only root can mount a small one")
    ballast = shop.directory.parent / "ballast"
    with shop.load() as load:
        load.goes_on()
        with ballast.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(1 << 12))
        load.is_refused()
        load.is_served()
        ballast.unlink()
        load.goes_on()
    shop.settle()


def test_erasing_under_load_refuses_nobody(shop: Shop) -> None:
    client, shop.ledger.statuses = shop.server.client, Counter()
    slate = {"user_id": "leaving", "source": "search", "items": ["item-1", "item-2"]}
    events = [slate | {"slate_id": f"leaving-{n}", "clicked": "item-2"} for n in range(700)]
    assert client.post("/v1/feedback", json={"events": events}).json()["recorded"] == 700
    with shop.load() as load:
        load.goes_on(5)
        assert client.delete("/v1/users/leaving").json()["slates"] == 700
        load.goes_on(5)
    assert client.get("/v1/users/leaving").json()["visits"] == []
    assert client.post("/v1/feedback", json={"events": events[:1]}).json()["refused"] == 1
    assert shop.ledger.statuses.keys() == {"recommend 200", "feedback 200"}, shop.ledger.statuses
    shop.settle()


def test_feedback_that_contradicts_its_slate_is_refused_and_not_kept(shop: Shop) -> None:
    client = shop.server.client
    slate = client.post("/v1/recommend", json={"user_id": "anna", "k": 3}).json()
    event = {"slate_id": slate["slate_id"], "user_id": "bea", "clicked": slate["items"][0]["id"]}
    refused = client.post("/v1/feedback", json={"events": [event]})
    assert refused.status_code == httpx.codes.CONFLICT
    assert refused.json()["remedy"]
    for user in ("anna", "bea"):
        visits = client.get(f"/v1/users/{user}").json()["visits"]
        assert not [visit for visit in visits if visit["answered"]]


@contextmanager
def guard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("guarded")
    (home / "tmp").mkdir()
    (home / "service.toml").write_text("")
    (home / "tokens").write_text(f"admin:{TOKEN}\nread:{TOKEN[::-1]}\n")
    (home / "tokens").chmod(0o600)
    more = {"TMPDIR": str(home / "tmp")}
    files = "--config", str(home / "service.toml"), "--tokens", str(home / "tokens")
    server = Server(home / "service", *files, workers=1, more=more, token=TOKEN, unread=True)
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture(scope="session")
def guards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared[Server]]:
    with closing(Shared(partial(guard, tmp_path_factory))) as servers:
        yield servers


@pytest.fixture
def guarded(guards: Shared[Server], request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server with a token, a folder for temporary files, and a log that nobody reads."""
    with guards.lend(request) as server:
        yield server


def test_a_log_that_nobody_reads_stops_no_request(guarded: Server) -> None:
    assert guarded.process is not None
    assert guarded.process.stderr is not None
    pipe = guarded.process.stderr.fileno()
    room = fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 8_192)

    def takes_no_more_lines() -> bool:
        for _ in range(100):
            assert guarded.client.get("/health/live").status_code == httpx.codes.OK
        waiting: int = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]
        return waiting > room - 4_096

    # Lines are written a moment after their requests.
    eventually(takes_no_more_lines, "the pipe of the log is full")
    assert takes_no_more_lines()


def test_trailers_are_neither_kept_nor_taken_for_headers(guarded: Server) -> None:
    start = b"POST /v1/recommend HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    start += b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    (worker,) = guarded.workers()
    before, sent = worker.memory_info().rss, 0
    address = "127.0.0.1", guarded.port
    # It may close the connection at any moment.
    with socket.create_connection(address, timeout=10) as connection, suppress(OSError):
        connection.sendall(start)
        while sent < 40_000_000:
            sent += connection.send(b"X-Long: " + b"a" * 60_000 + b"\r\n")
    assert worker.memory_info().rss - before < 20_000_000
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(start + f"Authorization: Bearer {TOKEN}\r\n\r\n".encode())
        assert connection.recv(1_000).startswith(b"HTTP/1.1 401")
    assert guarded.client.post("/v1/recommend", json={}).status_code == httpx.codes.OK


def test_pipelined_requests_take_no_memory(guarded: Server) -> None:
    (worker,) = guarded.workers()
    before, sent = worker.memory_info().rss, 0
    with ExitStack() as opened:
        for _ in range(4):
            connection = opened.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)  # nothing is read
            connection.settimeout(2)
            connection.connect(("127.0.0.1", guarded.port))
            with suppress(OSError):  # it may close the connection at any moment
                while sent < 40_000_000:
                    sent += connection.send(b"GET /health/live HTTP/1.1\r\n\r\n" * 2_000)
        assert guarded.client.get("/health/live").status_code == httpx.codes.OK
    assert worker.memory_info().rss - before < 20_000_000


def test_erasing_beside_a_long_reader_holds_up_no_feedback(guarded: Server) -> None:
    file = guarded.directory / "store.sqlite"
    store, now = Store.open(f"sqlite:///{file}"), time.time_ns() // 1_000
    for start in range(0, 50_000, 2_000):
        ids = range(start, start + 2_000)
        slates = [
            SlateRecord(f"many-{n}", "leaving" if n % 50 == 0 else "other", now, "search", ("a",))
            for n in ids
        ]
        store.write(slates, [Outcome(slate.slate_id, 1, (), now) for slate in slates])
    reader = sqlite3.connect(file, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM meta").fetchall()
    slate = {"user_id": "bo", "source": "search", "items": ["item-1"]}
    longest, sent = 0.0, 0
    with ThreadPoolExecutor(1) as thread:
        erasing = thread.submit(guarded.client.delete, "/v1/users/leaving")
        while not erasing.done() or sent < 5:
            began = time.monotonic()
            told = guarded.client.post(
                "/v1/feedback", json={"events": [slate | {"slate_id": f"beside-{sent}"}]}
            )
            assert told.status_code == httpx.codes.OK
            longest, sent = max(longest, time.monotonic() - began), sent + 1
    answer = erasing.result().json()
    assert answer["slates"] == 1_000
    assert answer["notes"]
    assert longest < 8  # not the ten seconds that writers wait for each other
    reader.close()
    eventually(lambda: not store.has_traces_in_log, "the log is emptied")
    store.close()


def test_a_reload_takes_new_settings_and_tokens(guarded: Server) -> None:
    assert guarded.process is not None
    home, (before,) = guarded.directory.parent, guarded.workers()
    (home / "tokens").write_text(f"read:{'b' * 20}\nadmin:{TOKEN}\nread:{'c' * 20}\n")
    (home / "service.toml").write_text("[limits]\nk = 3\n")
    guarded.process.send_signal(signal.SIGHUP)
    eventually(lambda: not before.is_running(), "another worker", 180)

    def status(token: str, k: int = 3) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        return guarded.client.post("/v1/recommend", json={"k": k}, headers=headers).status_code

    assert [status(token) for token in ("b" * 20, TOKEN, "c" * 20)] == [200] * 3
    assert status(TOKEN, k=4) == httpx.codes.UNPROCESSABLE_ENTITY
    assert status(TOKEN[::-1]) == httpx.codes.UNAUTHORIZED


def test_the_folder_for_temporary_files_may_go(guarded: Server) -> None:
    shutil.rmtree(guarded.directory.parent / "tmp")
    for path in ("/metrics", "/health/ready", "/v1/status", "/v1/map"):
        assert guarded.client.get(path).status_code == httpx.codes.OK
    assert guarded.client.post("/v1/recommend", json={}).status_code == httpx.codes.OK
