"""The real server as a process, users who load it, and a ledger of what it acknowledged."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx
import psutil
from sqlalchemy import func, select

from slatewise.service.store import Store
from slatewise.service.store.engine import Database
from slatewise.service.store.records import Visit
from slatewise.service.store.schema import OUTCOMES
from tests.service.sharing import free_port

SLATEWISE = [sys.executable, "-m", "slatewise"]
ITEMS = [f"item-{number}" for number in range(60)]
SEARCHED = 8
"""Items of a search."""


def eventually(what: Callable[[], object], why: str, seconds: float = 120) -> None:
    """Wait until something is so; on a busy machine that takes a while."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, f"after {seconds} s still not: {why}"
        time.sleep(0.2)


class Server:
    """`slatewise serve` in a process group of its own, started and killed as often as one likes."""

    def __init__(
        self,
        directory: Path,
        *options: str,
        workers: int = 2,
        log: Path | None = None,
        more: Mapping[str, str] | None = None,
        token: str | None = None,
        unread: bool = False,
    ) -> None:
        """Prepare a start: open to all, or with an administrator's token.

        `unread` leaves what it says on standard error in a pipe, which nobody reads.
        """
        self.port = free_port()
        self.directory, self.log = directory, log or directory.with_name("log")
        self._workers, self._begun = workers, 0
        fixed = ["--port", str(self.port), "--workers", str(workers)]
        fixed += [] if token else ["--open"]
        self._command = [*SLATEWISE, "serve", str(directory), *fixed, *options]
        self._environment = {**os.environ, "OMP_NUM_THREADS": "1", **(more or {})}
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        if token:
            self._environment["SLATEWISE_TOKENS"] = f"admin:{token}"
        self._unread = unread
        self.process: subprocess.Popen[bytes] | None = None
        self.client: httpx.Client

    def start(self, seconds: float = 240) -> Self:
        """Start it, and wait until all its workers answer."""
        self._begun = self._starts()
        url = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=url, timeout=30, headers=self._headers)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command,
                stdout=log,
                stderr=subprocess.PIPE if self._unread else subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )
        try:
            eventually(self._up, "the server answers", seconds)
        except BaseException as error:
            error.add_note(self.said())
            self.kill()
            raise
        return self

    def _up(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the server ended:\n{self.said()}"
        # A worker that is still starting would be missed by what is done to all of them.
        if self._starts() < self._begun + self._workers and not self._unread:
            return False
        with suppress(httpx.TransportError):
            return self.client.get("/health/ready").status_code == httpx.codes.OK
        return False

    def _starts(self) -> int:
        """Return how many workers said that they serve, in all its lives."""
        return self.said().count("Application startup complete")

    def said(self) -> str:
        """Return its log without the lines of requests."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(line for line in lines if "slatewise.access" not in line)

    def workers(self) -> list[psutil.Process]:
        """Return the processes that serve, in no order."""
        assert self.process is not None
        children = psutil.Process(self.process.pid).children(recursive=True)
        return [child for child in children if _listens(child, self.port)]

    def kill(self) -> None:
        """End all its processes at once, as a power cut would."""
        assert self.process is not None
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.client.close()

    def stop(self) -> int:
        """Ask it to end, as an operator would; return its exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(120)
        finally:
            self.client.close()
            if self.process.stderr is not None:
                self.process.stderr.close()
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def put_items(self, ids: Sequence[str] = ITEMS, groups: int = 4) -> None:
        """Offer items, of groups in turn."""
        items = [{"id": item, "group": f"group-{n % groups}"} for n, item in enumerate(ids)]
        self.client.put("/v1/items", json={"items": items}).raise_for_status()


def _listens(process: psutil.Process, port: int) -> bool:
    """Whether a process has the socket that requests come in by."""
    try:
        connections = process.net_connections("tcp")
    except psutil.Error:
        return False
    return any(c.laddr.port == port and c.status == psutil.CONN_LISTEN for c in connections)


@dataclass
class Entry:
    """An event that was sent, and what the server said to it."""

    event: dict[str, Any]
    recorded: int = 0
    """how often it was acknowledged as new"""
    duplicate: int = 0

    @property
    def acknowledged(self) -> bool:
        return self.recorded + self.duplicate > 0

    @property
    def clicked(self) -> tuple[str, ...]:
        click = self.event["clicked"]
        return () if click is None else (click,)


@dataclass
class Ledger:
    """Everything that any load on a store told, over all the lives of its server."""

    entries: dict[str, Entry] = field(default_factory=dict)
    served: dict[str, dict[str, Any]] = field(default_factory=dict)
    """recommendations by slate id, as they were answered"""
    statuses: Counter[str] = field(default_factory=Counter)
    """HTTP statuses by route, and "lost" for connections that broke"""
    odd: list[str] = field(default_factory=list)
    """answers that nobody should get"""
    loads: int = 0
    """begun so far, which tells their slates apart"""

    @property
    def acknowledged(self) -> int:
        return len(self.kept())

    def kept(self) -> list[str]:
        """Return the slates of which an event was acknowledged; more may come meanwhile."""
        return [name for name, entry in self.entries.copy().items() if entry.acknowledged]


class Load:
    """Users who ask, look and tell, and who tell again until they are answered."""

    def __init__(self, port: int, ledger: Ledger, threads: int = 3) -> None:
        self.ledger, self._port = ledger, port
        ledger.loads += 1
        self._done = threading.Event()
        self._threads = [
            threading.Thread(target=self._live, args=(random.Random(f"{ledger.loads} {number}"),))
            for number in range(threads)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()

    def goes_on(self, events: int = 30, seconds: float = 180) -> None:
        """Wait until so many more events are acknowledged."""
        wanted = self.ledger.acknowledged + events
        eventually(lambda: self.ledger.acknowledged >= wanted, "events are acknowledged", seconds)

    def is_refused(self, events: int = 3, seconds: float = 180) -> None:
        """Wait until so many more events are refused for the time being."""
        wanted = self.ledger.statuses["feedback 503"] + events
        eventually(
            lambda: self.ledger.statuses["feedback 503"] >= wanted, "events are refused", seconds
        )

    def is_served(self, slates: int = 5, seconds: float = 180) -> None:
        """Wait until so many more slates are made."""
        wanted = len(self.ledger.served) + slates
        eventually(lambda: len(self.ledger.served) >= wanted, "slates are made", seconds)

    def _live(self, rng: random.Random) -> None:
        refused: deque[dict[str, Any]] = deque()
        with httpx.Client(base_url=f"http://127.0.0.1:{self._port}", timeout=20) as client:
            while not self._done.is_set():
                event = self._searched(rng) if rng.random() < 0.5 else self._served(client, rng)
                if event is not None:
                    refused.append(event)
                if event is not None and rng.random() < 0.1:  # as a client does that lost count
                    refused.append(event)
                for _ in range(min(3, len(refused))):
                    event = refused.popleft()
                    if not self._told(client, event):
                        refused.append(event)
                time.sleep(0.03)

    def _searched(self, rng: random.Random) -> dict[str, Any]:
        items = rng.sample(ITEMS, SEARCHED)
        slate = {"slate_id": f"search-{uuid.UUID(int=rng.getrandbits(128))}", "source": "search"}
        return slate | {"user_id": f"user-{rng.randrange(40)}", "items": items} | _act(rng, items)

    def _served(self, client: httpx.Client, rng: random.Random) -> dict[str, Any] | None:
        # Users who click all day would otherwise run out of items they have not clicked yet.
        wanted = {"user_id": f"user-{rng.randrange(40)}", "k": 6, "clicked": "show"}
        answer = self._post(client, "recommend", wanted)
        if answer is None:
            return None
        if answer.status_code != httpx.codes.OK:
            self._odd(answer)
            return None
        slate = answer.json()
        items = [item["id"] for item in slate["items"]]
        if len(items) != len(set(items)) or len(items) != 6:
            self.ledger.odd.append(f"a slate of {items}")
        self.ledger.served[slate["slate_id"]] = slate
        return {"slate_id": slate["slate_id"]} | _act(rng, items)

    def _told(self, client: httpx.Client, event: dict[str, Any]) -> bool:
        """Tell of an event; return whether there was an answer that is the last word."""
        entry = self.ledger.entries.setdefault(event["slate_id"], Entry(event))
        answer = self._post(client, "feedback", {"events": [event]})
        if answer is None:
            return False
        if answer.status_code != httpx.codes.OK:
            self._odd(answer)
            return False
        said = answer.json()["events"][0]
        entry.recorded += said["status"] == "recorded"
        entry.duplicate += said["status"] == "duplicate"
        return True

    def _post(self, client: httpx.Client, route: str, body: object) -> httpx.Response | None:
        try:
            answer = client.post(f"/v1/{route}", json=body)
        except httpx.TransportError:
            self.ledger.statuses[f"{route} lost"] += 1
            time.sleep(0.05)
            return None
        self.ledger.statuses[f"{route} {answer.status_code}"] += 1
        return answer

    def _odd(self, answer: httpx.Response) -> None:
        """Nothing but a 503 with a remedy may be said to a good request."""
        kind = answer.headers.get("content-type", "")
        if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE or "problem+json" not in kind:
            self.ledger.odd.append(f"{answer.request.url.path}: {answer.status_code} {answer.text}")
        elif not answer.json().get("remedy") or "retry-after" not in answer.headers:
            self.ledger.odd.append(f"no remedy: {answer.text}")


def audit(ledger: Ledger, url: str) -> dict[str, int]:
    """Count what is acknowledged, and what of it is lost, counted twice or otherwise than sent."""
    store, database = Store.open(url), Database(url)
    entries = ledger.entries.copy()  # users who are still refused add to it
    pages = store.export(0, 1 << 62)
    visits = {visit.slate.slate_id: visit for page in pages for visit in page}
    outcomes = database.read(lambda c: c.scalar(select(func.count()).select_from(OUTCOMES)))
    store.close()
    database.close()
    kept = [name for name, entry in entries.items() if entry.acknowledged]
    unsent = [name for name in visits if name not in entries]
    known = visits.keys() & entries.keys()
    return {
        "acknowledged": len(kept),
        "lost": sum(name not in visits for name in kept),
        "unsent": len(unsent),
        "changed": sum(not same(visits[name], entries[name]) for name in known),
        "doubled": (outcomes or 0)
        - len(visits)
        + sum(entry.recorded > 1 for entry in entries.values()),
    }


def settle(ledger: Ledger, url: str) -> None:
    """Hold the ledger against the store: nothing acknowledged is missing, nothing counts twice."""
    found = audit(ledger, url)
    wrong = {name: count for name, count in found.items() if count and name != "acknowledged"}
    assert not wrong, f"of {found['acknowledged']} acknowledged events: {wrong}"
    assert not ledger.odd, ledger.odd[:3]


def same(visit: Visit, entry: Entry) -> bool:
    return (visit.seen, visit.clicked) == (entry.event["seen"], entry.clicked)


def _act(rng: random.Random, items: Sequence[str]) -> dict[str, Any]:
    seen = rng.randint(1, len(items))
    return {"seen": seen, "clicked": rng.choice([None, *items[:seen]])}


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """Mount a disk of its own at `place`; needs root."""
    folder.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)], check=True
    )
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
