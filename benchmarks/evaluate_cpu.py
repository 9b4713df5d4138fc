"""What `evaluate` reads of a whole log on the CPU, pass by pass, and how that grows.

Logs of FINN.no's kind at two sizes. Every pass reads whole columns of the log, whose bytes are the
floor: how long it takes to add them up. CPU seconds are those of all threads together, of which two
divide the work. From the two sizes follows the exponent by which a pass grows, and from that its
CPU seconds with 36.8 M slates. `divided` is the share of a pass that other threads did than the one
that asked for it; an estimate of seconds by the clock takes 16 cores for that, and one for the
rest, one pass after the other. Memory that a pass is the first to touch counts: a virtual machine
may get it from its host page by page.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness import Row, Target, kept, parse, parser, report
from slatewise import evaluation
from slatewise.data import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.evaluation.baselines.held_out import HeldOut
from slatewise.features import PopularityConfig, PopularityIndex, search_half_lives
from slatewise.features.popularity import HALF_LIVES, Popularity
from slatewise.features.popularity_index import TickCounts
from slatewise.features.showings import training_counts
from slatewise.features.threads import one_thread_of_torch
from slatewise.simulation import load_config, write_log

SCALES = (0.025, 0.1)
FULL = 36_800_000
"""Slates of FINN.no's log."""
MINIATURE = {"SCALES": (0.0005, 0.001)}
LIMIT = 200.0
"""CPU seconds at full size of all that is divided: 12.5 on 16 cores, were they alone."""
CORES, WALL_LIMIT = 16, 60.0
"""Cores of the machine that is meant, and seconds by its clock at full size."""
COLUMNS: dict[str, tuple[str, ...]] = {
    "further clicks on a slate": ("times", "sources", "clicks", "slate_offsets"),
    "training counts by source": ("sources", "clicks", "slate_offsets"),
    "clicks, views, successions": ("clicks", "slate_offsets", "slate_items"),
    "events by item and tick": ("times", "clicks", "slate_offsets", "slate_items"),
    "half-lives, past of 10,000 slates": (),
    "checkpoints of 5 half-lives": (),
}
"""Passes, and the columns that they read; the last two read what was counted, 16 bytes a row."""


def main() -> None:
    """Measure both sizes."""
    arguments = parser(__doc__)
    arguments.add_argument(
        "--folder", type=Path, help="with a dataset for each size, or to keep it"
    )
    options = parse(arguments, globals())
    torch.set_num_threads(2)
    # Threads of torch spin while they wait for work, which would count.
    with one_thread_of_torch(), tempfile.TemporaryDirectory() as made:
        folder = options.folder or Path(made)
        found = [
            kept(options.keep, f"size {scale}", lambda scale=scale: _measured(folder, scale))  # type: ignore[misc]
            for scale in SCALES
        ]
    rows = [_row(what, *found) for what in found[0]["seconds"]]
    divided = sum(row["at_full"] * row["divided"] for row in rows)
    wall = divided / CORES + sum(row["at_full"] * (1 - row["divided"]) for row in rows)
    report(
        options,
        "CPU seconds of {:,} and of {:,} slates".format(*(one["slates"] for one in found)),
        {
            "what": "{}",
            "divided": "{:.0%}",
            "small": "{:.2f}",
            "large": "{:.2f}",
            "per_million": "{:.2f}",
            "floor": "{:.2f}",
            "exponent": "{:.2f}",
            "at_full": "{:,.0f}",
        },
        rows,
        [
            Target("CPU seconds at full size that cores divide", divided, LIMIT),
            Target(f"estimated seconds by the clock, {CORES} cores", wall, WALL_LIMIT),
        ],
        sizes=found,
        cpu_minutes=sum(one["cpu_s"] for one in found) / 60,
    )


def _row(what: str, small: Row, large: Row) -> Row:
    """Compare two sizes: seconds a million slates, and the power by which they grow."""
    less, more = small["seconds"][what], large["seconds"][what]
    grown = np.log(large["slates"] / small["slates"])
    exponent = float(np.log(max(more, 1e-6) / max(less, 1e-6)) / grown)
    return {
        "what": what,
        "divided": large["divided"][what] / more if more else 0.0,
        "small": less,
        "large": more,
        "per_million": more / large["slates"] * 1e6,
        "floor": large["floors"].get(what, float("nan")) / large["slates"] * 1e6,
        "exponent": exponent,
        "at_full": more * (FULL / large["slates"]) ** max(exponent, 0.0),
    }


def _measured(folder: Path, scale: float) -> Row:
    """Return the CPU seconds of every pass over a log, after a first turn that compiles."""
    start, path = time.process_time(), folder / str(scale) / "dataset"
    if not path.exists():
        log = path.with_name("log")
        write_log(load_config("finn").scaled(scale), log)
        prepare(log, log, path)
    _passes(SlateDataset.open(path))
    dataset = SlateDataset.open(path)
    seconds, divided, counts = _passes(dataset)
    begun = time.process_time()
    total = int(np.asarray(dataset.slate_items).sum())
    a_byte = (time.process_time() - begun) / dataset.slate_items.nbytes
    floors = {
        what: a_byte * sum(getattr(dataset, name).nbytes for name in names)
        if names
        else a_byte * counts
        for what, names in COLUMNS.items()
    }
    return {
        "scale": scale,
        "slates": dataset.num_interactions,
        "cells": len(dataset.slate_items),
        "items": dataset.num_items,
        "sum": total,
        "seconds": seconds,
        "divided": divided,
        "floors": floors,
        "cpu_s": time.process_time() - start,
    }


def _passes(dataset: SlateDataset) -> tuple[dict[str, float], dict[str, float], int]:
    """Take the passes in their order.

    Returns CPU seconds, those of other threads than this one, and the bytes of what was counted.
    """
    seconds: dict[str, float] = {}
    divided: dict[str, float] = {}

    def take(what: str, work: Callable[[], Any]) -> Any:
        begun, own = time.process_time(), time.thread_time()
        result = work()
        own = time.thread_time() - own
        seconds[what] = time.process_time() - begun
        divided[what] = max(seconds[what] - own, 0.0)
        return result

    names = list(COLUMNS)
    take(names[0], lambda: dataset.further_clicks)
    take(names[1], lambda: training_counts(dataset))
    take(names[2], lambda: HeldOut.of(dataset, 0))
    counts = take(names[3], lambda: TickCounts.of(dataset))
    take(names[4], lambda: search_half_lives(dataset))
    settings = PopularityConfig(half_lives=(*HALF_LIVES, 256.0, 512.0))
    known = Popularity.fit(dataset, settings)
    take(names[5], lambda: PopularityIndex.of(known, dataset))
    fitted = take(
        "all baselines fitted to what was counted", lambda: evaluation.fit_baselines(dataset)
    )
    for name, one in fitted.items():
        take(
            f"{name}, judged",
            lambda one=one: evaluation.evaluate(one, dataset, batch_users=8_192),  # type: ignore[misc]
        )
    return seconds, divided, counts.ticks.nbytes + counts.counts.nbytes


if __name__ == "__main__":
    main()
