"""What training reaches with its defaults, beside the defaults of earlier releases.

Simulated worlds are judged by the exact click rate of greedy and of in-slate Thompson slates, and
by the log-likelihood of what validation users did: `demo` has groups that say much, in `group-free`
the items table puts every item into a group drawn at random. Prepared datasets of your own
(`--dataset DIR`, as often as you like) are judged on test users: by recall@20 of the next click
where every slate is one clicked item, else by log-likelihood. `as chosen` is what `slatewise train`
fits without any option, the other likelihoods have no terms. `earlier` are the former settings,
ended by the score that ends training now; `--temperature .1` fits under a weaker prior too.
"""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import Row, Target, parse, parser, report
from slatewise import ModelConfig, ModelRecommender, SlateDataset, TrainingConfig, evaluate, fit
from slatewise.experiments.exposure import ExposureConfig
from slatewise.experiments.model_policy import ModelPolicy, ServedModel
from slatewise.experiments.platform import Platform
from slatewise.model.fitted import SlateModel
from slatewise.slates.strategies import Greedy, InSlateThompson, NamedStrategy
from slatewise.training import fit as fit_as_configured
from slatewise.training.sizes import LogSize

EARLIER: dict[str, Any] = {"dimensions": 10, "temperature": 1.0, "sigma_max": 1.0, "negatives": 128}
PEOPLE, ITEMS, GROUPS, EPOCHS = 800, 2_000, 50, 200
WORLDS = {"demo": 0.0, "group-free": 1.0}
"""Share of the items that the items table puts into any group."""
CHOSEN = "as chosen"
LIKELIHOODS = (CHOSEN, "slate", "source-aware", "all-item")
GROUP_FREE = 0.25
"""Click rate of greedy slates that the default model should reach without groups."""
MODEL: dict[str, Any] = {}
"""Settings of all models."""
MINIATURE = {
    **{"PEOPLE": 30, "ITEMS": 60, "GROUPS": 4, "EPOCHS": 1, "seeds": 1},
    **{"WORLDS": {"group-free": 1.0}, "LIKELIHOODS": (CHOSEN,), "MODEL": {"dimensions": 3}},
}


@dataclass(frozen=True)
class World:
    """A simulated log, and everybody who is there when it ends."""

    name: str
    platform: Platform
    dataset: SlateDataset

    @classmethod
    def of(cls, name: str, seed: int, folder: Path) -> "World":
        """Fill a window of log."""
        catalogue = {"items": ITEMS, "groups": GROUPS, "mislabelled": WORLDS[name]}
        config = ExposureConfig(users=PEOPLE, simulation={"catalogue": catalogue})
        platform = Platform(config, config.simulated(seed), days=1, arms=1, folder=folder)
        platform.warm_up()
        return cls(name, platform, platform.log.dataset(day=0))

    def click_rate(self, model: SlateModel, strategy: NamedStrategy) -> float:
        """Return how likely a click on the next slate is, exactly, averaged over users."""
        served = ServedModel(model, self.dataset, self.platform)
        policy = ModelPolicy(served, strategy, self.platform.market.config.max_slate)
        return float(self.platform.judge(policy, day=0)[1].mean())


def main() -> None:
    """Fit and judge all."""
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--dataset", type=Path, action="append", default=[])
    arguments.add_argument("--earlier", action="store_true", help="former settings too")
    arguments.add_argument(
        "--temperature", type=float, action="append", default=[], help="defaults at this τ too"
    )
    options = parse(arguments, globals())
    which = ["defaults", *["earlier"] * options.earlier, *map(str, options.temperature)]
    rows: list[Row] = []
    for seed in range(options.seeds):
        for name in WORLDS:
            with tempfile.TemporaryDirectory() as folder:
                world = World.of(name, seed, Path(folder))
                for likelihood in LIKELIHOODS:
                    given = which if likelihood != CHOSEN else which[:1]
                    rows += (_in_world(world, likelihood, one, seed) for one in given)
        for path in options.dataset:
            rows += (_on_dataset(SlateDataset.open(path), one, seed) for one in which)
    numbers = ["log_likelihood", "recall", "greedy", "in_slate"]
    patterns = dict.fromkeys(("log", "likelihood", "settings", "seed"), "{}")
    patterns |= {"epochs": "{}", "best": "{}", **dict.fromkeys(numbers, "{}"), "cpu_s": "{:.0f}"}
    report(options, "What training reaches", patterns, rows, list(_targets(rows)))


def _targets(rows: list[Row]) -> Iterator[Target]:
    for row in rows:
        if (row["log"], row["likelihood"]) == ("group-free", CHOSEN):
            what = f"greedy click rate without groups, {row['settings']}, seed {row['seed']}"
            yield Target(what, float(row["greedy"]), GROUP_FREE, at_least=True)


def _fitted(dataset: SlateDataset, likelihood: str, settings: str, seed: int) -> tuple[Any, Row]:
    model, training = {"likelihood": likelihood} | MODEL, TrainingConfig(max_epochs=EPOCHS)
    usual = likelihood == CHOSEN
    if usual:
        del model["likelihood"]
    if settings == "earlier":
        model |= EARLIER
        if likelihood == "slate":
            del model["negatives"]
        if likelihood == "source-aware":
            model |= {"exposure": {"search": 0.3}}
        rate = 0.02 if likelihood == "slate" else 0.04
        training = TrainingConfig(max_epochs=EPOCHS, batch_users=512, learning_rate=rate)
    elif settings != "defaults":
        model |= {"temperature": float(settings)}
    start = time.process_time()
    config = ModelConfig.build(model, "benchmark")
    fitted = (fit if usual else fit_as_configured)(dataset, config, training, seed=seed)
    head = {"likelihood": likelihood, "settings": settings, "seed": seed}
    head |= {"epochs": fitted.metrics["epochs"], "best": fitted.metrics["best_epoch"]}
    blank = dict.fromkeys(("log_likelihood", "recall", "greedy", "in_slate"), "")
    return fitted, head | blank | {"cpu_s": time.process_time() - start}


def _in_world(world: World, likelihood: str, settings: str, seed: int) -> Row:
    fitted, row = _fitted(world.dataset, likelihood, settings, seed)
    found = evaluate(
        ModelRecommender(fitted, log=world.dataset),
        world.dataset,
        part="validation",
        resamples=2,
    )
    return row | {
        "log": world.name,
        "log_likelihood": f"{found['log_likelihood'].value:.4f}",
        "greedy": f"{world.click_rate(fitted, Greedy()):.4f}",
        "in_slate": f"{world.click_rate(fitted, InSlateThompson()):.4f}",
    }


def _on_dataset(dataset: SlateDataset, settings: str, seed: int) -> Row:
    clicks_only = LogSize.of(dataset).clicks_only
    chosen = CHOSEN if settings == "defaults" else "all-item" if clicks_only else "slate"
    fitted, row = _fitted(dataset, chosen, settings, seed)
    found = evaluate(ModelRecommender(fitted, log=dataset), dataset, resamples=2)
    row["log"] = dataset.path.name
    if not clicks_only:
        row["log_likelihood"] = f"{found['log_likelihood'].value:.4f}"
    return row | {"recall": f"{found['recall@20'].value:.4f}"}


if __name__ == "__main__":
    main()
