"""Regret of slatewise's strategies beside bandits of others, in the same simulated worlds.

Every policy has a platform to itself: the same users at the same moments, and nothing to learn from
but the slates it shows and the few days of log that all begin with. Regret is exact: how likely a
click on the best slate is (`Marketplace.best_slates`), less how likely it is on the slate shown,
summed over slates. All see the same: the items table with groups and features, ages, and what was
seen and clicked. Each policy is tuned on one world that is not reported, over as many settings as
every other; the rows are of the settings that were best there. Intervals are over worlds and users.

slatewise trains at night; with `learning` it learns from every answer, too. Popularity is
ε-greedy, `neighbours` are co-clicks, `linear` is a linear Thompson slate bandit, and `vw` is Vowpal
Wabbit (`--cb_explore_adf`), which is left out where it is not installed.
"""

import importlib.util
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness import Row, Target, kept, parse, parser, report
from rivals import LinearThompson, Neighbours, Popularity, VowpalWabbit, logged_day
from slatewise.experiments.daily_log import DaySlates
from slatewise.experiments.days import retrain
from slatewise.experiments.model_policy import ModelPolicy, ServedModel
from slatewise.experiments.online import OnlineConfig
from slatewise.experiments.platform import Moment, Platform, ServingPolicy
from slatewise.experiments.pooling import over_worlds
from slatewise.model.fitted import SlateModel
from slatewise.slates.strategies import named_strategy

Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

WORLDS: dict[str, dict[str, Any]] = {
    "news": {
        "preset": "news",
        "users": 150,
        "slates_a_day": 3.0,
        "window": 3,
        "simulation": {"catalogue": {"items": 500}},
        "item_features": True,
        "model": {"terms": ["bias", "popularity", "position"], "dimensions": 5},
    },
    "cold shop": {
        "preset": "market",
        "users": 150,
        "slates_a_day": 3.0,
        "window": 3,
        "simulation": {
            "search_share": 0.0,
            "days": 7,
            "max_slate": 10,
            "mean_scroll": 6.0,
            "catalogue": {"items": 400, "groups": 10},
            "effects": {"quality_sd": 1.2},
        },
        "model": {"terms": ["bias"], "dimensions": 5},
    },
}
DAYS, RESAMPLES, TUNING = 4, 500, 1_000
VARIANT = "slate-linear-hier"
SETTINGS: dict[str, Sequence[dict[str, Any]]] = {
    "slatewise, greedy": [{}, {"dimensions": 3}, {"temperature": 0.3}],
    "slatewise, in-slate Thompson": [{}, {"dimensions": 3}, {"temperature": 0.3}],
    "slatewise, greedy, learning": [{}, {"dimensions": 3}, {"temperature": 0.3}],
    "slatewise, in-slate Thompson, learning": [{}, {"dimensions": 3}, {"temperature": 0.3}],
    "popularity, ε-greedy": [{"epsilon": 0.0}, {"epsilon": 0.1}, {"epsilon": 0.3}],
    "neighbours": [{"popular": 0.1}, {"popular": 1.0}, {"popular": 10.0}],
    "linear Thompson": [{"noise": 0.1}, {"noise": 0.3}, {"noise": 1.0}],
    "vw": [
        {"explore": "--squarecb --gamma_scale 100"},
        {"explore": "--epsilon 0.05"},
        {"explore": "--cover 3"},
    ],
}
"""What each is tuned over: as many settings each."""
RIVALS: Mapping[str, Callable[..., Any]] = {
    "popularity, ε-greedy": Popularity,
    "neighbours": Neighbours,
    "linear Thompson": LinearThompson,
    "vw": VowpalWabbit,
}
MINIATURE = {
    "WORLDS": {
        "cold shop": {
            "preset": "market",
            "users": 40,
            "window": 3,
            "slates_a_day": 3.0,
            "simulation": {
                "search_share": 0.0,
                "days": 4,
                "max_slate": 5,
                "mean_scroll": 3.0,
                "catalogue": {"items": 100, "groups": 3},
            },
            "model": {"terms": ["bias"], "dimensions": 2},
            "training": {"max_epochs": 1},
            "nightly": {"max_epochs": 1},
        }
    },
    **{"DAYS": 1, "RESAMPLES": 50, "seeds": 1},
    "SETTINGS": {
        "slatewise, in-slate Thompson, learning": [{}],
        "popularity, ε-greedy": [{"epsilon": 0.1}],
        "neighbours": [{}],
        "linear Thompson": [{}],
        "vw": [{}],
    },
}


class Measured:
    """A policy, with the regret of every slate that it makes."""

    def __init__(self, platform: Platform, inner: ServingPolicy) -> None:
        self._platform, self._inner = platform, inner
        self._moment: Moment | None = None
        self.rows: list[tuple[Ints, Doubles, Doubles]] = []
        """users, the click probabilities of their slates, and of the best; by moment"""

    def arrive(self, moment: Moment, news: DaySlates) -> None:
        """Bring the policy up to a moment."""
        self._moment = moment
        self._inner.arrive(moment, news)

    def slates(self, who: Ints, seed: int) -> Ints:
        """Return its slates."""
        made, moment = self._inner.slates(who, seed), self._moment
        market, users = self._platform.market, self._platform.population.users
        assert moment is not None
        items = np.arange(self._platform.log.items.height)
        if market.life is not None:
            items = items[market.life.alive(items[None], np.array([moment.hours]))[0]]
        best = market.best_slates(users, who, items, moment.hours)
        chances = [market.click_probability(users, one, who, moment.hours) for one in (made, best)]
        self.rows.append((who, *chances))
        return made


def served(world: str, policy: str, settings: dict[str, Any], seed: int) -> list[Any]:
    """Let a policy serve a world of its own for days; return what it was measured by."""
    given = dict(WORLDS[world])
    ours = policy not in RIVALS
    if ours:
        given["model"] = given["model"] | settings
    config = OnlineConfig.build({"seeds": [seed], **given}, world)
    with tempfile.TemporaryDirectory() as folder:
        platform = Platform(config, config.simulated(seed), DAYS, 1, Path(folder))
        platform.warm_up()
        inner = None if ours else RIVALS[policy](platform, **settings)
        if inner is not None:
            for day in sorted(platform.log.days):
                inner.arrive(platform.moment(day + 1), logged_day(platform, day))
        models: dict[str, SlateModel] = {}
        rows: list[Any] = []
        for day in range(DAYS):
            if ours:
                inner = _trained(config, models, platform, day, policy)
            assert inner is not None
            measured = Measured(platform, inner)
            platform.day(day, [measured])
            rows += measured.rows
    return rows


def _trained(
    config: OnlineConfig, models: dict[str, SlateModel], platform: Platform, day: int, policy: str
) -> ModelPolicy:
    """Train on what was shown before a day, and return what serves it."""
    dataset = platform.log.dataset(day)
    models[VARIANT] = retrain(config, models, VARIANT, dataset, day, platform.log.table)
    learning = policy.endswith("learning")
    model = ServedModel(models[VARIANT], dataset, platform, learning=learning)
    strategy = "greedy" if "greedy" in policy else "in-slate-thompson"
    return ModelPolicy(model, named_strategy(strategy), platform.market.config.max_slate)


def tuned(world: str, policy: str) -> dict[str, Any]:
    """Return the settings of a policy with the least regret in the world that all are tuned on."""
    choices = SETTINGS[policy]
    if len(choices) == 1:
        return choices[0]

    def regret(settings: dict[str, Any]) -> float:
        rows = served(world, policy, settings, TUNING)
        return sum(float((best - own).sum()) for _, own, best in rows)

    return min(choices, key=regret)


def row_of(world: str, policy: str, seeds: int) -> Row:
    """Return what came of a policy in a world."""
    started = time.process_time()
    settings = tuned(world, policy)
    rates, regrets, resampled, curves = [], [], [], []
    for seed in range(seeds):
        rows = served(world, policy, settings, seed)
        sums = np.zeros((1 + max(int(who.max(initial=0)) for who, *_ in rows), 3))
        for who, own, best in rows:
            np.add.at(sums, who, np.stack([np.ones(len(who)), own, best - own], axis=1))
        weights = np.random.default_rng(seed).poisson(1.0, (RESAMPLES, len(sums)))
        slates = np.maximum(weights @ sums[:, 0], 1)
        rates.append(float(sums[:, 1].sum() / sums[:, 0].sum()))
        regrets.append(float(sums[:, 2].sum() / sums[:, 0].sum()))
        resampled.append(weights @ sums[:, 2] / slates)
        steps = [float((best - own).sum()) for _, own, best in rows]
        curves.append(np.cumsum(steps).tolist())
    found = over_worlds(regrets, resampled)
    return {
        "world": world,
        "policy": policy,
        "settings": str(settings or "defaults"),
        "rate": float(np.mean(rates)),
        "regret": found.value,
        "low": found.low,
        "high": found.high,
        "interval": f"{found.low:.4f} … {found.high:.4f}",
        "minutes": (time.process_time() - started) / 60,
        "seeds": seeds,
        "curves": curves,
    }


def main() -> None:
    """Tune and run all policies."""
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--world", action="append", help="only this one")
    arguments.add_argument("--policy", action="append", help="only this one")
    options = parse(arguments, globals())
    there = importlib.util.find_spec("vowpalwabbit") is not None
    if not there:
        print("Vowpal Wabbit is not installed (pip install vowpalwabbit): it is left out.")
    policies = [policy for policy in SETTINGS if there or policy != "vw"]
    worlds = options.world or list(WORLDS)
    rows = [
        kept(options.keep, f"{world} {policy}", partial(row_of, world, policy, options.seeds))
        for world in worlds
        for policy in options.policy or policies
    ]
    targets = []
    for world in worlds:
        own = [row for row in rows if row["world"] == world]
        ours = [row["regret"] for row in own if row["policy"].startswith("slatewise")]
        others = [row["regret"] for row in own if not row["policy"].startswith("slatewise")]
        what = f"{world}: least regret of slatewise less the least of others"
        if ours and others:
            targets.append(Target(what, min(ours) - min(others), 0.0))
    columns = {
        **{"world": "{}", "policy": "{}", "settings": "{}", "rate": "{:.4f}"},
        **{"regret": "{:.4f}", "interval": "{}", "minutes": "{:.1f}"},
    }
    report(options, "Regret per slate, each policy on its own data", columns, rows, targets)


if __name__ == "__main__":
    main()
