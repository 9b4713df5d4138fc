"""What learning between nights brings on the first day of new items, and what it costs.

A simulated platform serves for days and trains at night, in the worlds `news` (items live for 36
hours) and `market` (for four days). At every moment, all arms are judged on the same users by exact
click probabilities: of the slates they would show, and of slates made only of items that appeared
since the night, beside the best such slates (regret). Arms:

  popularity  the click rate of late, without a model
  nights      the model as the night left it; new items have their prior, popularity counts on
  learning    the same model, moved by every answer to a recommendation (`Recommender.observe`)

Users are dealt out to the arms, and all learn from what all show. Intervals are over worlds (seeds)
and users. The cost is the CPU of learning from one answer, of the service with its store, beside
that of a request: `shown` sums up a slate for its record, `learning` reads an answer from the store
and moves its items, with what is kept beside the run.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import shop
from harness import Row, Target, parse, parser, report, show
from rivals import Popularity, logged_day
from slatewise.experiments.daily_log import DaySlates
from slatewise.experiments.days import retrain
from slatewise.experiments.model_policy import ServedModel
from slatewise.experiments.online import OnlineConfig
from slatewise.experiments.platform import Moment, Platform
from slatewise.experiments.pooling import over_worlds
from slatewise.model.fitted import SlateModel
from slatewise.service.http.startup import begin_with
from slatewise.service.serving import Request, Service
from slatewise.service.settings import ServiceConfig
from slatewise.service.store import Store
from slatewise.service.store.records import Outcome
from slatewise.slates.strategies import Strategy, named_strategy

Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

WORLDS: dict[str, dict[str, Any]] = {
    "news": {
        "users": 600,
        "slates_a_day": 3.0,
        "window": 3,
        "simulation": {"catalogue": {"items": 600}},
        "model": {"terms": ["bias", "popularity", "position"], "dimensions": 6},
    },
    "market": {
        "users": 900,
        "slates_a_day": 3.0,
        "window": 5,
        "simulation": {
            "catalogue": {"items": 1_200, "groups": 20},
            **{"search_share": 0.3, "days": 6},
        },
        "model": {"terms": ["bias"], "dimensions": 6},
    },
}
DAYS, RESAMPLES = 1, 500
ITEMS, REQUESTS, WARM_UP, HTTP = 100_000, 300, 30, 0.5
"""Of the cost: HTTP are the ms of HTTP and JSON that a request takes beside (`serve.py`)."""
VARIANT = "slate-linear-hier"
MINIATURE = {
    "WORLDS": {
        "news": {
            "users": 40,
            "window": 2,
            "slates_a_day": 3.0,
            "simulation": {"catalogue": {"items": 400, "groups": 4}},
            "model": {"terms": ["bias"], "dimensions": 2},
            "training": {"max_epochs": 1},
        }
    },
    **{"DAYS": 1, "RESAMPLES": 50, "seeds": 1, "ITEMS": 300, "REQUESTS": 20, "WARM_UP": 2},
}


class Judged:
    """An arm on a platform, judged wherever it makes slates."""

    def __init__(
        self, name: str, platform: Platform, inner: Any, strategy: Strategy | None
    ) -> None:
        self.name, self._platform, self._inner, self._strategy = name, platform, inner, strategy
        self.rows: list[tuple[Ints, Doubles, Doubles, Doubles]] = []
        """users, and the click probabilities of slates, of slates of new items, of the best such"""
        self._moment: Moment | None = None
        self._since = 0.0

    def begin(self, hours: float) -> None:
        """Let items that appear from an hour on be new ones."""
        self._since = hours

    def arrive(self, moment: Moment, news: DaySlates) -> None:
        """Bring the arm up to a moment."""
        self._moment = moment
        self._inner.arrive(moment, news)

    def slates(self, who: Ints, seed: int) -> Ints:
        """Return the slates of the arm, and judge them and those of new items."""
        made = self._made(who, seed, None)
        moment, market, users = self._moment, self._platform.market, self._platform.population.users
        assert moment is not None
        assert market.life is not None
        published = market.life.published
        new = np.flatnonzero((published >= self._since) & (published <= moment.hours))
        new = new[market.life.alive(new[None], np.array([moment.hours]))[0]]
        if len(new) >= 2 * market.config.max_slate:
            best = market.best_slates(users, who, new, moment.hours)
            chances = [
                market.click_probability(users, slates, who, moment.hours)
                for slates in (made, self._made(who, seed, new), best)
            ]
            self.rows.append((who, *chances))
        return made

    def _made(self, who: Ints, seed: int, among: Ints | None) -> Ints:
        if self._strategy is None:
            return np.asarray(self._inner.slates(who, seed, among))
        k = self._platform.market.config.max_slate
        found = self._inner.slates(who, self._strategy, k, seed, among)
        # Of few new items a user may have clicked some: what is missing is what she has clicked.
        short = np.flatnonzero((found < 0).any(axis=1)) if among is not None else []
        for row in short:
            kept = found[row][found[row] >= 0]
            found[row] = np.concatenate([kept, np.setdiff1d(among, kept)])[:k]
        return np.asarray(found)


def judged_days(name: str, seed: int, folder: Path) -> dict[str, list[Any]]:
    """Serve for days by all arms; return what they were judged by, by arm."""
    config = OnlineConfig.build({"preset": name, "seeds": [seed], **WORLDS[name]}, name)
    arms = ("popularity", "nights", "nights, Thompson", "learning", "learning, Thompson")
    platform = Platform(config, config.simulated(seed), DAYS, len(arms), folder)
    platform.warm_up()
    counting = Popularity(platform)
    for day in sorted(platform.log.days):  # what it counts of the window, day by day
        counting.arrive(platform.moment(day + 1), logged_day(platform, day))
    models: dict[str, SlateModel] = {}
    judged: dict[str, list[Any]] = {arm: [] for arm in arms}
    for day in range(DAYS):
        dataset = platform.log.dataset(day)
        models[VARIANT] = retrain(config, models, VARIANT, dataset, seed, platform.log.table)
        served = {
            learning: ServedModel(models[VARIANT], dataset, platform, learning=learning)
            for learning in (False, True)
        }
        ways = named_strategy("greedy"), named_strategy("in-slate-thompson")
        policies = [
            Judged(arms[0], platform, counting, None),
            *(Judged(arms[1 + i], platform, served[False], way) for i, way in enumerate(ways)),
            *(Judged(arms[3 + i], platform, served[True], way) for i, way in enumerate(ways)),
        ]
        for policy in policies:
            policy.begin(platform.moment(day).hours)
        platform.day(day, policies)
        for policy in policies:
            judged[policy.name] += policy.rows
    return judged


def world_rows(name: str, seeds: int) -> Iterator[Row]:
    """Yield a row for each arm of a world."""
    sums: dict[str, list[Doubles]] = {}
    started = time.process_time()
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            for arm, rows in judged_days(name, seed, Path(folder)).items():
                sums.setdefault(arm, []).append(_by_user(rows))
    minutes = (time.process_time() - started) / 60
    for arm, worlds in sums.items():
        row: Row = {"world": name, "arm": arm, "minutes": minutes, "seeds": seeds}
        for key, base in (
            ("rate", None),
            ("new", None),
            ("gain", "nights"),
            ("new_gain", "nights"),
        ):
            column = 1 if key in ("rate", "gain") else 2
            found = _pooled(worlds, None if base is None else sums[base], column)
            row |= {key: found.value, f"{key}_low": found.low, f"{key}_high": found.high}
        best = _pooled(worlds, None, 3).value
        row |= {"slates": sum(float(one[:, 0].sum()) for one in worlds), "best": best}
        row["regret"] = best - row["new"]
        yield row


def _by_user(rows: list[Any]) -> Doubles:
    """Add up slates and probabilities by user: [U, 4]."""
    count = 1 + max((int(who.max(initial=0)) for who, *_ in rows), default=0)
    sums = np.zeros((count, 4))
    for who, *chances in rows:
        np.add.at(sums, who, np.stack([np.ones(len(who)), *chances], axis=1))
    return sums


def _pooled(worlds: list[Doubles], base: list[Doubles] | None, column: int) -> Any:
    """Return a click rate, or by how much it is higher than that of another arm, over worlds."""
    values, resampled = [], []
    for number, sums in enumerate(worlds):
        other = np.zeros_like(sums) if base is None else base[number]
        weights = np.random.default_rng(number).poisson(1.0, (RESAMPLES, len(sums)))
        difference = sums[:, column] - other[:, column]
        values.append(float(difference.sum() / sums[:, 0].sum()))
        resampled.append(weights @ difference / np.maximum(weights @ sums[:, 0], 1))
    return over_worlds(values, resampled)


def cost_row(strategy: str, folder: Path) -> Row:
    """Return the CPU of a request and of learning from its answer, in milliseconds."""
    found: Row = {"items": ITEMS, "strategy": strategy}
    for on in (False, True):
        directory = folder / f"{strategy}-{on}"
        directory.mkdir()
        given = {"arms": {"one": {"strategy": strategy}}, "learning": {"between_nights": on}}
        config = ServiceConfig.build(given, "the settings")
        store = Store.open(config.store_url(directory))
        begin_with(folder / "run", directory, config, store)
        service = Service.open(directory, config, store)
        records, slates = [], []
        spent = 0.0
        for number in range(REQUESTS + WARM_UP):
            request = Request(f"user-{number % 50}", clicks=(str(number % ITEMS),), k=20)
            start = time.thread_time()
            record, slate, _ = service.recommend(request)
            if number >= WARM_UP:
                spent += time.thread_time() - start
            records.append(record)
            slates.append(slate)
        outcomes = [
            Outcome(record.slate_id, None, record.items[:1] if number % 5 == 0 else (), record.time)
            for number, record in enumerate(records)
        ]
        if not on:
            found["request"] = 1e3 * spent / REQUESTS
        else:
            live = service._live["main"]
            assert live.learning is not None
            start = time.thread_time()  # not the difference of two runs, which is mostly chance
            for slate in slates:
                live.learning.shown(slate.history, slate.numbers, None)
            found["shown"] = 1e3 * (time.thread_time() - start) / len(slates)
            store.write(records, outcomes[:WARM_UP])
            live.learn(store)  # compiled loops are loaded once
            store.write([], outcomes[WARM_UP:])
            start = time.thread_time()
            live.learn(store)
            found["learning"] = 1e3 * (time.thread_time() - start) / REQUESTS
            row = next(record.serving for record in records if record.serving is not None)
            found["bytes"] = len(row.shown or "")
        store.close()
    added = found["shown"] + found["learning"]
    return found | {"share": added / (found["request"] + HTTP)}


def main() -> None:
    """Run all worlds, and measure the cost."""
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=3)
    options = parse(arguments, globals())
    rows = [row for name in WORLDS for row in world_rows(name, options.seeds)]
    targets = []
    for row in rows:
        row["interval"] = f"{row['new_gain_low']:+.4f} … {row['new_gain_high']:+.4f}"
        if row["arm"].startswith("learning"):
            what = f"{row['world']}, {row['arm']}: click rate on new items over nights only"
            targets.append(Target(what, row["new_gain_low"], 0.0, at_least=True))
    columns = {
        **{"world": "{}", "arm": "{}", "slates": "{:,.0f}", "rate": "{:.4f}", "gain": "{:+.4f}"},
        **{"new": "{:.4f}", "new_gain": "{:+.4f}", "interval": "{}", "regret": "{:.4f}"},
        "minutes": "{:.1f}",
    }
    with tempfile.TemporaryDirectory() as folder:
        shop.made_up_run(ITEMS, Path(folder) / "run")
        cost = [cost_row(name, Path(folder)) for name in ("greedy", "in-slate-thompson")]
    show(
        "CPU ms of a request and of learning from its answer, one worker",
        {"items": "{:,}", "strategy": "{}", "request": "{:.2f}", "shown": "{:.3f}"}
        | {"learning": "{:.3f}", "bytes": "{:,}", "share": "{:.1%}"},
        cost,
    )
    targets += [
        Target(f"share of a request's CPU, {row['strategy']}", row["share"], 0.1) for row in cost
    ]
    title = "The first day of new items: click rates of all slates, and of new items alone"
    report(options, title, columns, rows, targets, cost=cost)


if __name__ == "__main__":
    main()
