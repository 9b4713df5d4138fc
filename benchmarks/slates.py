"""How long it takes to rank a catalogue on one CPU thread, beside reading its means once.

Items are ranked by their distance −‖z − v‖ or by their dot product z · v with a profile. The floor
is a compiled sum over the means of all items: the same bytes, nothing else. `greedy` is the exact
ranking of the means; `draws` are J exact posterior draws at once, with one profile for all or with
profiles that differ (δ is the distance of the farthest from their middle); `expected` ranks by
expected relevance. `all_terms` are draws with every term of the utility: biases with a scale of .2,
four features of every item with weights that differ by draw (scale .05), and offsets of 200 items
of the user's own. Times are CPU seconds of the process, the best of some runs taken in turn, so
that a busy moment hits all alike. `naive` draws a vector for every item, once, with numpy; J draws
take J times as long, which is computed, not run.

Means are standard normal, 25 dimensions; scales are σ for every item; a ranking has 20 items.
Two threads are timed by the wall: 2 requests one after the other, then at the same time. Memory
is that of a process of its own that opens a table on disk and answers one request of each kind.
The approximate index has no easy task here: such means have no clusters to find.
"""

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from harness import Row, Target, parse, parser, report, size_of
from slatewise.ranking import (
    Additions,
    Filter,
    ItemTable,
    rank_draws,
    rank_expected,
    rank_means,
    rank_means_many,
)

DIMS, K, DRAWS, USERS = 25, 20, 20, 256
SMALL, MIDDLE, LARGE = 100_000, 1_300_000, 10_000_000
MINIATURE = {"SMALL": 2_000, "MIDDLE": 50_000, "USERS": 8, "repeats": 1}
SCALES = (0.2, 0.5)
RELEVANCES = ("distance", "dot")
AROUND = (0.05, 0.1, 0.2)
"""Standard deviation of profiles that differ: δ is about .3, .6 and 1.2."""
Times = dict[str, float]


def main() -> None:
    """Measure the catalogues at two scales, then threads and memory."""
    arguments = parser(__doc__)
    arguments.add_argument("--repeats", type=int, default=15, help="of which the best counts")
    arguments.add_argument(
        "--large", action="store_true", help="10 million items too; takes 5 GB of memory"
    )
    options = parse(arguments, globals())
    rows = [
        _measure(relevance, num_items, scale, options.repeats)
        for num_items in (SMALL, MIDDLE, *((LARGE,) if options.large else ()))
        for scale in SCALES
        for relevance in RELEVANCES
    ]
    with _table(MIDDLE, SCALES[0]) as table:
        threads = _two_threads(table, options.repeats)
    memory = _memory(MIDDLE)
    print(f"Two requests at once take {threads:.2f} times one request, by the wall.")
    print("Memory:", ", ".join(f"{name} {value:.2f} GB" for name, value in memory.items()))
    report(
        options,
        f"CPU milliseconds of a request, {DIMS} dimensions, best {K}, J = {DRAWS}",
        _columns(rows[0]),
        rows,
        _targets(rows),
        threads=threads,
        memory=memory,
    )


def _columns(row: Row) -> dict[str, str]:
    special = {"relevance": "{}", "items": "{:,}", "sigma": "{}", "naive": "{:,.0f}"}
    return {name: special.get(name, "{:.2f}") for name in row}


def _targets(rows: list[Row]) -> list[Target]:
    targets = []
    for row in rows:
        if row["items"] < MIDDLE:  # the fixed cost of a request counts there
            continue
        name = f"{row['relevance']}, {row['items']:,} items, σ {row['sigma']}"
        draws, terms = row["draws"] / row["greedy"], row["all_terms"] / row["draws"]
        warm = row["sigma"] == SCALES[0]
        targets += [
            Target(f"greedy over its floor, {name}", row["greedy"] / row["floor"], 1.8),
            Target(f"draws over greedy, {name}", draws, 2.0 if warm else 3.0),
            *([Target(f"all terms over draws, {name}", terms, 1.5)] if warm else []),
            Target(f"naive over draws, {name}", row["naive"] / row["draws"], 300, at_least=True),
            Target(f"availability, {name}", row["half_off"] / row["greedy"], 1.05),
        ]
    return targets


@contextmanager
def _table(num_items: int, scale: float, bias_sd: float = 0.0) -> Iterator[ItemTable]:
    rng = np.random.default_rng(0)
    means = rng.standard_normal((num_items, DIMS), dtype=np.float32)
    groups = rng.integers(0, 300, num_items)
    with tempfile.TemporaryDirectory() as directory:
        scales = np.broadcast_to(np.float32(scale), means.shape)
        biases = bias_sd * rng.standard_normal(num_items, dtype=np.float32)
        bias_scales, path = np.full(num_items, bias_sd), Path(directory) / "table"
        yield ItemTable.create(means, scales, biases, groups, path, bias_scales)


def _measure(relevance: str, num_items: int, scale: float, repeats: int) -> Row:
    rng = np.random.default_rng(1)
    z = (0.8 * rng.normal(size=DIMS)).astype(np.float32)
    users = (0.8 * rng.normal(size=(USERS, DIMS))).astype(np.float32)
    same = np.tile(z, (DRAWS, 1))
    seeds, by = iter(range(1_000_000)), {"relevance": relevance}
    with _table(num_items, scale) as table:
        means = table.snapshot()[1].means.reshape(-1)[: num_items * DIMS]
        works: dict[str, Callable[[], object]] = {
            "floor": lambda: _sum(means),
            "greedy": lambda: rank_means(table, z, K, **by),
            "caps": lambda: rank_means(table, z, K, Filter(caps=[3] * 300), **by),
            "draws": lambda: rank_draws(table, same, K, next(seeds), **by),
            "one_draw": lambda: rank_draws(table, same[:1], K, next(seeds), **by),
        }
        for around in AROUND:
            zs = (same + around * rng.normal(size=same.shape)).astype(np.float32)
            far = np.linalg.norm(zs - zs.mean(0), axis=1).max()
            works[f"δ_{far:.1f}"] = lambda zs=zs: rank_draws(table, zs, K, next(seeds), **by)
        works["expected"] = lambda: rank_expected(table, z[None], K, **by)
        times = _in_turn(works, repeats)
        times["half_off"] = times["greedy"] * _half_off(relevance, table, z, repeats)
        batch = {"": lambda: rank_means_many(table, users, K, **by)}
        times["batch"] = _in_turn(batch, 2)[""] / USERS
        times["all_terms"] = _all_terms(relevance, num_items, scale, same, repeats)
        times["naive"] = DRAWS * _in_turn({"": lambda: _naive(relevance, table, z, rng)}, 1)[""]
    return {"relevance": relevance, "items": num_items, "sigma": scale, **times}


def _all_terms(
    relevance: str, num_items: int, scale: float, same: npt.NDArray[Any], repeats: int
) -> float:
    """Return the least CPU milliseconds of draws with every term of the utility."""
    rng, seeds = np.random.default_rng(4), iter(range(1_000_000))
    weights = [0.3, -0.2, 0.1, 0.2] + 0.05 * rng.normal(size=(DRAWS, 4))
    own = rng.choice(num_items, 200, replace=False)
    additions = Additions(weights, own, 0.5 * rng.normal(size=(DRAWS, len(own))))
    with _table(num_items, scale, bias_sd=0.2) as table:
        table.set_features(rng.standard_normal((num_items, 4), dtype=np.float32))
        more = {"additions": additions, "relevance": relevance}
        return _in_turn({"": lambda: rank_draws(table, same, K, next(seeds), **more)}, repeats)[""]


def _in_turn(works: dict[str, Callable[[], object]], repeats: int) -> Times:
    """Return the least CPU milliseconds of each, run one after the other over and over."""
    best = dict.fromkeys(works, float("inf"))
    for work in works.values():  # compiles
        work()
    for _ in range(repeats):
        for name, work in works.items():
            start = time.process_time()
            work()
            best[name] = min(best[name], 1000 * (time.process_time() - start))
    return best


def _half_off(relevance: str, table: ItemTable, z: npt.NDArray[Any], repeats: int) -> float:
    """Return the time of greedy with half of the items switched off, over that with all."""
    half = np.flatnonzero(np.random.default_rng(2).random(table.num_items) < 0.5)
    best = {True: float("inf"), False: float("inf")}
    for _ in range(repeats):
        for on in (True, False):
            table.set_available(half, on)
            # Compiling first leaves the cache as after any request.
            times = _in_turn({"": lambda: rank_means(table, z, K, relevance=relevance)}, 1)
            best[on] = min(best[on], times[""])
    table.set_available(half, True)
    return best[False] / best[True]


def _naive(relevance: str, table: ItemTable, z: npt.NDArray[Any], rng: np.random.Generator) -> None:
    """Draw all items once and sort out the best, in pieces that stay in the cache."""
    scores = np.empty(table.num_items, np.float32)
    for start in range(0, table.num_items, 1 << 14):
        items = np.arange(start, min(start + (1 << 14), table.num_items))
        drawn = rng.standard_normal((len(items), DIMS), dtype=np.float32)
        drawn = drawn * table.scales_of(items) + table.means_of(items)
        dot = relevance == "dot"
        scores[items] = drawn @ z if dot else -np.sqrt(np.square(drawn - z).sum(1))
    np.argpartition(-scores, K)


def _two_threads(table: ItemTable, repeats: int) -> float:
    """Return the wall time of two requests at once over that of one, at best."""
    zs = np.zeros((DRAWS, DIMS), np.float32)

    def serve() -> None:
        for seed in range(10):
            rank_draws(table, zs, K, seed)

    best = [float("inf"), float("inf")]
    for _ in range(repeats):
        for number, count in enumerate((1, 2)):
            threads = [threading.Thread(target=serve) for _ in range(count)]
            start = time.perf_counter()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            best[number] = min(best[number], time.perf_counter() - start)
    return best[1] / best[0]


def _memory(num_items: int) -> dict[str, float]:
    """Return the size of a table on disk, and what a process that ranks from it takes."""
    script = (
        "import sys, psutil, numpy as np\n"
        "from slatewise.ranking import *\n"
        "z = np.zeros((20, 25)); small = ItemTable.create(z, z, z[:, 0], z[:, 0])\n"
        "rank_means(small, z[0], 20); rank_draws(small, z, 20, 0)\n"
        "def own():\n info = psutil.Process().memory_info(); return info.rss - info.shared\n"
        "before = own(); table = ItemTable.open(sys.argv[1])\n"
        "rank_means(table, z[0], 20); rank_draws(table, z, 20, 0)\n"
        "print(before, own() - before)\n"
    )
    rng = np.random.default_rng(0)
    means = rng.standard_normal((num_items, DIMS), dtype=np.float32)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "table"
        zeros = np.zeros(num_items, np.float32)
        ItemTable.create(means, np.full_like(means, 0.2), zeros, zeros, path)
        command = [sys.executable, "-c", script, str(path)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        program, own = (int(number) / 1e9 for number in done.stdout.split())
        return {
            "the table on disk, mapped and shared": size_of(path) / 1e9,
            "the program": program,
            "a process's own part of the table": own,
        }


@numba.njit(fastmath=True, nogil=True)
def _sum(values: Any) -> Any:
    total = np.float32(0)
    for index in range(len(values)):  # by index: that becomes vector code
        total += values[index]
    return total


if __name__ == "__main__":
    main()
