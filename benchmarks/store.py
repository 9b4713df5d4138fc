"""How fast the store of the live service takes outcomes in, and finds a user's history.

In SQLite, and in the PostgreSQL that `--postgresql URL` leads to (an empty database). A user has 20
visits; slates, of 20 items, are there before their outcomes; every write is a durable transaction.
The floor of a write is a commit by itself: to append as many bytes to a file, and fsync. `each` is
wall time, the median of the calls; `cpu` is what this process computes.
"""

import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path

from harness import Row, Target, parse, parser, report, seconds
from slatewise.service.store import Store
from slatewise.service.store.records import Outcome, Serving, SlateRecord

BATCHES = (1, 100, 500)
CALLS, LOOKUPS = 40, 500
MINIATURE = {"visits": 2_000, "CALLS": 3, "LOOKUPS": 20}
BYTES = 150
"""Of an outcome."""
SERVING = Serving("main", "main", "1", "in-slate-thompson", 1, 20, {"exclude": []}, 5, 7)


def main() -> None:
    """Measure both stores."""
    arguments = parser(__doc__)
    arguments.add_argument("--visits", type=int, default=200_000, help="in the store")
    arguments.add_argument("--postgresql", help="the URL of an empty database")
    options = parse(arguments, globals())
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        floor = {batch: _floor(Path(folder) / "floor", batch) for batch in BATCHES}
        for url in filter(None, [f"sqlite:///{folder}/store.sqlite", options.postgresql]):
            store = Store.open(url)
            rows += _measure(url.partition(":")[0], store, options.visits, floor)
            store.close()
    columns = {"store": "{}", "what": "{}", "each_us": "{:,.0f}", "cpu_us": "{:,.0f}"}
    histories = [row for row in rows if row["what"].startswith("history")]
    report(
        options,
        f"A store with {options.visits:,} visits",
        columns | {"per_s": "{:,.0f}", "floor_us": "{:,.1f}"},
        rows,
        [Target(f"ms: {r['what']}, {r['store']}", r["each_us"] / 1e3, 2) for r in histories],
    )


def _measure(name: str, store: Store, visits: int, floor: dict[int, float]) -> list[Row]:
    people = max(1, visits // 20)
    slates, draw = _slates(people), random.Random(1)

    def fill() -> None:
        shown = list(islice(slates, 500))
        store.write(shown, [_outcome(slate) for slate in shown])

    rows = [_timed(name, "slate and outcome in 500", fill, visits // 500, 500)]
    for batch in BATCHES:
        waiting = [list(islice(slates, batch)) for _ in range(CALLS)]
        for shown in waiting:
            store.write(shown, [])
        told = iter([[_outcome(slate) for slate in shown] for shown in waiting])
        row = _timed(name, f"outcome in {batch}", lambda: store.write([], next(told)), CALLS, batch)  # noqa: B023
        rows.append(row | {"floor_us": floor[batch]})
    for last in (20, 200):
        what = f"history of {last} visits at most"
        rows.append(_timed(name, what, lambda: store.history(_user(draw, people), last), LOOKUPS))  # noqa: B023
    pages = store.export(0, visits, 1_000)
    return [
        *rows,
        _timed(name, "visit in an export", lambda: next(pages), visits // 1_000, 1_000),
    ]


def _timed(store: str, what: str, call: Callable[[], object], calls: int, records: int = 1) -> Row:
    """Call so many times; return what a record took."""
    taken, computed = [], time.process_time()
    for _ in range(calls):
        taken.append(seconds(call))
    each = statistics.median(taken) / records
    cpu = (time.process_time() - computed) / calls / records
    row = {"store": store, "what": what, "each_us": each * 1e6, "cpu_us": cpu * 1e6}
    return row | {"per_s": 1 / each, "floor_us": 0.0}


def _floor(file: Path, batch: int) -> float:
    """Return the microseconds an outcome of a batch takes to be appended and to be on disk."""
    with file.open("ab", buffering=0) as stream:

        def commit() -> None:
            stream.write(bytes(BYTES * batch))
            os.fsync(stream.fileno())

        return statistics.median(seconds(commit) for _ in range(CALLS)) / batch * 1e6


def _slates(people: int) -> Iterator[SlateRecord]:
    draw = random.Random(0)
    for number in count():
        items = tuple(f"item-{n}" for n in draw.sample(range(100_000), 20))
        name = f"{draw.getrandbits(64):016x}"
        yield SlateRecord(name, _user(draw, people), number, "recommendation", items, SERVING)


def _user(draw: random.Random, people: int) -> str:
    return f"user-{draw.randrange(people):08d}"


def _outcome(slate: SlateRecord) -> Outcome:
    return Outcome(slate.slate_id, 10, slate.items[3:4], slate.time + 5)


if __name__ == "__main__":
    main()
