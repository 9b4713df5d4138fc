"""What items that change often cost a worker, before and after their changes are compacted.

2,000 items are shown and hidden in turn, 2,000,000 times in all, or move from group to group,
400,000 times, before the version that serves began. Measured is the CPU time of opening the
service and of a greedy slate of 20. Nights compact changes, as `slatewise repair` does. The floor
is the same with items that never changed.
"""

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from harness import Row, Target, parse, parser, report
from shop import DIMS, made_up_run
from slatewise.service.http.startup import prepare
from slatewise.service.serving import Request, Service
from slatewise.service.settings import ServiceConfig
from slatewise.service.store import Store
from slatewise.service.store.records import ItemState
from slatewise.service.upkeep.repair import compact_items

ITEMS, SLATES = 2_000, 200
MINIATURE = {"ITEMS": 50, "SLATES": 3, "states": 500, "moves": 300}
CONFIG = ServiceConfig.model_validate(
    {"models": {"main": {"model": {"dimensions": DIMS}}}, "arms": {"main": {"strategy": "greedy"}}}
)
Change = tuple[str, str]
"""group and state"""


def main() -> None:
    """Measure both kinds of changes."""
    arguments = parser(__doc__)
    arguments.add_argument("--states", type=int, default=2_000_000, help="changes of state")
    arguments.add_argument("--moves", type=int, default=400_000, help="changes of group")
    options = parse(arguments, globals())
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        made_up_run(ITEMS, home / "run")
        rows = [*_measured(home, "none", 0, _state)]
        rows += _measured(home, "state", options.states, _state)
        rows += _measured(home, "group", options.moves, _group)
    floor = rows[0]
    last = [row for row in rows if row["compacted"] == "yes"]
    report(
        options,
        f"{ITEMS:,} items that change often",
        {"changed": "{}", "changes": "{:,}", "compacted": "{}"}
        | {"compacting_cpu_s": "{:.1f}", "start_cpu_s": "{:.2f}", "slate_cpu_ms": "{:.2f}"},
        rows,
        [
            target
            for row in last
            for target in (
                Target(f"start, {row['changed']}", row["start_cpu_s"], 2 * floor["start_cpu_s"]),
                Target(f"slate, {row['changed']}", row["slate_cpu_ms"], 2 * floor["slate_cpu_ms"]),
            )
        ],
    )


def _measured(
    home: Path, name: str, changes: int, change: Callable[[int], Change]
) -> Iterator[Row]:
    """Return a row before compaction and, where there is something to compact, one after it."""
    directory = home / name
    directory.mkdir(mode=0o700)
    _change(directory, changes, change)
    prepare(directory, CONFIG, home / "run", log=False)
    _numbers(directory)  # the version begins, after all changes
    row = {"changed": name, "changes": changes, "compacted": "no", "compacting_cpu_s": 0.0}
    yield row | _numbers(directory)
    if changes:
        with closing(Store.open(CONFIG.store_url(directory))) as store:
            began = time.process_time()
            compact_items(directory, store)
            row |= {"compacted": "yes", "compacting_cpu_s": time.process_time() - began}
        yield row | _numbers(directory)


def _numbers(directory: Path) -> Row:
    with closing(Store.open(CONFIG.store_url(directory))) as store:
        began = time.process_time()
        service = Service.open(directory, CONFIG, store)
        started = time.process_time()
        for number in range(SLATES):
            service.recommend(Request(seed=number))
        made = time.process_time()
    slate = 1e3 * (made - started) / SLATES
    return {"start_cpu_s": started - began, "slate_cpu_ms": slate}


def _change(directory: Path, changes: int, change: Callable[[int], Change]) -> None:
    """Write changes straight into the tables: through the store it would take minutes."""
    with closing(Store.open(CONFIG.store_url(directory))) as store:
        store.put_items([(str(n), "group-0", ItemState.SHOWN) for n in range(ITEMS)])
    rows = [(ITEMS + 1 + n, *change(n // ITEMS), str(n % ITEMS)) for n in range(changes)]
    with closing(sqlite3.connect(directory / "store.sqlite")) as connection, connection:
        connection.executemany(
            "INSERT INTO item_changes (seq, item_group, state, item_id) VALUES (?, ?, ?, ?)", rows
        )
        connection.executemany(
            "UPDATE items SET seq = ?, item_group = ?, state = ? WHERE item_id = ?", rows[-ITEMS:]
        )
        connection.execute("UPDATE counters SET value = ? WHERE name = 'items'", [ITEMS + changes])


def _state(turn: int) -> Change:
    return "group-0", "shown" if turn % 2 else "hidden"


def _group(turn: int) -> Change:
    return f"group-{turn % 7}", "shown"


if __name__ == "__main__":
    main()
