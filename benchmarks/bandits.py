"""Regret of slatewise's strategies beside bandits of others, in the same simulated worlds.

Every policy has a platform to itself: the same users at the same moments, and nothing to learn from
but the slates it shows and the few days of log that all begin with. Regret is exact: how likely a
click on the best slate is (`Marketplace.best_slates`), less how likely it is on the slate shown,
summed over slates. All see the same: the items table with groups and features, ages, and what was
seen and clicked. Each policy is tuned on two worlds that are not reported, over as many settings as
every other; the rows are of the settings that were best there. Intervals are over worlds and users.

slatewise trains at night; with `learning` it learns from every answer, too. Popularity is
ε-greedy, `neighbours` are co-clicks, `linear` is a linear Thompson slate bandit, `vw` is Vowpal
Wabbit's `--cb_explore_adf` and `vw, slates` its `--ccb_explore_adf`; both are left out where it is
not installed. cb knows no slates: it is told of one item of each, with the chance of one among
those seen, which is made up. VW's own `--slates` needs a set of actions for each position; here all
positions draw from one catalogue. `--picture` draws the regret that adds up, with 95 % intervals
over worlds.
"""

import importlib.util
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import drawing
from harness import Row, Target, circumstances, kept, parse, parser, report, show
from rivals import (
    LinearThompson,
    Neighbours,
    Popularity,
    VowpalWabbit,
    VowpalWabbitSlates,
    logged_day,
)
from slatewise.experiments.daily_log import DaySlates
from slatewise.experiments.days import retrain
from slatewise.experiments.model_policy import ModelPolicy, ServedModel
from slatewise.experiments.online import OnlineConfig
from slatewise.experiments.platform import MOMENTS, Moment, Platform, ServingPolicy
from slatewise.experiments.pooling import over_worlds
from slatewise.experiments.power import power
from slatewise.slates.strategies import named_strategy

Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ON_OFFER: Mapping[str, Any] = {"ranking": "slate"}
"""What is on offer is known here, so weights of choices within slates rank (docs/slates.md)."""
WORLDS: dict[str, dict[str, Any]] = {
    "news": {
        "preset": "news",
        "users": 150,
        "slates_a_day": 3.0,
        "window": 3,
        "simulation": {"catalogue": {"items": 500}},
        "item_features": True,
        "model": {"terms": ["bias", "popularity", "position"], "dimensions": 5, **ON_OFFER},
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
        "model": {"terms": ["bias", "popularity"], "dimensions": 5, **ON_OFFER},
    },
}
# The same shop, whose items are all filed under a group drawn at random, which says nothing.
WORLDS["mislabelled shop"] = WORLDS["cold shop"] | {
    "simulation": WORLDS["cold shop"]["simulation"]
    | {"catalogue": {"items": 400, "groups": 10, "mislabelled": 1.0}}
}
DAYS, RESAMPLES, TUNING = 4, 500, (1_000, 1_001)
VARIANT = "slate-linear-hier"
OURS: Sequence[dict[str, Any]] = [{}, {"dimensions": 3}, {"temperature": 0.3}, {"temperature": 0.1}]
VW: Sequence[dict[str, Any]] = [
    {"explore": "--squarecb --gamma_scale 100", "rate": 0.5},
    {"explore": "--squarecb --gamma_scale 100", "rate": 2.0},
    {"explore": "--epsilon 0.05", "rate": 2.0},
    {"explore": "--epsilon 0.05", "rate": 8.0},
]
SETTINGS: dict[str, Sequence[dict[str, Any]]] = {
    "slatewise, greedy": OURS,
    "slatewise, in-slate Thompson": OURS,
    "slatewise, greedy, learning": OURS,
    "slatewise, in-slate Thompson, learning": OURS,
    "popularity, ε-greedy": [{"epsilon": share} for share in (0.0, 0.05, 0.1, 0.3)],
    "neighbours": [{"popular": weight} for weight in (0.1, 1.0, 10.0, 100.0)],
    "linear Thompson": [{"noise": noise} for noise in (0.1, 0.3, 1.0, 3.0)],
    "vw": VW,
    "vw, slates": [{"explore": "--epsilon 0.05", "rate": rate} for rate in (2.0, 8.0, 16.0, 32.0)],
}
"""What each is tuned over: as many settings each."""
RIVALS: Mapping[str, Callable[..., Any]] = {
    "popularity, ε-greedy": Popularity,
    "neighbours": Neighbours,
    "linear Thompson": LinearThompson,
    "vw": VowpalWabbit,
    "vw, slates": VowpalWabbitSlates,
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
            "model": {"terms": ["bias"], "dimensions": 3},
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
        "vw, slates": [{}],
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


def served(world: str, policy: str, settings: dict[str, Any], seed: int) -> Row:
    """Let a policy serve a world of its own for days; return what it was measured by.

    `sums` are by user: slates, expected clicks and regret, [U, 3]; `steps` the regret by moment.
    """
    started = time.process_time()
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
        model: ServedModel | None = None
        rows: list[Any] = []
        for day in range(DAYS):
            if ours:
                model = _trained(config, model, platform, day, policy)
                strategy = "greedy" if "greedy" in policy else "in-slate-thompson"
                k = platform.market.config.max_slate
                inner = ModelPolicy(model, named_strategy(strategy), k)
            assert inner is not None
            measured = Measured(platform, inner)
            platform.day(day, [measured])
            rows += measured.rows
    sums = np.zeros((1 + max(int(who.max(initial=0)) for who, *_ in rows), 3))
    for who, own, best in rows:
        np.add.at(sums, who, np.stack([np.ones(len(who)), own, best - own], axis=1))
    return {
        "sums": sums.round(6).tolist(),
        "steps": [round(float((best - own).sum()), 6) for _, own, best in rows],
        "commit": circumstances()["commit"],
        "minutes": (time.process_time() - started) / 60,
    }


def _trained(
    config: OnlineConfig, before: ServedModel | None, platform: Platform, day: int, policy: str
) -> ServedModel:
    """Train on what was shown before a day, from where the day before ended."""
    dataset = platform.log.dataset(day)
    start = {} if before is None else {VARIANT: before.learned()}
    model = retrain(config, start, VARIANT, dataset, day, platform.log.table)
    return ServedModel(model, dataset, platform, learning=policy.endswith("learning"))


def run_of(world: str, policy: str, settings: dict[str, Any], seed: int, keep: Path | None) -> Row:
    """Return what came of a policy in a world, from where it was kept if it was."""
    name = f"{world} {policy} {settings} {seed}".replace(".", "_")
    return kept(keep, name, partial(served, world, policy, settings, seed))


def row_of(world: str, policy: str, seeds: int, keep: Path | None) -> Row:
    """Tune a policy in the worlds kept back, and return what came of it in others."""
    choices = SETTINGS[policy]
    tried = [
        [run_of(world, policy, one, seed, keep) for seed in TUNING]
        for one in choices
        if len(choices) > 1
    ]
    tuning = [sum(regret_of(run) for run in runs) / len(runs) for runs in tried]
    settings = choices[int(np.argmin(tuning))] if tuning else choices[0]
    runs = [run_of(world, policy, settings, seed, keep) for seed in range(seeds)]
    regrets, resampled = [regret_of(run) for run in runs], []
    for seed, run in enumerate(runs):
        sums = np.array(run["sums"])
        weights = np.random.default_rng(seed).poisson(1.0, (RESAMPLES, len(sums)))
        resampled.append(weights @ sums[:, 2] / np.maximum(weights @ sums[:, 0], 1))
    found = over_worlds(regrets, resampled)
    return {
        "world": world,
        "policy": policy,
        "settings": str(settings or "defaults"),
        "tuning": tuning,
        "rate": float(np.mean([rate_of(run) for run in runs])),
        "regret": found.value,
        "low": found.low,
        "high": found.high,
        "interval": f"{found.low:.4f} … {found.high:.4f}",
        "by_seed": regrets,
        "minutes": sum(run["minutes"] for run in [*runs, *(run for one in tried for run in one)]),
        "seeds": seeds,
        "commits": sorted({run["commit"] for run in runs}),
        "tuning_seeds": list(TUNING) if tuning else [],
        "curves": [np.cumsum(run["steps"]).round(4).tolist() for run in runs],
    }


def regret_of(run: Row) -> float:
    """Return the regret of a slate."""
    slates, _, regret = np.array(run["sums"]).sum(axis=0)
    return float(regret / slates)


def rate_of(run: Row) -> float:
    """Return the click rate to be expected."""
    slates, clicks, _ = np.array(run["sums"]).sum(axis=0)
    return float(clicks / slates)


def compare(rows: list[Row]) -> None:
    """Add to each row of a world how much more regret it has than the least, paired by world."""
    least = min(rows, key=lambda row: float(row["regret"]))
    for row in rows:
        apart = np.array(row["by_seed"]) - np.array(least["by_seed"])
        found = over_worlds(apart.tolist(), np.repeat(apart[:, None], 2, axis=1).tolist())
        row |= {"behind": found.value, "behind_low": found.low, "behind_high": found.high}


def paired(rows: list[Row]) -> Iterator[Row]:
    """Yield how much more regret each policy of slatewise has than each other, by world."""
    ours = [row for row in rows if row["policy"].startswith("slatewise")]
    for one, other in product(ours, rows):
        if other["policy"].startswith("slatewise"):
            continue
        apart = np.array(one["by_seed"]) - np.array(other["by_seed"])
        found = over_worlds(apart.tolist(), np.repeat(apart[:, None], 2, axis=1).tolist())
        yield {
            **{"world": one["world"], "policy": one["policy"], "other": other["policy"]},
            **{"more": found.value, "low": found.low, "high": found.high},
            "interval": f"{found.low:+.4f} … {found.high:+.4f}",
            "smallest": power(found, math.nan).smallest,
            "by_seed": apart.round(6).tolist(),
        }


def draw(rows: list[Row], file: Path) -> None:
    """Draw the regret that adds up over the days, mean and interval over worlds."""
    panels: dict[str, list[drawing.Curve]] = {}
    for row in rows:
        steps = min(len(one) for one in row["curves"])
        points = np.array([one[:steps] for one in row["curves"]])  # [worlds, moments]
        found = [
            over_worlds(one.tolist(), np.repeat(one[:, None], 2, 1).tolist()) for one in points.T
        ]
        low, high = [one.low for one in found], [one.high for one in found]
        curve = drawing.Curve(row["policy"], [one.value for one in found], low, high)
        panels.setdefault(row["world"], []).append(curve)
    across = f"{DAYS} days of {MOMENTS} moments each"
    drawing.curves(file, "Regret of each policy", panels, across, "regret so far, in clicks")


def main() -> None:
    """Tune and run all policies."""
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=10)
    arguments.add_argument("--world", action="append", help="only this one")
    arguments.add_argument("--picture", type=Path, help="draw the curves into this file (.svg)")
    arguments.add_argument("--policy", action="append", help="only this one")
    options = parse(arguments, globals())
    there = importlib.util.find_spec("vowpalwabbit") is not None
    if not there:
        print("Vowpal Wabbit is not installed (pip install vowpalwabbit): it is left out.")
    policies = [policy for policy in SETTINGS if there or not policy.startswith("vw")]
    worlds = options.world or list(WORLDS)
    rows = [
        row_of(world, policy, options.seeds, options.keep)
        for world in worlds
        for policy in options.policy or policies
    ]
    targets, pairs = [], []
    for world in worlds:
        own = [row for row in rows if row["world"] == world]
        compare(own)
        pairs += paired(own)
        ours = [row["regret"] for row in own if row["policy"].startswith("slatewise")]
        others = [row["regret"] for row in own if not row["policy"].startswith("slatewise")]
        what = f"{world}: least regret of slatewise less the least of others"
        if ours and others:
            targets.append(Target(what, min(ours) - min(others), 0.0))
    if options.picture:
        draw(rows, options.picture)
    columns = {
        **{"world": "{}", "policy": "{}", "settings": "{}", "rate": "{:.4f}"},
        **{"regret": "{:.4f}", "interval": "{}", "behind": "{:.4f}", "minutes": "{:.1f}"},
    }
    against = {"world": "{}", "policy": "{}", "other": "{}", "more": "{:+.4f}", "interval": "{}"}
    show("Regret over that of others, paired by world", against | {"smallest": "{:.4f}"}, pairs)
    title = "Regret per slate, each policy on its own data"
    report(options, title, columns, rows, targets, pairs=pairs)


if __name__ == "__main__":
    main()
