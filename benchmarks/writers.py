"""How many single events a second several writers get into one PostgreSQL, beside pgbench.

Every writer is a process with the queue of a worker (`Writer`) and callers who send one event each
and wait until it is on disk, as requests do: all that waits is written in one transaction. `shown`
are events of slates that are in the store; `new` are events of slates that others showed, which are
written with them. Numbers are given in order, so one writer at a time has the counter.

The floor is pgbench, with as many clients: a row of an outcome in a transaction, as a service
without a queue would write it, and as many rows in a transaction as the writers had on average.
`cpu_us` is what an event costs the writers, and `server_us` what it costs PostgreSQL; everything
shares this machine, so the rates depend on what else it does.
"""

import json
import subprocess
import sys
import threading
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from harness import Row, Target, parse, parser, report
from slatewise.service.store import Store
from slatewise.service.store.records import Outcome, OutcomeStatus, SlateRecord
from slatewise.service.store.writer import Writer

ROOT = Path(__file__).parents[1]
WRITERS, CALLERS, SECONDS = 4, 64, 10.0
STORED = 100_000
"""slates of each writer that are in the store before"""
MINIATURE = {"WRITERS": 1, "CALLERS": 4, "SECONDS": 0.2, "STORED": 1_500}
TARGET = 5_000
ITEMS = tuple(f"item-{number}" for number in range(20))
TIME = 1_700_000_000_000_000

TABLE = """
CREATE TABLE floor (seq bigserial PRIMARY KEY, slate bigint, key text, seen bigint, clicked text,
    time bigint, user_id text, shown bigint, UNIQUE (slate, key));
CREATE INDEX floor_by_user ON floor (user_id, shown, slate);
"""
INSERT = """
INSERT INTO floor (slate, key, seen, clicked, time, user_id, shown)
SELECT (random() * 1e9)::bigint, md5(random()::text), 10, '["item-3"]', 1700000000000000,
    'user-' || (random() * 10000)::int, 1700000000000000 FROM generate_series(1, :rows);
"""


def main() -> None:
    """Measure both kinds of events, and the floor; or be a writer."""
    arguments = parser(__doc__)
    arguments.add_argument("--writer", nargs=2, metavar=("URL", "NAME"), help="be one, for itself")
    arguments.add_argument("--kind", default="shown")
    options = parse(arguments, globals())
    if options.writer:
        print(json.dumps(_write(*options.writer, options.kind)))
        return
    sys.path.append(str(ROOT))
    from tests.service.postgres import Postgres, programs  # noqa: PLC0415

    found = programs()
    if found is None:
        sys.exit("PostgreSQL is not installed: apt-get install postgresql")
    server = Postgres(found)
    try:
        rows = [_written(server.url(), kind, small=options.small) for kind in ("shown", "new")]
        size = max(1, round(min(row["batch"] for row in rows)))
        rows += [_floor(found, server.url(), rows_at_once) for rows_at_once in (1, size)]
    finally:
        server.remove()
    single, floor = rows[0]["events_s"], rows[2]["events_s"]
    columns = {"events": "{}", "events_s": "{:,.0f}", "batch": "{:,.0f}", "p50_ms": "{:.1f}"}
    report(
        options,
        f"{WRITERS} writers on one PostgreSQL, {CALLERS} callers each",
        columns | {"p99_ms": "{:.1f}", "cpu_us": "{:,.0f}", "server_us": "{:,.0f}"},
        rows,
        [
            Target("single events a second", single, TARGET, at_least=True),
            Target("times what pgbench commits one by one", single / floor, 1, at_least=True),
        ],
    )


def _written(url: str, kind: str, *, small: bool) -> Row:
    """Let the writers write; return their rate, and what an event cost."""
    command = [sys.executable, __file__, "--kind", kind, *(["--small"] if small else [])]
    writers = [
        subprocess.Popen(
            [*command, "--writer", url, f"{kind}-{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(WRITERS)
    ]
    for writer in writers:  # all are ready before the first begins
        assert writer.stdout is not None
        writer.stdout.readline()
    before = _server_cpu()
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    found = [json.loads(writer.communicate()[0].splitlines()[-1]) for writer in writers]
    events = sum(one["events"] for one in found)
    waited = np.concatenate([one["waited"] for one in found])
    return {
        "events": kind,
        "events_s": sum(one["events"] / one["seconds"] for one in found),
        "batch": events / sum(one["transactions"] for one in found),
        "p50_ms": 1e3 * float(np.quantile(waited, 0.5)),
        "p99_ms": 1e3 * float(np.quantile(waited, 0.99)),
        "cpu_us": 1e6 * sum(one["cpu"] for one in found) / events,
        "server_us": 1e6 * (_server_cpu() - before) / events,
    }


def _write(url: str, name: str, kind: str) -> Row:
    """Be a writer: fill the store, wait for the word, write for a while."""
    store = Store.open(url)
    slates = [_slate(f"{name}-{number}") for number in range(STORED if kind == "shown" else 0)]
    for start in range(0, len(slates), 500):
        store.write(slates[start : start + 500], [])
    print("ready", flush=True)
    sys.stdin.readline()
    transactions = _counting(store)
    writer, numbers, waited = Writer(store, 20_000), count(), []
    begun, computed = time.perf_counter(), time.process_time()

    def call() -> None:
        while time.perf_counter() - begun < SECONDS:
            number = next(numbers)
            if kind == "shown" and number >= len(slates):
                sys.exit("More slates were needed than there are: raise STORED.")
            new = kind == "new"
            slate = _slate(f"{name}-new-{number}") if new else slates[number]
            start = time.perf_counter()
            outcome = Outcome(slate.slate_id, 10, ("item-3",), TIME + 5)
            answer = writer.add([slate] if new else [], [outcome])
            assert answer.result() == [OutcomeStatus.RECORDED]
            waited.append(time.perf_counter() - start)

    callers = [threading.Thread(target=call) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    took, cpu = time.perf_counter() - begun, time.process_time() - computed
    writer.close()
    store.close()
    row: Row = {"events": len(waited), "seconds": took, "cpu": cpu, "waited": waited}
    return row | {"transactions": len(transactions)}


def _counting(store: Store) -> list[int]:
    """Have the transactions of a store counted, by their sizes."""
    sizes: list[int] = []
    write = store.write

    def counted(slates: Any, outcomes: Any) -> list[OutcomeStatus]:
        sizes.append(len(outcomes))
        return write(slates, outcomes)

    store.write = counted  # type: ignore[method-assign]
    return sizes


def _slate(slate_id: str) -> SlateRecord:
    return SlateRecord(slate_id, f"user-{hash(slate_id) % 10_000}", TIME, "search", ITEMS)


def _server_cpu() -> float:
    """CPU seconds of all processes of PostgreSQL that we started, those that ended included."""
    found = 0.0
    for process in psutil.process_iter(["name", "cmdline"]):
        if process.info["name"] == "postgres" and "slatewise-postgres" in " ".join(
            process.info["cmdline"] or ()
        ):
            times = [process.cpu_times()]
            for child in process.children():
                with suppress(psutil.NoSuchProcess):  # PostgreSQL's vacuum comes and goes
                    times.append(child.cpu_times())
            found += sum(one.user + one.system for one in times)
            found += times[0].children_user + times[0].children_system
    return found


def _floor(programs: Path, url: str, rows: int) -> Row:
    """Let pgbench write for as long, so many rows in a transaction."""
    from sqlalchemy import create_engine  # noqa: PLC0415

    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS floor; {TABLE}")
    engine.dispose()
    before = _server_cpu()
    said = subprocess.run(
        [
            str(programs / "pgbench"),
            *("--no-vacuum", "--client", str(WRITERS), "--jobs", "1", "--define", f"rows={rows}"),
            *("--time", str(max(1, round(SECONDS))), "--file", "/dev/stdin", url),
        ],
        input=" ".join(INSERT.split()),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    rate = rows * float(said.split("tps = ")[1].split()[0])
    waited = float(said.split("latency average = ")[1].split()[0])
    server = 1e6 * (_server_cpu() - before) / (rate * max(1, round(SECONDS)))
    row: Row = {"events": "pgbench", "events_s": rate, "batch": rows, "server_us": server}
    return row | {"p50_ms": waited, "p99_ms": float("nan"), "cpu_us": 0.0}


if __name__ == "__main__":
    main()
