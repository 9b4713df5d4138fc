"""How fast the live service answers, on the processor and over HTTP, and whether its memory stays.

Starts `slatewise serve` with one worker on a catalogue of made-up items and drives it over loopback
with wrk, which has to be there (Debian's package; installed where that is allowed). wrk and the
server share the machine, so rates are those of a core that has a busy neighbour. Latencies are of
one connection, without a queue; the rate is that of eight.

`server` is the CPU time of the worker by request, all threads together, by the system's accounts.
`http` is that of its first thread without what `Service.recommend` took there, which the worker
counts (slatewise_ranking_cpu_seconds_total): HTTP, JSON, checks, log and metrics, and giving slates
that take long to other threads. The floor is the bare `kernel`: one exact ranking of the catalogue
for users as they are. `service` is what `Service.recommend` takes in a process of its own: history,
profile, ranking, relevance. The rest of `server` writes slates down and waits. All in milliseconds
of the same run, of the best of some parts: neighbours in the same caches make all of it slower.

Feedback is events of slates that others showed, acknowledged when they are on disk, one or fifty
in a request, with what an event costs the worker in CPU time; its latency is that of one connection
beside eight that ask for slates. The soak mixes both for a quarter of an hour and watches the
worker's own memory (RssAnon): a line is fitted to the last two thirds, when its caches are full.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import count, cycle
from pathlib import Path
from statistics import median

import numpy as np

from harness import Row, Target, parse, parser, report, show
from shop import USERS, VISITS, Shop, ended, event, serving
from slatewise.ranking import ItemTable, rank_draws, rank_means
from slatewise.service.serving import Request, Service
from slatewise.service.store import Store
from slatewise.slates.exact import ExactRanker
from slatewise.slates.users import Users
from slatewise.training import runs

ROOT = Path(__file__).parents[1]
SMALL, LARGE = 100_000, 1_300_000
K, DRAWS, PARTS = 20, 12, 4
STORES, SECONDS, SOAK, WARM_UP, WRK = ("sqlite", "postgresql"), 6.0, 900.0, 2.0, True
MINIATURE = {"SMALL": 500, "LARGE": 500, "STORES": ("sqlite",), "WRK": False, "PARTS": 1}
MINIATURE |= {"SECONDS": 0.2, "SOAK": 1.5, "WARM_UP": 0.1, "quick": True}
TARGETS = {"greedy": 0.7, "in-slate-thompson": 3.0}
"""CPU ms of a slate from 100,000 items, everything included."""
EVENT_MS = 0.06
NOT_RECORDED = 'slatewise_feedback_total{status="(duplicate|refused)"}'


def main() -> None:
    """Measure both catalogues, feedback on both stores, and the soak."""
    arguments = parser(__doc__)
    arguments.add_argument("--quick", action="store_true", help="100,000 items only, short runs")
    arguments.add_argument("--soak", type=float, help="seconds of the soak")
    options = parse(arguments, globals())
    seconds = min(4.0, SECONDS) if options.quick else SECONDS
    for_soak = options.soak or (min(30.0, SOAK) if options.quick else SOAK)
    rows: list[Row] = []
    soak, beside = Row(), Row()
    for items in (SMALL,) if options.quick else (SMALL, LARGE):
        with (
            tempfile.TemporaryDirectory() as scratch,
            serving(Path(scratch), items, wrk=WRK) as shop,
        ):
            print(f"{items:,} items are served.", file=sys.stderr)
            loaded = {arm: _slates(shop, arm, seconds) for arm in shop.config.arms}
            rows += [
                {"items": items, "arm": arm, **outside, **inside, "ratio": ratio}
                for arm, inside in _inside(shop).items()
                for outside in [loaded[arm]]
                for ratio in [outside["server"] / inside["kernel"]]
            ]
            if items == SMALL:
                beside = _beside(shop, seconds)
                soak = _soak(shop, for_soak)
    events = _feedback(seconds)
    columns = {"store": "{}", "batch": "{}", "events_s": "{:,.0f}", "cpu_ms": "{:.3f}"}
    show("Feedback, one worker: events a second, CPU ms of an event", columns, events)
    print(
        f"Feedback beside eight connections that ask for greedy slates: {beside['p50']:.1f} ms "
        f"(p50), {beside['p99']:.1f} ms (p99)."
    )
    print(
        f"Soak: {soak['requests']:,} requests in {soak['seconds']:.0f} s, {soak['first']:.1f} MB "
        f"after a third of it, {soak['last']:.1f} MB at the end: {soak['slope']:+.3f} MB a minute."
    )
    report(
        options,
        "Slates over HTTP: a second, latency in ms, CPU ms of a request",
        {"items": "{:,}", "arm": "{}", "slates_s": "{:,.0f}"}
        | dict.fromkeys(("p50", "p99", "server", "http", "service", "kernel"), "{:.2f}")
        | {"ratio": "{:.1f}"},
        rows,
        _targets(rows, events, soak),
        feedback=events,
        beside=beside,
        soak=soak,
    )


def _targets(rows: list[Row], events: list[Row], soak: Row) -> list[Target]:
    """Judge HTTP where a ranking is short: a long one empties the caches that it needs."""
    small = [row for row in rows if row["items"] == SMALL]
    http = min(row["http"] for row in small)
    batches = [row["cpu_ms"] for row in events if row["batch"] > 1 and row["store"] == "sqlite"]
    failed = sum(row["failed"] for row in rows) + soak["failed"]
    left = 1e6 * soak["growth"] / soak["requests"]
    return [
        *(
            Target(f"CPU ms of a slate, {row['arm']}, {SMALL:,} items", row["server"], most)
            for row in small
            if (most := TARGETS.get(row["arm"]))
        ),
        Target("CPU ms of an event, fifty in a request", min(batches), EVENT_MS),
        Target("% by which memory grows in the last two thirds of the soak", soak["percent"], 1),
        Target(f"CPU ms of HTTP and JSON, {SMALL:,} items", http, 0.3),
        Target("requests that failed", failed, 0),
        # A slate, its record and an event are some 5,000 bytes.
        Target("bytes of memory a request leaves behind, in the soak", left, 500),
    ]


def _slates(shop: Shop, arm: str, seconds: float) -> Row:
    lines = [json.dumps({"user_id": user, "k": K}) for user in shop.users(arm)]
    shop.load("recommend", lines, 8, WARM_UP)  # caches, and whatever is compiled late
    alone = shop.load("recommend", lines, 1, seconds)
    parts = [_with_cpu(shop, lines, seconds / 2) for _ in range(PARTS)]
    best = {name: min(part[name] for part in parts) for name in ("server", "http")}
    return {
        "slates_s": max(part["requests"] / part["seconds"] for part in parts),
        "p50": alone["p50"],
        "p99": alone["p99"],
        **best,
        "failed": sum(part["failed"] for part in (*parts, alone)),
    }


def _with_cpu(shop: Shop, lines: Sequence[str], seconds: float) -> Row:
    """Load the server; add the CPU milliseconds that a request took it, and HTTP in it."""
    # Asked in this order, HTTP has what answers to the last requests, and asking itself, cost.
    before, ranked = shop.cpu(), shop.ranking()
    found = shop.load("recommend", lines, 8, seconds)
    ranking, after = shop.ranking() - ranked, shop.cpu()
    server, first = (now - then for now, then in zip(after, before, strict=True))
    each = 1000 / found["requests"]
    return found | {"server": each * server, "http": each * (first - ranking)}


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
    asked = Users.of_clicks(list(clicks), 0, show_clicked=True)
    if arm == "greedy":
        means = cycle(ranker.mean_profiles(asked))
        return lambda: rank_means(ranker.table, next(means), K)
    draws = cycle(
        [ranker.draw_profiles(history, DRAWS, next(seeds)).profiles for history in asked.histories]
    )
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


def _feedback(seconds: float) -> list[Row]:
    """Return events a second on both stores, one or fifty in a request."""
    rng, rows = np.random.default_rng(3), []
    for store in STORES:
        with ExitStack() as stack:
            options = [] if store == "sqlite" else ["--store", _postgresql(stack)]
            home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            shop = stack.enter_context(serving(home, 0, *options, wrk=WRK))
            for batch in (1, 50):
                bodies = [
                    {"events": [event(rng, 0, n * 50 + e, f"SLATE-{e}") for e in range(batch)]}
                    for n in range(20)
                ]
                lines = [json.dumps(body) for body in bodies]
                shop.load("feedback", lines, 16, min(1.0, WARM_UP))
                before, _ = shop.cpu()
                found = shop.load("feedback", lines, 16, seconds)
                cost = 1000 * (shop.cpu()[0] - before) / (batch * max(1, found["requests"]))
                rate = batch * found["requests"] / found["seconds"]
                row = {"store": store, "batch": batch, "events_s": rate, "cpu_ms": cost}
                rows.append(row)
                if found["failed"] or shop.counted(NOT_RECORDED):
                    sys.exit(f"Not all events were recorded on {store}.")
    return rows


def _postgresql(stack: ExitStack) -> str:
    sys.path.append(str(ROOT))
    from tests.service.postgres import Postgres, programs  # noqa: PLC0415

    found = programs()
    if found is None:
        sys.exit("PostgreSQL is not installed: apt-get install postgresql")
    server = Postgres(found)
    stack.callback(server.remove)
    return server.url()


def _beside(shop: Shop, seconds: float) -> Row:
    """Return how long feedback takes, one event after the other, while slates are made."""
    rng, arm = np.random.default_rng(5), "greedy"
    asked = [json.dumps({"user_id": user, "k": K}) for user in shop.users(arm)]
    # Of other users: those who ask for slates should not all have to be read again.
    events = [event(rng, SMALL, USERS + user, "SLATE") for user in range(USERS)]
    slates = shop.begin("recommend", asked, 8, seconds)
    found = shop.load("feedback", [json.dumps({"events": [one]}) for one in events], 1, seconds)
    ended(slates)
    return found


def _soak(shop: Shop, seconds: float) -> Row:
    """Drive the server for a while with slates and feedback; fit a line to its memory."""
    rng = np.random.default_rng(4)
    asked = [json.dumps({"user_id": f"user-{user}", "k": K}) for user in range(USERS)]
    told = [json.dumps({"events": [event(rng, SMALL, user, "SLATE")]}) for user in range(USERS)]
    samples: list[tuple[float, float]] = []
    start = time.monotonic()
    loads = [
        shop.begin("recommend", asked, 3, seconds),
        shop.begin("feedback", told, 2, seconds),
    ]
    while any(load.poll() is None for load in loads):
        samples.append((time.monotonic() - start, shop.memory()))
        time.sleep(0.5)
    found = [ended(load) for load in loads]
    later = np.array([sample for sample in samples if sample[0] > seconds / 3])  # [N, 2]
    slope = float(np.polyfit(later[:, 0], later[:, 1], 1)[0])
    return {
        "requests": sum(one["requests"] for one in found),
        "failed": sum(one["failed"] for one in found),
        "seconds": seconds,
        "first": float(later[0, 1]),
        "last": float(later[-1, 1]),
        "slope": 60 * slope,
        "growth": slope * seconds,
        "percent": 100 * slope * seconds * 2 / 3 / float(later[:, 1].mean()),
    }


if __name__ == "__main__":
    main()
