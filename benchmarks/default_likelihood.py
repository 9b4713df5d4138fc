"""Which likelihood suits a log with searches: slate or source-aware, with the terms of `train`.

Each world fills a window of log, of searches and of recommendations that are drawn at random, are
one carousel for everybody, or come from earlier models (feedback). Both models have the terms that
`slatewise train` gives them without being asked. Judged are the log-likelihood of what validation
users did, the recall of their next click, and the exact click rate of slates that nobody was shown.
In `free` worlds the items table puts every item into a group drawn at random; in one with many
items, candidates stand for twenty items each.
"""

import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from harness import Row, Target, kept, parse, parser, report
from slatewise import ModelConfig, ModelRecommender, TrainingConfig, evaluate, fit
from slatewise.data.dataset import SlateDataset
from slatewise.experiments.exposure import ExposureConfig, fill_log
from slatewise.experiments.model_policy import ModelPolicy, ServedModel
from slatewise.experiments.platform import Platform
from slatewise.experiments.study import Bench
from slatewise.slates.strategies import Greedy, InSlateThompson

PEOPLE, EPOCHS = 800, 200
LARGE: dict[str, Any] = {"items": 2_000, "groups": 50}
FREE = LARGE | {"mislabelled": 1.0}
SMALL: dict[str, Any] = {"items": 1_000, "groups": 25}
WORLDS: dict[str, dict[str, Any]] = {
    "free": {"truth": "paper", "catalogue": FREE},
    "free, outside": {"truth": "outside", "catalogue": FREE},
    "free, promoted": {"truth": "paper", "catalogue": FREE, "kind": "promoted"},
    "demo": {"truth": "paper", "catalogue": LARGE},
    "demo, 20 % search": {"truth": "paper", "catalogue": LARGE, "search": 0.2},
    "promoted, 50 % search": {
        **{"truth": "outside", "catalogue": SMALL, "kind": "promoted", "search": 0.5},
    },
    "feedback, 50 % search": {
        **{"truth": "outside", "catalogue": SMALL, "kind": "feedback", "search": 0.5},
    },
    "market": {"truth": "paper", "preset": "market", "catalogue": {"items": 6_000}},
    "many items": {"truth": "paper", "catalogue": {"items": 20_000, "groups": 200}},
    "searches alone": {
        **{"truth": "outside", "catalogue": LARGE, "search": 0.99},
        "effects": {"position_bias": 0.5, "quality_sd": 0.6, "propensity_sd": 0.5},
    },
}
"""Truth, catalogue, what fills recommendations (at random, else `kind`), share of searches."""
LIKELIHOODS = ("slate", "source-aware")
MOST_LOST = 0.01
"""Log-likelihood that the source-aware model may lose on any log, to be the default."""
MINIATURE = {
    **{"PEOPLE": 40, "EPOCHS": 1, "seeds": 1},
    "WORLDS": {"free": {"truth": "paper", "catalogue": {"items": 60, "groups": 4}}},
}


def main() -> None:
    """Fill the logs, fit both, judge."""
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=2)
    options = parse(arguments, globals())
    rows = [
        kept(options.keep, f"{name} {seed} {likelihood}", partial(_row, name, seed, likelihood))
        for seed in range(options.seeds)
        for name in WORLDS
        for likelihood in LIKELIHOODS
    ]
    columns = {"world": "{}", "seed": "{}", "likelihood": "{}", "log_likelihood": "{:.4f}"}
    columns |= dict.fromkeys(("recall", "greedy", "in_slate"), "{:.3f}") | {"cpu_s": "{:.0f}"}
    report(options, "Likelihoods of logs with searches", columns, rows, list(_targets(rows)))


def _targets(rows: list[Row]) -> Iterator[Target]:
    for slate, aware in zip(rows[::2], rows[1::2], strict=True):
        what = f"log-likelihood lost in {slate['world']}, seed {slate['seed']}"
        yield Target(what, slate["log_likelihood"] - aware["log_likelihood"], MOST_LOST)


def _row(name: str, seed: int, likelihood: str) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        platform, dataset = _world(WORLDS[name], seed, Path(folder))
        begin = time.process_time()
        config = ModelConfig.build({"likelihood": likelihood}, "benchmark")
        model = fit(dataset, config, TrainingConfig(max_epochs=EPOCHS), seed=seed)
        row: Row = {"world": name, "seed": seed, "likelihood": likelihood}
        row["cpu_s"] = time.process_time() - begin
        found = evaluate(
            ModelRecommender(model, log=dataset), dataset, part="validation", resamples=2
        )
        row["log_likelihood"] = found["log_likelihood"].value
        row["recall"] = found["recall@20"].value
        for key, strategy in {"greedy": Greedy(), "in_slate": InSlateThompson()}.items():
            served = ServedModel(model, dataset, platform)
            policy = ModelPolicy(served, strategy, platform.market.config.max_slate)
            row[key] = float(platform.judge(policy, day=0)[1].mean())
    return row


def _world(settings: dict[str, Any], seed: int, folder: Path) -> tuple[Platform, SlateDataset]:
    simulation = {name: settings[name] for name in ("catalogue", "effects") if name in settings}
    preset, truth = settings.get("preset", "demo"), settings["truth"]
    config = ExposureConfig(preset=preset, truth=truth, users=PEOPLE, simulation=simulation)
    kind, changes = settings.get("kind", "random"), {}
    if "search" in settings:
        changes["search_share"] = settings["search"]
    if "kind" in settings:
        changes["policy"] = "random" if kind == "feedback" else kind
    world = config.simulated(seed).model_copy(update=changes)
    platform = Platform(config, world, days=1, arms=1, folder=folder)
    fill_log(config, platform, kind, seed, Bench(folder, folder, lambda *progress: None))
    return platform, platform.log.dataset(day=0)


if __name__ == "__main__":
    main()
