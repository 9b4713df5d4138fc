"""What the features of a batch cost on one CPU thread, beside the bare gather of the same cells.

A batch is 512 users of 20 interactions with slates of 11 items on average, as in training. The
floor gathers one float for every cell from a table of all items: what a per-item term costs at
least. `history` and `propensity` are computed for every batch. Popularity is computed once for a
whole log, in time order (`pass`), and then only gathered; or it is looked up for any batch
(`index`). It has two half-lives here, and one million interactions of the past. `state` renews the
numbers of all items, as serving does.
"""

import time
from collections.abc import Callable

import numpy as np
import torch

from harness import Row, Target, parse, parser, report
from slatewise.data.interactions import Interactions
from slatewise.features import (
    Popularity,
    PopularityConfig,
    PopularityIndex,
    PopularityState,
    Propensity,
    history_features,
)
from slatewise.features.popularity import Sums, stream

USERS, STEPS, LONGEST = 512, 20, 25
LOG_USERS, CATALOGUES = 50_000, (10_000, 1_000_000)
MONTH = 30 * 86_400_000_000
MINIATURE = {"USERS": 8, "LOG_USERS": 50, "CATALOGUES": (100, 200), "repeats": 1}


def main() -> None:
    """Measure small and large catalogues."""
    arguments = parser(__doc__)
    arguments.add_argument("--repeats", type=int, default=10, help="of which the best counts")
    options = parse(arguments, globals())
    torch.set_num_threads(1)
    rows = [row for items in CATALOGUES for row in _measure(items, options.repeats)]
    report(
        options,
        f"Features of {USERS} users, CPU time of one thread",
        {
            "items": "{:,}",
            "what": "{}",
            "cells": "{:,}",
            "ms": "{:.2f}",
            "ns_per_cell": "{:.1f}",
            "times_gather": "{:.1f}",
        },
        rows,
        [
            Target(f"ms for the history of a batch, {row['items']:,} items", row["ms"], 2.0)
            for row in rows
            if row["what"] == "history"
        ],
    )


def _log(num_items: int, users: int, seed: int) -> Interactions:
    """Draw users of 20 interactions within a month, with items of Zipf popularity."""
    rng = np.random.default_rng(seed)
    count = users * STEPS
    lengths = rng.negative_binomial(3, 3 / (3 + 10.5), count).clip(0, LONGEST - 1) + 1
    offsets = np.concatenate([[0], lengths.cumsum()])
    share = 1 / np.arange(1, num_items + 1)
    ranks = np.searchsorted(share.cumsum() / share.sum(), rng.random(offsets[-1]))
    clicks = np.where(rng.random(count) < 0.5, rng.integers(0, lengths), -1)
    times = np.sort(rng.integers(0, MONTH, (users, STEPS)), axis=1).ravel()
    ends = torch.full((users,), STEPS, dtype=torch.int32)
    return Interactions(
        user_offsets=torch.arange(0, count + 1, STEPS),
        train_end=ends,
        valid_end=ends,
        times=torch.from_numpy(times),
        sources=torch.zeros(count, dtype=torch.uint8),
        clicks=torch.from_numpy(clicks).int(),
        slate_offsets=torch.from_numpy(offsets),
        slate_items=torch.from_numpy(rng.permutation(num_items)[ranks]).int(),
    )


def _measure(num_items: int, repeats: int) -> list[Row]:
    log, batch = _log(num_items, LOG_USERS, 0), _log(num_items, USERS, 1)
    known = Popularity(settings=PopularityConfig(), rate=0.05, slate_rate=0.5)
    propensity = Propensity(rates=(0.5,), rate=0.5, strength=8.0)
    index = PopularityIndex.of_events(known, log, num_items)
    state = PopularityState.empty(known, num_items)
    stream(known, log, state.sums)
    table, out = (
        torch.randn(num_items),
        np.empty((len(log.slate_items), len(known.names)), dtype=np.float32),
    )
    offsets, cells = log.slate_offsets.numpy(), len(batch.slate_items)

    def whole_pass() -> None:
        stream(known, log, Sums.empty(num_items, known), offsets, out)

    works: dict[str, tuple[int, Callable[[], object]]] = {
        "bare gather": (cells, lambda: table.index_select(0, batch.slate_items)),
        "history": (cells, lambda: history_features(batch)),
        "propensity": (cells, lambda: propensity.features(batch)),
        "popularity, index": (cells, lambda: index.cells(batch)),
        "popularity, pass": (len(log.slate_items), whole_pass),
        "popularity, state": (num_items, lambda: state.features(MONTH)),
    }
    best = dict.fromkeys(works, float("inf"))
    for turn in range(repeats):  # in turn, so that a busy moment of the machine hits all alike
        for what, (_, work) in works.items():
            if turn < 2 or what != "popularity, pass":
                best[what] = min(best[what], _cpu_seconds(work))
    gather = best["bare gather"] / cells
    return [
        {
            "items": num_items,
            "what": what,
            "cells": size,
            "ms": 1e3 * best[what],
            "ns_per_cell": 1e9 * best[what] / size,
            "times_gather": best[what] / size / gather,
        }
        for what, (size, _) in works.items()
    ]


def _cpu_seconds(work: Callable[[], object]) -> float:
    start = time.thread_time()
    work()
    return time.thread_time() - start


if __name__ == "__main__":
    main()
