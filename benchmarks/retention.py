"""What a store costs whose old slates leave, beside one that keeps all and one that never had them.

A SQLite store has slates of 20 items over 120 days, 25 to a user, of which 20 are answered; then
all but the last 30 days leave (`slatewise expire`, without its pauses). Measured in CPU seconds,
with all of it, with what is kept, and with a store that was filled with what is kept alone, which
is the floor:

- `open`: open the store, check the file, and find the newest slate, as every start does
- `overview`: the first `GET /v1/experiment` of a process, which looks back 92 days: of the slates
  that left, it still counts 62 days
- `disk`: 200 visits of a user, a thousand times, right after the slates left: the system then has
  what was deleted in memory, and has to read the rest of a large file from the disk
- `history`: the same once it has been read: the least of ten times, since neighbours in the same
  core make single ones twice as long
- `night`: read the last 14 days for training
- `erase`: erase a person, without writing the file anew

and how many slates leave in a CPU second. What follows for a billion slates is arithmetic on that.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from analyse import ARMS, START, VISITS, cpu_seconds, fill
from harness import Row, Target, parse, parser, report
from slatewise.service.analysis import overview
from slatewise.service.analysis.overviews import LONGEST_DAYS
from slatewise.service.settings import RetentionConfig, ServiceConfig
from slatewise.service.store import Store
from slatewise.service.store.clock import DAY
from slatewise.service.upkeep import retention

DAYS, KEPT, WINDOW = 120, 30, 14
LOOKUPS, TIMES = 1_000, 10
MINIATURE = {"slates": 3_000, "LOOKUPS": 20, "TIMES": 2}
APART = "overview", "disk"
BILLION = 1_000_000_000


def main() -> None:
    """Measure before, after, and without."""
    arguments = parser(__doc__)
    arguments.add_argument("--slates", type=int, default=10_000_000, help="in the store")
    options = parse(arguments, globals())
    slates, kept = options.slates, options.slates * KEPT // DAYS
    with tempfile.TemporaryDirectory() as scratch:
        whole, part = Path(scratch) / "whole", Path(scratch) / "part"
        for folder, first in ((whole, 0), (part, slates - kept)):
            folder.mkdir()
            fill(folder / "store.sqlite", slates, DAYS, first)
        before = _costs(whole, slates)
        leaving = _expire(whole)
        after, floor = _costs(whole, slates), _costs(part, slates)
        size = (part / "store.sqlite").stat().st_size
    rows: list[Row] = [
        {
            "cpu_s": what,
            "all": before[what],
            "kept": after[what],
            "never_more": floor[what],
            "ratio": after[what] / floor[what],
        }
        for what in before
    ]
    rate = (slates - kept) / leaving
    columns = {"cpu_s": "{}"} | dict.fromkeys(("all", "kept", "never_more"), "{:,.3f}")
    print(
        f"{slates - kept:,} of {slates:,} slates left in {leaving:,.0f} CPU s, {rate:,.0f} a CPU "
        f"second; {kept:,} slates take {size / 1e9:.2f} GB.\n{_arithmetic(rate, size / kept)}"
    )
    worst = max(row["ratio"] for row in rows if row["cpu_s"] not in APART)
    counted = slates * LONGEST_DAYS // DAYS
    each = 1e6 * after["overview"] / counted, 1e6 * floor["overview"] / kept
    print(
        f"An overview still counts {counted:,} slates, at {each[0]:.2f} CPU µs each; where there "
        f"never were more than {kept:,}, at {each[1]:.2f}."
    )
    report(
        options,
        f"CPU seconds with {slates:,} slates of {DAYS} days, and with the last {KEPT} days",
        columns | {"ratio": "{:.2f}"},
        rows,
        [
            Target("times what a store costs that never had more, files read before", worst, 1.5),
            Target("times what a counted slate costs in an overview", each[0] / each[1], 1.5),
        ],
        leaving_per_cpu_s=rate,
        bytes_a_slate=size / kept,
    )


def _arithmetic(rate: float, each: float) -> str:
    a_day, kept = BILLION / DAYS, BILLION * KEPT / DAYS
    return (
        f"At a billion slates in {DAYS} days: {a_day:,.0f} leave a day, {a_day / rate / 3600:.1f} "
        f"CPU hours; {kept:,.0f} stay, {kept * each / 1e9:,.0f} GB."
    )


def _costs(folder: Path, slates: int) -> dict[str, float]:
    config = ServiceConfig(arms=ARMS)
    url, end = config.store_url(folder), START + DAYS * DAY
    opened: list[Store] = []

    def start() -> None:
        store = Store.open(url)
        store.check()
        store.last_served()
        opened.append(store)

    costs = {"open": cpu_seconds(start)}
    (store,) = opened
    people = slates // (VISITS * 5 // 4)
    users = [f"user-{n * 7919 % people:08d}" for n in range(LOOKUPS)]
    work: dict[str, Callable[[], object]] = {
        "overview": lambda: overview(store, config),
        "disk": lambda: [store.history(user, 200) for user in users],
        "night": lambda: sum(map(len, store.export(end - WINDOW * DAY, end))),
        "erase": lambda: store.erase(users[7], end + DAY),
    }
    costs |= {what: cpu_seconds(one) for what, one in work.items()}
    costs["history"] = min(cpu_seconds(work["disk"]) for _ in range(TIMES))
    store.close()
    return costs


def _expire(folder: Path) -> float:
    """Let old slates leave; return the CPU seconds that takes."""
    store = Store.open(ServiceConfig().store_url(folder))
    settings = RetentionConfig(days=KEPT)
    rest = time.sleep
    time.sleep = lambda seconds: None  # half of the time is for others, who are not here
    try:
        taken = cpu_seconds(lambda: retention.expire(folder, settings, store, START + DAYS * DAY))
    finally:
        time.sleep = rest
    store.close()
    return taken


if __name__ == "__main__":
    main()
