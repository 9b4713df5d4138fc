"""Is the advice of `slatewise advise` right? Asked of simulated worlds that it was not made on.

In each world a few days of log are written, a model is fitted, and `advise` says from model and log
alone whether greedy or in-slate Thompson slates bring more clicks. Then both serve the world, each
with the same users to itself and training every night on its own slates, and are judged by exact
click probabilities, paired by user. The advice is right if what it names has the higher click
rate; where it has not, and the two cannot be told apart (a 95 % interval over users with 0 in it),
the row says so. What is expected has an interval that should hold what happens in 95 of 100. Worlds
differ in what should matter: lives of items, how much they differ in quality, catalogue, groups,
and share of search. In a third of them exploring was expected to pay:
few people, no search, items of one group that differ in quality and come and go (`PAYING`). Each
world is drawn from several seeds. Right answers are counted apart by whether exploring paid, beside
what always saying greedy would have scored.
"""

import math
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from harness import Row, Target, circumstances, kept, parse, parser, report
from slatewise.evaluation.advice import AdviceConfig, advise
from slatewise.experiments.days import retrain
from slatewise.experiments.model_policy import ModelPolicy, ServedModel
from slatewise.experiments.online import OnlineConfig
from slatewise.experiments.platform import Platform
from slatewise.model.fitted import SlateModel
from slatewise.slates.strategies import named_strategy

VARIANT = "slate-linear-hier"
GREEDY, THOMPSON = "greedy", "in-slate-thompson"
DAYS, WINDOW, USERS = 4, 3, 120
ADVICE: dict[str, Any] = {"days": 4, "slates": 150, "repetitions": 5}
BASE: dict[str, Any] = {"max_slate": 10, "mean_scroll": 6.0, "search_share": 0.2, "days": 7}
NO_LIFE: dict[str, Any] = {"life": {"hours": 0.0, "new_groups": 0.0}, "policy": "random"}

COLD: dict[str, Any] = {"search_share": 0.0, "max_slate": 6, "mean_scroll": 4.0}
SHOP: dict[str, Any] = COLD | {"days": 28, "paper": {"no_click": 1.0}}
"""The world of examples/exploring.toml, but for what each of `PAYING` sets."""


def world(items: int, groups: int, quality: float, **more: Any) -> dict[str, Any]:
    """Return the settings of a simulated world."""
    catalogue = {"items": items, "groups": groups} | more.pop("catalogue", {})
    return BASE | {"catalogue": catalogue, "effects": {"quality_sd": quality}} | more


WORLDS: dict[str, dict[str, Any]] = {
    "lives of 1 day, items differ": world(900, 10, 1.5, life={"hours": 24.0}),
    "lives of 1 day, items alike": world(900, 10, 0.0, life={"hours": 24.0}),
    "lives of 4 days, items differ": world(900, 10, 1.5, life={"hours": 96.0}),
    "lives of 4 days, items alike": world(900, 10, 0.0, life={"hours": 96.0}),
    "for ever, few items": world(120, 6, 0.8, **NO_LIFE),
    "for ever, many items": world(1_500, 15, 0.8, **NO_LIFE),
    "for ever, groups say nothing": world(400, 10, 1.2, **NO_LIFE, catalogue={"mislabelled": 1.0}),
    "lives of 2 days, groups say nothing": world(
        500, 10, 1.2, life={"hours": 48.0}, catalogue={"mislabelled": 1.0}
    ),
    "for ever, mostly search": world(600, 12, 0.8, **NO_LIFE, search_share=0.7),
    "lives of 2 days, one group": world(500, 1, 1.2, life={"hours": 48.0}),
    "lives of 5 days, one group, no search": world(
        700, 1, 1.5, **COLD, life={"hours": 120.0}, days=11
    ),
    "lives of 5 days, five groups, no search": world(
        700, 5, 1.5, **COLD, life={"hours": 120.0}, days=11
    ),
}


def shop(hours: float, quality: float, items: int = 800, groups: int = 1) -> dict[str, Any]:
    """Return a world where items of unknown quality come and go, and nothing else shows them."""
    given = world(items, groups, quality, **SHOP, life={"hours": hours, "new_groups": 0.0})
    given["catalogue"]["dimensions"] = 4
    given["effects"]["quality_shared"] = 0.0
    return given


PAYING: dict[str, dict[str, Any]] = {
    "shop, lives of 5 days": shop(120.0, 1.5),
    "shop, lives of 3 days": shop(72.0, 1.5),
    "shop, lives of 8 days": shop(192.0, 1.5),
    "shop, quality of sd 2": shop(120.0, 2.0),
    "shop, quality of sd 1": shop(120.0, 1.0),
    "shop, more items": shop(120.0, 1.5, items=1_400),
}
WORLDS |= PAYING
LONG = {name: 8 for name in WORLDS if "no search" in name or name in PAYING}
"""Days that both serve, and that advice looks ahead, where it is not `DAYS`."""
MINIATURE = {
    "WORLDS": {"for ever, few items": world(40, 3, 0.8, **NO_LIFE)},
    **{"DAYS": 1, "USERS": 30, "seeds": 1},
    "ADVICE": {"days": 1, "slates": 10, "repetitions": 2},
    "TRAINING": {"max_epochs": 1},
}
TRAINING: dict[str, Any] = {}


def config_of(settings: dict[str, Any], seed: int) -> OnlineConfig:
    """Return the platform of a world."""
    given = {
        **{"preset": "market", "truth": "paper", "seeds": [seed], "users": USERS},
        **{"slates_a_day": 2.5, "window": WINDOW, "simulation": settings, "training": TRAINING},
        "model": {"terms": ["bias"], "dimensions": 5},
        **({"nightly": TRAINING} if TRAINING else {}),
    }
    return OnlineConfig.build(given, "world")


def actual(config: OnlineConfig, seed: int, strategy: str, days: int) -> np.ndarray[Any, Any]:
    """Serve a world by one strategy for days; return slates and exact clicks by user: [U, 2]."""
    with tempfile.TemporaryDirectory() as folder:
        platform = Platform(config, config.simulated(seed), days, 1, Path(folder))
        platform.warm_up()
        models: dict[str, SlateModel] = {}
        sums = np.zeros((len(platform.population), 2))
        for day in range(days):
            dataset = platform.log.dataset(day)
            models[VARIANT] = retrain(config, models, VARIANT, dataset, day, platform.log.table)
            served = ServedModel(models[VARIANT], dataset, platform)
            k = platform.market.config.max_slate
            met = platform.day(day, [ModelPolicy(served, named_strategy(strategy), k)])
            judged = ~met.searched
            ones = np.ones(int(judged.sum()))
            np.add.at(sums, met.user[judged], np.stack([ones, met.judged[judged, 0]], axis=1))
    return sums


def outcome(name: str, seed: int) -> Row:
    """Return what both strategies bring in a world."""
    started = time.process_time()
    config, days = config_of(WORLDS[name], seed), LONG.get(name, DAYS)
    one, other = (actual(config, seed, strategy, days) for strategy in (GREEDY, THOMPSON))
    weights = np.random.default_rng(0).poisson(1.0, (500, len(one)))
    rates = [weights @ sums[:, 1] / np.maximum(weights @ sums[:, 0], 1) for sums in (one, other)]
    low, high = np.quantile(rates[1] - rates[0], [0.025, 0.975])
    greedy, thompson = (float(sums[:, 1].sum() / sums[:, 0].sum()) for sums in (one, other))
    return {
        "greedy": greedy,
        "thompson": thompson,
        "actual": thompson - greedy,
        "low": float(low),
        "high": float(high),
        "clear": bool(low > 0 or high < 0),
        "serving_minutes": (time.process_time() - started) / 60,
    }


def advised(name: str, seed: int) -> Row:
    """Return what `advise` says of a world from the log of its first days."""
    started = time.process_time()
    config, days = config_of(WORLDS[name], seed), LONG.get(name, DAYS)
    with tempfile.TemporaryDirectory() as folder:
        platform = Platform(config, config.simulated(seed), days, 1, Path(folder))
        platform.warm_up()
        dataset = platform.log.dataset(0)
        model = retrain(config, {}, VARIANT, dataset, 0, platform.log.table)
        asked = AdviceConfig.build(
            ADVICE | {"strategies": (GREEDY, THOMPSON), "days": days}, "advice"
        )
        found = advise(model, dataset, asked, source="recommendation")
    gain = found.forecasts[1].gain
    return {
        "advice": found.best.strategy,
        "sure": found.is_sure,
        "quality": found.quality,
        "expected": gain.value,
        "expected_low": float(gain.low),
        "expected_high": float(gain.high),
        "advice_minutes": (time.process_time() - started) / 60,
        "commit": circumstances()["commit"],
    }


def row_of(name: str, seed: int, keep: Path | None) -> Row:
    """Return advice and truth of a world drawn from a seed."""
    row = {"world": name, "seed": seed}
    row |= kept(keep, f"{name} {seed} outcome", partial(outcome, name, seed))
    row |= kept(keep, f"{name} {seed} advice", partial(advised, name, seed))
    row["minutes"] = row["serving_minutes"] + row["advice_minutes"]
    row["right"] = (row["advice"] == THOMPSON) == (row["actual"] > 0)
    row["interval"] = f"{row['low']:+.4f} … {row['high']:+.4f}"
    row["answer"] = "right" if row["right"] else "wrong" if row["clear"] else "no difference"
    return row


def hits(rows: list[Row]) -> dict[str, Any]:
    """Count right answers, by whether exploring paid; always-greedy is right where it did not."""
    paid = [row for row in rows if row["actual"] > 0]
    not_paid = [row for row in rows if row["actual"] <= 0]
    return {
        "rows": len(rows),
        "right": sum(row["right"] for row in rows),
        "right_interval": wilson(sum(row["right"] for row in rows), len(rows)),
        "sure": sum(row["sure"] for row in rows),
        "right_where_sure": sum(row["sure"] and row["right"] for row in rows),
        "within": sum(row["expected_low"] <= row["actual"] <= row["expected_high"] for row in rows),
        "clearly_wrong": sum(row["clear"] and not row["right"] for row in rows),
        "paid": len(paid),
        "right_where_paid": sum(row["right"] for row in paid),
        "not_paid": len(not_paid),
        "right_where_not_paid": sum(row["right"] for row in not_paid),
        "always_greedy": len(not_paid),
        # Clicks are what counts: what following the advice, or always greedy, forgoes a slate.
        "forgone": float(np.mean([0.0 if row["right"] else abs(row["actual"]) for row in rows])),
        "forgone_by_greedy": float(np.mean([max(0.0, row["actual"]) for row in rows])),
    }


def wilson(hits: int, count: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share."""
    z = 1.959964
    centre = (hits + z**2 / 2) / (count + z**2)
    reach = z / (count + z**2) * math.sqrt(hits * (count - hits) / count + z**2 / 4)
    return centre - reach, centre + reach


def main() -> None:
    """Ask all worlds."""
    arguments = parser(__doc__)
    arguments.add_argument("--seed", type=int, default=100, help="of the first world")
    arguments.add_argument("--seeds", type=int, default=2, help="how often each world is drawn")
    arguments.add_argument("--world", type=int, help="only this one, by its number from 0")
    options = parse(arguments, globals())
    rows = [
        row_of(name, options.seed + 1_000 * draw + number, options.keep)
        for draw in range(options.seeds)
        for number, name in enumerate(WORLDS)
        if options.world in (None, number)
    ]
    columns = {
        **{"world": "{}", "seed": "{}", "advice": "{}", "sure": "{}", "expected": "{:+.4f}"},
        **{"actual": "{:+.4f}", "interval": "{}", "answer": "{}", "minutes": "{:.1f}"},
    }
    found = hits(rows)
    low, high = found["right_interval"]
    title = (
        f"Advice beside what happened: {found['right']} of {len(rows)} right, "
        f"{found['clearly_wrong']} clearly wrong; always greedy {found['always_greedy']}"
    )
    print(
        f"Right: {low:.0%} to {high:.0%}. Sure in {found['sure']}, of which "
        f"{found['right_where_sure']} are right. What happened lies in {found['within']} of "
        f"{len(rows)} intervals."
    )
    targets = [Target("right", found["right"], 0.8 * len(rows), at_least=True)]
    report(options, title, columns, rows, targets, hits=found)


if __name__ == "__main__":
    main()
