"""How fast the live service answers, on the processor and over HTTP, and whether its memory stays.

Starts `slatewise serve` with one worker on a catalogue of made-up items and drives it over loopback
with wrk, which has to be there (Debian's package; installed where that is allowed). wrk and the
server share the machine, so rates are those of a core that has a busy neighbour. Latencies are of
one connection, without a queue; the rate is that of eight.

`server` is the CPU time of the worker by request, all threads together, by the system's accounts.
`http` is that of its first thread without what `Service.recommend` took there, which the worker
counts itself (slatewise_ranking_cpu_seconds_total): HTTP, JSON, checks, log and metrics, and giving
slates that take long to other threads and getting them back. The floor is the bare `kernel`: one
exact ranking of the catalogue for users as they are, nothing else. `service` is what
`Service.recommend` takes in a process of its own: history, profile, ranking, relevance. The rest of
`server` writes slates down and waits for the other threads. All in CPU milliseconds of the same
run, of the best of some parts: neighbours that use the same caches make all of it slower.

Feedback is events of slates that others showed, acknowledged when they are on disk, one or fifty
in a request. The soak mixes recommendations with feedback and watches the worker's own memory
(RssAnon): a line is fitted to the second half, when its caches are about full.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count, cycle
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np
import psutil
import torch

from harness import Row, Target, parser, report, show
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.gaussian import Gaussian
from slatewise.model.posterior import Posterior
from slatewise.ranking import ItemTable, rank_draws, rank_means
from slatewise.service.arms import assign
from slatewise.service.config import ServiceConfig
from slatewise.service.serving import Request, Service
from slatewise.service.store import Store
from slatewise.strategies.exact import ExactRanker
from slatewise.strategies.users import Users
from slatewise.training import runs

ROOT = Path(__file__).parents[1]
SMALL, LARGE = 100_000, 1_300_000
DIMS, GROUPS, K, DRAWS = 25, 300, 20, 12
USERS, VISITS = 400, 20
CONFIG = """
history = 20
[models.main.model]
dimensions = 25
[arms.greedy]
strategy = "greedy"
[arms.in-slate-thompson]
strategy = "in-slate-thompson"
[limits]
requests_per_second = 1e6
"""


def main() -> None:
    """Measure both catalogues, feedback on both stores, and the soak."""
    arguments = parser(__doc__)
    arguments.add_argument("--quick", action="store_true", help="100,000 items only, short runs")
    options = arguments.parse_args()
    wrk = _program()
    seconds = 4 if options.quick else 6
    rows: list[Row] = []
    soak: Row = {}
    for items in (SMALL,) if options.quick else (SMALL, LARGE):
        with tempfile.TemporaryDirectory() as scratch, _shop(Path(scratch), items) as shop:
            print(f"{items:,} items are served.", file=sys.stderr)
            loaded = {arm: _slates(shop, wrk, arm, seconds) for arm in shop.config.arms}
            rows += [
                {"items": items, "arm": arm, **outside, **inside, "ratio": ratio}
                for arm, inside in _inside(shop).items()
                for outside in [loaded[arm]]
                for ratio in [outside["server"] / inside["kernel"]]
            ]
            if items == SMALL:
                soak = _soak(shop, wrk, 30 if options.quick else 120)
    events = _feedback(wrk, seconds)
    show("Feedback, one worker", {"store": "{}", "batch": "{}", "events_s": "{:,.0f}"}, events)
    print(
        f"Soak: {soak['requests']:,} requests in {soak['seconds']:.0f} s, {soak['first']:.1f} MB "
        f"after half of it, {soak['last']:.1f} MB at the end: {soak['slope']:+.3f} MB a minute."
    )
    report(
        options,
        "Slates over HTTP: a second, latency in ms, CPU ms of a request",
        {"items": "{:,}", "arm": "{}", "slates_s": "{:,.0f}"}
        | dict.fromkeys(("p50", "p99", "server", "http", "service", "kernel"), "{:.2f}")
        | {"ratio": "{:.1f}"},
        rows,
        _targets(rows, soak),
        feedback=events,
        soak=soak,
    )


def _targets(rows: list[Row], soak: Row) -> list[Target]:
    """Judge HTTP where a ranking is short: a long one empties the caches that it needs."""
    http = min(row["http"] for row in rows if row["items"] == SMALL)
    failed = sum(row["failed"] for row in rows) + soak["failed"]
    left = 1e6 * soak["growth"] / soak["requests"]
    return [
        Target(f"CPU ms of HTTP and JSON, {SMALL:,} items", http, 0.3),
        Target("requests that failed", failed, 0),
        # A slate, its record and an event are some 5,000 bytes.
        Target("bytes of memory a request leaves behind, in the soak", left, 500),
    ]


class Shop:
    """A running server, and what is asked of it."""

    def __init__(self, directory: Path, config: Path, client: httpx.Client, pid: int) -> None:
        self.directory, self.client = directory, client
        self.config = ServiceConfig.read(config)
        self._parent = psutil.Process(pid)

    @property
    def worker(self) -> psutil.Process:
        """The one that serves; its parent only looks after it."""
        children = self._parent.children(recursive=True)
        return max(children, key=lambda one: sum(one.cpu_times()[:2]))

    def cpu(self) -> tuple[float, float]:
        """CPU seconds of the worker so far, and those of its first thread, which speaks HTTP."""
        worker = self.worker
        first = next(thread for thread in worker.threads() if thread.id == worker.pid)
        return float(sum(worker.cpu_times()[:2])), first.user_time + first.system_time

    def ranking(self) -> float:
        """CPU seconds that the first thread spent in `Service.recommend`, as it counted them."""
        name = 'slatewise_ranking_cpu_seconds_total{thread="http"} '
        lines = self.client.get("/metrics").text.splitlines()
        return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))

    def memory(self) -> float:
        """Megabytes of the worker that are neither files nor shared."""
        status = Path(f"/proc/{self.worker.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("RssAnon"))
        return int(line.split()[1]) / 1000

    def users(self, arm: str) -> list[str]:
        """Users with a history who are in an arm."""
        config = self.config
        names = [f"user-{number}" for number in range(USERS)]
        return [name for name in names if assign(config.shares, config.salt, name) == arm]


@contextmanager
def _shop(home: Path, items: int, *options: str) -> Iterator[Shop]:
    """Serve so many made-up items, to users with a history; none without items."""
    run, config = home / "run", home / "service.toml"
    config.write_text(CONFIG)
    if items:
        _model(items, run)
        options = (*options, "--run", str(run))
    with _server(home, config, *options) as (client, pid):
        shop = Shop(home / "service", config, client, pid)
        if items:
            shutil.rmtree(run)
            _histories(client, items)
        yield shop


def _model(items: int, path: Path) -> None:
    """Write a run whose items lie anywhere: what it knows is worth nothing, its size is real."""
    generator = torch.Generator().manual_seed(0)
    groups = torch.randint(GROUPS, (items,), generator=generator)
    sources = ["recommendation", "search"]
    posterior = Posterior(ModelConfig(dimensions=DIMS), groups, GROUPS, 25, generator, sources)
    means = torch.randn(items, DIMS, generator=generator)
    posterior.items = Gaussian.around(means, 0.2, posterior.config.sigma_max)
    ids: list[int | str] = [str(number) for number in range(items)]
    names = [f"group-{number}" for number in range(GROUPS)]
    runs.save(SlateModel(posterior, ids, names, sources, torch.ones(items)), path)


@contextmanager
def _server(home: Path, config: Path, *options: str) -> Iterator[tuple[httpx.Client, int]]:
    port, log = "8765", home / "log"
    command = [sys.executable, "-m", "slatewise", "serve", str(home / "service"), *options]
    command += ["--config", str(config), "--port", port, "--open"]
    with ExitStack() as stack:
        output = stack.enter_context(log.open("wb"))
        quiet = os.environ | {"OMP_NUM_THREADS": "1"}
        server = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=quiet)
        stack.callback(server.wait, 60)
        stack.callback(server.terminate)
        address = f"http://127.0.0.1:{port}"
        client = stack.enter_context(httpx.Client(base_url=address, timeout=60))
        while not _answers(client):
            if server.poll() is not None:
                sys.exit(f"The server ended:\n{log.read_text()}")
            time.sleep(0.2)
        yield client, server.pid


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/health/ready").status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def _histories(client: httpx.Client, items: int) -> None:
    rng = np.random.default_rng(1)
    for visit in range(VISITS):
        body = {"events": [_event(rng, items, u, f"{visit}-{u}") for u in range(USERS)]}
        client.post("/v1/feedback", json=body).raise_for_status()


def _event(rng: np.random.Generator, items: int, user: int, slate: str) -> dict[str, Any]:
    shown = [str(item) for item in rng.choice(max(items, 100), 20, replace=False)]
    known = {"slate_id": slate, "user_id": f"user-{user}", "source": "search", "items": shown}
    return known | {"seen": 12, "clicked": shown[3]}


def _slates(shop: Shop, wrk: str, arm: str, seconds: float) -> Row:
    lines = [json.dumps({"user_id": user, "k": K}) for user in shop.users(arm)]
    _load(shop, wrk, "recommend", lines, 8, 2)  # caches, and whatever is compiled late
    alone = _load(shop, wrk, "recommend", lines, 1, seconds)
    parts = [_with_cpu(shop, wrk, lines, seconds / 2) for _ in range(4)]
    best = {name: min(part[name] for part in parts) for name in ("server", "http")}
    return {
        "slates_s": max(part["requests"] / part["seconds"] for part in parts),
        "p50": alone["p50"],
        "p99": alone["p99"],
        **best,
        "failed": sum(part["failed"] for part in (*parts, alone)),
    }


def _with_cpu(shop: Shop, wrk: str, lines: Sequence[str], seconds: float) -> Row:
    """Load the server; add the CPU milliseconds that a request took it, and HTTP in it."""
    # Asked in this order, HTTP has what answers to the last requests, and asking itself, cost.
    before, ranked = shop.cpu(), shop.ranking()
    found = _load(shop, wrk, "recommend", lines, 8, seconds)
    ranking, after = shop.ranking() - ranked, shop.cpu()
    server, first = (1000 * (now - then) for now, then in zip(after, before, strict=True))
    http = first - 1000 * ranking
    return found | {"server": server / found["requests"], "http": http / found["requests"]}


def _inside(shop: Shop) -> dict[str, Row]:
    """Return the CPU milliseconds of the parts of a request by arm, taken in this process."""
    store = Store.open(shop.config.store_url(shop.directory))
    service = Service.open(shop.directory, shop.config, store)
    found = {}
    for arm in shop.config.arms:
        users = shop.users(arm)
        requests = cycle([Request(user_id=user, k=K) for user in users])
        for _ in users:  # fills the cache
            service.recommend(next(requests))
        found[arm] = {
            "service": _typical(lambda asked=requests: service.recommend(next(asked)), 40),
            "kernel": _typical(_kernel(shop.directory / "models" / "main" / "1", arm), 20),
        }
    store.close()
    return found


def _kernel(version: Path, arm: str) -> Callable[[], object]:
    """Return a ranking of all items, for one user after the other where her clicks have her."""
    ranker = ExactRanker(
        runs.load(version).posterior, ItemTable.open(next(version.glob("table-*")))
    )
    rng, seeds = np.random.default_rng(2), count()
    clicks = rng.integers(ranker.table.num_items, size=(50, VISITS))
    if arm == "greedy":
        asked = Users.of_clicks(list(clicks), 0, show_clicked=True)
        means = cycle(ranker.mean_profiles(asked))
        return lambda: rank_means(ranker.table, next(means), K)
    draws = cycle([ranker.draw_profiles(row, DRAWS, next(seeds)).profiles for row in clicks])
    return lambda: rank_draws(ranker.table, next(draws), K, next(seeds))


def _typical(work: Callable[[], object], times: int) -> float:
    """Return the CPU milliseconds of a call in this thread: the least median of five parts."""
    work()
    taken = []
    for _ in range(5 * times):
        start = time.thread_time()
        work()
        taken.append(1000 * (time.thread_time() - start))
    return min(median(taken[part * times :][:times]) for part in range(5))


def _feedback(wrk: str, seconds: float) -> list[Row]:
    """Return events a second on both stores, one or fifty in a request."""
    rng, rows = np.random.default_rng(3), []
    for store in ("sqlite", "postgresql"):
        with ExitStack() as stack:
            options = [] if store == "sqlite" else ["--store", _postgresql(stack)]
            home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            shop = stack.enter_context(_shop(home, 0, *options))
            for batch in (1, 50):
                bodies = [
                    {"events": [_event(rng, 0, n * 50 + e, f"SLATE-{e}") for e in range(batch)]}
                    for n in range(20)
                ]
                lines = [json.dumps(body) for body in bodies]
                _load(shop, wrk, "feedback", lines, 16, 1)
                found = _load(shop, wrk, "feedback", lines, 16, seconds)
                rate = batch * found["requests"] / found["seconds"]
                rows.append({"store": store, "batch": batch, "events_s": rate})
                if found["failed"] or _refused(shop.client):
                    sys.exit(f"Not all events were recorded on {store}.")
    return rows


def _refused(client: httpx.Client) -> bool:
    lines = client.get("/metrics").text.splitlines()
    counts = [line for line in lines if line.startswith("slatewise_feedback_total{")]
    return any(not line.endswith(" 0.0") for line in counts if 'status="recorded"' not in line)


def _postgresql(stack: ExitStack) -> str:
    sys.path.append(str(ROOT))
    from tests.service.postgres import Postgres, programs  # noqa: PLC0415

    found = programs()
    if found is None:
        sys.exit("PostgreSQL is not installed: apt-get install postgresql")
    server = Postgres(found)
    stack.callback(server.remove)
    return server.url()


def _soak(shop: Shop, wrk: str, seconds: float) -> Row:
    """Drive the server for a while with slates and feedback; fit a line to its memory."""
    rng = np.random.default_rng(4)
    asked = [json.dumps({"user_id": f"user-{user}", "k": K}) for user in range(USERS)]
    told = [json.dumps({"events": [_event(rng, SMALL, user, "SLATE")]}) for user in range(USERS)]
    samples: list[tuple[float, float]] = []
    start = time.monotonic()
    loads = [
        _begin(shop, wrk, "recommend", asked, 3, seconds),
        _begin(shop, wrk, "feedback", told, 2, seconds),
    ]
    while any(load.poll() is None for load in loads):
        samples.append((time.monotonic() - start, shop.memory()))
        time.sleep(0.5)
    found = [_ended(load) for load in loads]
    later = np.array([sample for sample in samples if sample[0] > seconds / 2])  # [N, 2]
    slope = float(np.polyfit(later[:, 0], later[:, 1], 1)[0])
    return {
        "requests": sum(one["requests"] for one in found),
        "failed": sum(one["failed"] for one in found),
        "seconds": seconds,
        "first": float(later[0, 1]),
        "last": float(later[-1, 1]),
        "slope": 60 * slope,
        "growth": slope * seconds,
    }


def _load(
    shop: Shop, wrk: str, route: str, lines: Sequence[str], connections: int, seconds: float
) -> Row:
    return _ended(_begin(shop, wrk, route, lines, connections, seconds))


def _begin(
    shop: Shop, wrk: str, route: str, lines: Sequence[str], connections: int, seconds: float
) -> "subprocess.Popen[str]":
    bodies = shop.directory.with_name(f"{route}.jsonl")
    bodies.write_text("\n".join(lines) + "\n")
    command = [wrk, "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "20s"]
    command += ["-s", str(Path(__file__).with_name("serve.lua")), str(shop.client.base_url)]
    command += ["--", str(bodies), f"/v1/{route}"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _ended(load: "subprocess.Popen[str]") -> Row:
    said, _ = load.communicate()
    found: Row = json.loads(said.strip().splitlines()[-1])
    return found


def _program() -> str:
    """Find wrk, or install Debian's where that is allowed."""
    if shutil.which("wrk") is None and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for command in (["apt-get", "-qq", "update"], ["apt-get", "install", "-y", "-qq", "wrk"]):
            subprocess.run(command, env=quiet, capture_output=True, check=False, timeout=600)
    return shutil.which("wrk") or sys.exit("wrk is not installed: apt-get install wrk")


if __name__ == "__main__":
    main()
