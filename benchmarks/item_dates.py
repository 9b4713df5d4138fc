"""What a date of publication brings beside the time since an item was first seen.

Two logs of which every item has a date, prepared with and without that column: simulated `news`, of
which every tenth user is kept, so that items are seen later than they came out, and articles that
come back at any age, and are clicked the less the older they are. Log-likelihood and recall of the
test part, split by time, of the model that `slatewise train` takes by default; recall also by its
first stage alone, in which `item_network` reads the date.
"""

import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from catalogue_network import recommender
from harness import Row, Target, kept, parse, parser, report
from slatewise import ModelRecommender, SlateDataset, TrainingConfig, evaluate, fit
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.simulation import load_config, write_log

USERS, TENTH = 4_000, 10
ARTICLES, READERS, SLATE, HOURS = 1_500, 600, 8, 72.0
START = datetime(2024, 5, 1)
SPLIT = SplitConfig(method="time", valid_share=0.1, test_share=0.1)
TRAINING: dict[str, Any] = {}
LOSS = 0.01
"""How much likelihood the column may cost, in nats, before the benchmark says so."""
MINIATURE = {
    **{"USERS": 60, "TENTH": 2, "ARTICLES": 60, "READERS": 30, "TRAINING": {"max_epochs": 1}},
    "seeds": 1,
}


def main() -> None:
    """Fit and judge all."""
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=3)
    options = parse(arguments, globals())
    rows = []
    for name, make in LOGS.items():
        for seed in range(options.seeds):
            row = kept(options.keep, f"{name} {seed}", lambda m=make, s=seed: _judged(m, s))
            rows.append({"log": name, "seed": seed} | row)
    columns = {"log": "{}", "seed": "{}", "slates": "{:,}"}
    columns |= dict.fromkeys(("without", "with"), "{:.4f}") | {"gain": "{:+.4f}"}
    recalls = ("first_without", "first_with", "recall_without", "recall_with")
    columns |= dict.fromkeys(recalls, "{:.4f}") | {"cpu_s": "{:.0f}"}
    targets = [
        Target(f"gain by the date, {row['log']} {row['seed']}", row["gain"], -LOSS, True)
        for row in rows
    ]
    report(options, "Dates of items", columns, rows, targets)


def news(seed: int, folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return log and items of simulated news, of a tenth of its users."""
    write_log(load_config("news", users=USERS, seed=seed), folder)
    log, items = (pl.read_parquet(folder / f"{name}.parquet") for name in ("log", "items"))
    users = log["user_id"].unique(maintain_order=True).gather_every(TENTH)
    return log.filter(pl.col("user_id").is_in(users.implode())), items


def returning(seed: int, folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return log and items of articles that are shown at any age."""
    rng = np.random.default_rng(seed)
    published = -rng.exponential(120, ARTICLES)  # hours before the log begins
    published[: ARTICLES // 3] = rng.uniform(0, HOURS, ARTICLES // 3)
    quality, groups = 0.6 * rng.normal(size=ARTICLES), rng.integers(12, size=ARTICLES)
    taste, rows = 0.8 * rng.normal(size=(READERS, 12)), []
    for user in range(READERS):
        for hour in np.sort(rng.uniform(0, HOURS, rng.integers(10, 31))):
            there = np.flatnonzero(published < hour)
            weights = np.exp((published[there] - hour) / 60) + 0.05
            slate = rng.choice(there, SLATE, replace=False, p=weights / weights.sum())
            utility = quality[slate] + taste[user, groups[slate]] + rng.gumbel(size=SLATE)
            utility -= 0.5 * np.log1p(hour - published[slate])
            row = {"user_id": user, "time": START + timedelta(hours=float(hour)), "source": "front"}
            rows.append(row | {"slate": slate.tolist(), "click": int(slate[utility.argmax()])})
    dates = [START + timedelta(hours=float(hour)) for hour in published]
    names = [f"g{group}" for group in groups]
    return pl.DataFrame(rows), pl.DataFrame(
        {"item_id": range(ARTICLES), "group": names, "published": dates}
    )


LOGS: dict[str, Callable[[int, Path], tuple[pl.DataFrame, pl.DataFrame]]] = {
    "news, a tenth of the users": news,
    "articles that come back": returning,
}


def _judged(make: Callable[[int, Path], tuple[pl.DataFrame, pl.DataFrame]], seed: int) -> Row:
    start = time.process_time()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        log, items = make(seed, folder / "log")
        log.write_parquet(folder / "log.parquet")
        found, slates = [], 0
        for name, table in (("without", items.drop("published")), ("with", items)):
            table.write_parquet(folder / "items.parquet")
            paths = (folder / "log.parquet", folder / "items.parquet", folder / name)
            dataset = prepare(*paths, division=SPLIT)
            slates = int(dataset.train_end.sum())
            found.append(_fitted(dataset, seed))
    (without, first_without, recall_without), (with_date, first_with, recall_with) = found
    return {
        **{"slates": slates, "without": without, "with": with_date, "gain": with_date - without},
        **{"first_without": first_without, "first_with": first_with},
        **{"recall_without": recall_without, "recall_with": recall_with},
        "cpu_s": time.process_time() - start,
    }


def _fitted(dataset: SlateDataset, seed: int) -> tuple[float, float, float]:
    """Return log-likelihood of the test part, and recall@20 by the first stage and by both."""
    model = fit(dataset, None, TrainingConfig(**TRAINING), seed=seed)
    judged = evaluate(ModelRecommender(model, log=dataset), dataset, resamples=2)
    first = evaluate(recommender(model, dataset, "one"), dataset, resamples=2)
    recalls = (first["recall@20"].value, judged["recall@20"].value)
    return judged["log_likelihood"].value, *recalls


if __name__ == "__main__":
    main()
