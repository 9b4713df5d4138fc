"""What training reaches with its defaults on simulated logs of ratings and reviews.

Such logs have clicks alone, and nobody clicks an item twice. `films` has few users with long
histories, who go through pages of similar films by taste and popularity. `reviews` has many users
with few clicks on a sparse catalogue, often within one line of products. `years` has the same with
clock times: products come up over ten years, and are in demand for a year or two. Judged by
recall@20 and MRR@20 of the next click of test users, beside the same model that may expect a click
again (`repeats`), where there are clock times with the shortest half-lives of popularity alone, and
beside co-click and popularity.
"""

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from harness import Row, Target, parse, parser, report
from slatewise import ModelConfig, ModelRecommender, SlateDataset, TrainingConfig, evaluate
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.evaluation import fit_baselines
from slatewise.features.popularity import HALF_LIVES
from slatewise.training import fit

FILMS, RATERS, MOST_RATINGS = 1_682, 943, 737
PRODUCTS, LINES, KINDS, REVIEWERS = 12_000, 2_400, 220, 21_000
YEARS, HOURS = 10, 8_760
"""Of `years`, and the hours of each."""
START = 1_000_000_000
"""Its first second."""
EPOCHS = 200
LOSS = 0.01
"""How much worse the defaults may be than with `repeats` before the benchmark says so."""
SPLIT = SplitConfig(valid_share=0.1, test_share=0.1, prefix=5)
MODEL: dict[str, Any] = {}
"""Settings of all models."""
MINIATURE = {
    **{"FILMS": 40, "RATERS": 40, "MOST_RATINGS": 25, "EPOCHS": 1, "seeds": 1},
    **{"PRODUCTS": 60, "LINES": 12, "KINDS": 4, "REVIEWERS": 80, "MODEL": {"dimensions": 3}},
}


class Clicks(NamedTuple):
    """What happened in a world."""

    items: list[list[int]]
    """that each user clicked, in order"""
    groups: list[int]
    """of each item"""
    hours: list[list[float]] | None = None
    """at which each user clicked; None where times are only an order"""


def films(rng: np.random.Generator) -> Clicks:
    """Rate films one after the other: by popularity, taste, and what stands near the last one."""
    genres = rng.integers(19, size=FILMS)
    vectors = rng.normal(size=(19, 6))[genres] + 0.8 * rng.normal(size=(FILMS, 6))
    place, popularity = rng.normal(size=(FILMS, 2)), 1.6 * rng.normal(size=FILMS)
    users = []
    for _ in range(RATERS):
        left = popularity + vectors @ (0.6 * rng.normal(size=6))
        length = min(20 + int(rng.lognormal(3.9, 1.1)), MOST_RATINGS, FILMS)
        rated: list[int] = []
        for _ in range(length):
            utility = left + rng.gumbel(size=FILMS)
            if rated:
                squares = np.square(place - place[rated[-1]]).sum(1)
                utility += 3 * np.exp(-squares / 0.125) + vectors @ vectors[rated[-1]] / 20
            rated.append(int(utility.argmax()))
            left[rated[-1]] = -np.inf
        users.append(rated)
    return Clicks(users, genres.tolist())


def reviews(rng: np.random.Generator, years: int = 0) -> Clicks:
    """Review products: of the line of a recent one, or of one of three kinds that a user likes.

    With years, what is in demand changes: half as much a year after a product came up.
    """
    launched = rng.random(PRODUCTS) * years * HOURS
    kind_of_line = rng.integers(KINDS, size=LINES)
    lines = rng.choice(LINES, PRODUCTS, p=rng.dirichlet(np.ones(LINES)))
    popularity, liked = np.exp(1.1 * rng.normal(size=PRODUCTS)), rng.dirichlet([0.5] * KINDS)
    kinds = kind_of_line[lines]
    of_line = [np.flatnonzero(lines == line) for line in range(LINES)]
    of_kind = [np.flatnonzero(kinds == kind) for kind in range(KINDS)]
    users, times = [], []
    for _ in range(REVIEWERS):
        own, seen = rng.choice(KINDS, 3, p=liked), dict[int, float]()
        hour = rng.random() * years * HOURS
        for _ in range(20 * min(60, 4 + int(rng.geometric(0.22)))):
            recent = list(seen)[-int(min(len(seen), rng.geometric(0.5))) :]
            pool = of_kind[own[rng.integers(3)]]
            if seen and rng.random() < 0.5:
                pool = of_line[lines[recent[0]]]
            if len(pool):
                demand = np.exp2((launched[pool] - hour) / HOURS) * (launched[pool] <= hour)
                shares = np.cumsum(popularity[pool] * (demand if years else 1.0))
                if shares[-1] > 0:
                    item = int(pool[np.searchsorted(shares, rng.random() * shares[-1])])
                    seen.setdefault(item, hour)
                    hour += rng.exponential(HOURS / 20)
            if rng.random() < 0.1 and len(seen) >= 5:
                break
        users.append(list(seen))
        times.append(list(seen.values()))
    return Clicks(users, kinds.tolist(), times if years else None)


WORLDS: dict[str, Callable[[np.random.Generator], Clicks]] = {
    "films": films,
    "reviews": reviews,
    "years": partial(reviews, years=YEARS),
}


def dataset_of(name: str, seed: int, folder: Path) -> SlateDataset:
    """Write the clicks of a world as a log and prepare it."""
    world = WORLDS[name](np.random.default_rng(seed))
    rows = [
        {"user_id": user, "time": time, "source": "site", "slate": [item], "click": item}
        for user, items in enumerate(world.items)
        for time, item in enumerate(items)
    ]
    folder.mkdir()
    log = pl.DataFrame(rows)
    if world.hours is not None:
        seconds = START + (3_600 * np.concatenate(world.hours)).astype(np.int64)
        log = log.with_columns(time=pl.from_epoch(pl.Series(seconds)))
    log.write_parquet(folder / "log.parquet")
    groups = [f"g{group}" for group in world.groups]
    items = pl.DataFrame({"item_id": range(len(groups)), "group": groups})
    items.write_parquet(folder / "items.parquet")
    return prepare(folder / "log.parquet", folder / "items.parquet", folder / "set", division=SPLIT)


def main() -> None:
    """Fit and judge all."""
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--world", choices=WORLDS, action="append", help="only this one")
    options = parse(arguments, globals())
    rows: list[Row] = []
    for name in options.world or WORLDS:
        for seed in range(options.seeds):
            with tempfile.TemporaryDirectory() as folder:
                rows += _judged(name, seed, dataset_of(name, seed, Path(folder) / name))
    patterns = dict.fromkeys(("log", "seed", "settings", "epochs"), "{}")
    patterns |= dict.fromkeys(("recall", "mrr"), "{:.4f}") | {"cpu_s": "{:.0f}"}
    report(options, "Logs in which nothing is clicked twice", patterns, rows, list(_targets(rows)))


def _judged(name: str, seed: int, dataset: SlateDataset) -> list[Row]:
    rows = []
    variants: dict[str, dict[str, Any]] = {"defaults": {}, "repeats": {"repeats": True}}
    if dataset.meta["clock_times"]:
        variants["short half-lives"] = {"half_lives": HALF_LIVES}
    for settings, own in variants.items():
        start = time.process_time()
        model = ModelConfig.build(MODEL | own, "benchmark")
        fitted = fit(dataset, model, TrainingConfig(max_epochs=EPOCHS), seed=seed)
        seconds, epochs = time.process_time() - start, fitted.metrics["epochs"]
        found = evaluate(ModelRecommender(fitted, log=dataset), dataset, resamples=2)
        rows.append({"settings": settings, "epochs": epochs, "cpu_s": seconds, "found": found})
    for other, recommender in fit_baselines(dataset, ["co-click", "popularity"]).items():
        found = evaluate(recommender, dataset, resamples=2)
        rows.append({"settings": other, "epochs": "", "cpu_s": 0.0, "found": found})
    judged: list[Row] = []
    for row in rows:
        found = row.pop("found")
        values = {"recall": found["recall@20"].value, "mrr": found["mrr@20"].value}
        judged.append({"log": name, "seed": seed} | row | values)
    return judged


def _targets(rows: list[Row]) -> list[Target]:
    recall = {(row["log"], row["seed"], row["settings"]): float(row["recall"]) for row in rows}
    return [
        Target(
            f"recall gained by expecting no click again, {log} {seed}",
            value - recall[log, seed, "repeats"],
            -LOSS,
            at_least=True,
        )
        for (log, seed, settings), value in recall.items()
        if settings == "defaults"
    ]


if __name__ == "__main__":
    main()
