"""What learning between nights brings on the first day of new items, and what it costs.

A simulated platform serves for days and trains at night, in the worlds `news` (items live for 36
hours) and `market` (for four days). At every moment, all arms are judged on the same users by exact
click probabilities: of the slates they would show, and of slates made only of items that appeared
since the night, beside the best such slates (regret). Arms:

  popularity  the click rate of late, without a model
  nights      the model as the night left it; new items have their prior, popularity counts on
  learning    the same model, moved by every answer to a recommendation (`Recommender.observe`)

Users are dealt out to the arms, and all learn from what all show. Intervals are over worlds (seeds)
and users; `over counting` is the difference to popularity. The cost is the CPU of learning from one
answer, of the service with its store, beside that of a request with its HTTP (as `serve.py`
measured it), `off` and `on`: `shown` sums up a slate for its record, `learning` reads an answer
from the store and moves its items, with what is kept beside the run. What is kept is also measured
where all items have moved.
"""

import json
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import shop
from harness import Row, Target, circumstances, kept, parse, parser, report, show
from rivals import Popularity, logged_day
from slatewise.experiments.daily_log import DaySlates
from slatewise.experiments.days import retrain
from slatewise.experiments.model_policy import ServedModel
from slatewise.experiments.online import OnlineConfig
from slatewise.experiments.platform import Moment, Platform
from slatewise.experiments.pooling import PooledEstimate, over_worlds
from slatewise.model.fitted import SlateModel
from slatewise.service.http.startup import begin_with
from slatewise.service.serving import Request, Service
from slatewise.service.serving.learned import LearnedItems, pieces
from slatewise.service.settings import ServiceConfig
from slatewise.service.store import Store
from slatewise.service.store.records import Outcome
from slatewise.slates.learning import MovedItems
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
ITEMS, REQUESTS, PARTS = 100_000, 300, 5
SERVED = Path(__file__).parent / "results" / "serve.json"
VARIANT = "slate-linear-hier"
MINIATURE = {
    "WORLDS": {
        "news": {
            "users": 40,
            "window": 2,
            "slates_a_day": 3.0,
            "simulation": {"catalogue": {"items": 400, "groups": 4}},
            "model": {"terms": ["bias"], "dimensions": 3},
            "training": {"max_epochs": 1},
        }
    },
    **{"DAYS": 1, "RESAMPLES": 50, "seeds": 1, "ITEMS": 300, "REQUESTS": 20, "PARTS": 1},
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


def world_run(name: str, seed: int) -> Row:
    """Return slates and probabilities by user, [U, 4] of each arm, in one world."""
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        arms = judged_days(name, seed, Path(folder))
    sums = {arm: _by_user(rows).round(7).tolist() for arm, rows in arms.items()}
    commit = circumstances()["commit"]
    return {"sums": sums, "minutes": (time.process_time() - started) / 60, "commit": commit}


MEASURES: dict[str, tuple[str | None, int, int | None]] = {
    "rate": (None, 1, None),
    "new": (None, 2, None),
    "regret": (None, 3, 2),
    "gain": ("nights", 1, None),
    "new_gain": ("nights", 2, None),
    "over_counting": ("popularity", 1, None),
    "new_over_counting": ("popularity", 2, None),
}
"""Of each: the arm that it is the difference to, the column, and one that is taken off."""


def world_rows(name: str, seeds: int, keep: Path | None) -> Iterator[Row]:
    """Yield a row for each arm of a world."""
    runs = [kept(keep, f"{name} {seed}", partial(world_run, name, seed)) for seed in range(seeds)]
    minutes = sum(run["minutes"] for run in runs)
    for arm in runs[0]["sums"]:
        row: Row = {"world": name, "arm": arm, "minutes": minutes, "seeds": seeds}
        row["commits"] = sorted({run["commit"] for run in runs})
        worlds = {
            other: [np.array(run["sums"][other]) for run in runs] for other in runs[0]["sums"]
        }
        for key, (base, column, off) in MEASURES.items():
            found = _pooled(worlds[arm], None if base is None else worlds[base], column, off)
            row |= {key: found.value, f"{key}_low": found.low, f"{key}_high": found.high}
            row[f"{key}_by_seed"] = [round(value, 6) for value in found.by_seed]
        yield row | {"slates": sum(float(one[:, 0].sum()) for one in worlds[arm])}


def _by_user(rows: list[Any]) -> Doubles:
    """Add up slates and probabilities by user: [U, 4]."""
    count = 1 + max((int(who.max(initial=0)) for who, *_ in rows), default=0)
    sums = np.zeros((count, 4))
    for who, *chances in rows:
        np.add.at(sums, who, np.stack([np.ones(len(who)), *chances], axis=1))
    return sums


def _pooled(
    worlds: list[Doubles], base: list[Doubles] | None, column: int, off: int | None
) -> PooledEstimate:
    """Return a click rate, or by how much it is higher than that of another arm, over worlds."""
    values, resampled = [], []
    for number, sums in enumerate(worlds):
        weights = np.random.default_rng(number).poisson(1.0, (RESAMPLES, len(sums)))
        difference = sums[:, column] - (0.0 if off is None else sums[:, off])
        if base is not None:
            difference = difference - base[number][:, column]
        values.append(float(difference.sum() / sums[:, 0].sum()))
        resampled.append(weights @ difference / np.maximum(weights @ sums[:, 0], 1))
    return over_worlds(values, resampled)


def cost_row(strategy: str, folder: Path) -> Row:
    """Return the CPU of a request and of learning from its answer, in milliseconds.

    Each is the least of some parts: neighbours in the same caches make all of it slower.
    """
    found: Row = {"items": ITEMS, "strategy": strategy, "http": http_ms(strategy)}
    for on in (False, True):
        directory = folder / f"{strategy}-{on}"
        directory.mkdir()
        given = {"arms": {"one": {"strategy": strategy}}, "learning": {"between_nights": on}}
        config = ServiceConfig.build(given, "the settings")
        store = Store.open(config.store_url(directory))
        begin_with(folder / "run", directory, config, store)
        service = Service.open(directory, config, store)
        parts = [_part(service, number) for number in range(PARTS + 1)][1:]  # all is loaded once
        least = {name: min(part[name] for part in parts) for name in parts[0]}
        found = least | found  # a request is taken as it is without learning
        if on:
            found |= _kept(service)
        store.close()
    added = found["shown"] + found["learning"]
    found["off"] = found["request"] + found["http"]
    return found | {"on": found["off"] + added, "share": added / found["off"]}


def _kept(service: Service) -> Row:
    """Return what it takes to keep all items, once all have moved, and then what has changed.

    Milliseconds, MB of files, and MB by which the memory of a worker has grown.
    """
    live = service._live["main"]
    learning, before = live.learning, _anonymous_mb()
    assert learning is not None

    def moved(rows: Ints) -> float:
        """Let items move, and return the ms that it takes to keep them."""
        learning._next = learning.number + 1
        learning.take(MovedItems(rows, *learning._learner.beliefs(rows)))
        start = time.thread_time()
        learning.keep(live.catalogue)
        return 1e3 * (time.thread_time() - start)

    found = {"keep_all": moved(np.arange(ITEMS)), "memory_mb": _anonymous_mb() - before}
    number = learning.number
    found["keep"] = moved(np.arange(0, ITEMS, 100))
    start = time.thread_time()
    changed = LearnedItems.read(learning._run, after=number)
    found["read"] = 1e3 * (time.thread_time() - start)
    assert changed is not None
    size = sum(piece.path(learning._run).stat().st_size for piece in pieces(learning._run))
    return found | {"moved": len(changed.rows), "files_mb": size / 1e6}


def _anonymous_mb() -> float:
    """Return the memory of this process that no file backs."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1e3


def http_ms(strategy: str) -> float:
    """Return the CPU of HTTP and JSON of a request, as `serve.py` measured it."""
    measured = json.loads(SERVED.read_text("utf-8"))["rows"]
    return float(next(row["http"] for row in measured if row["arm"] == strategy))


def _part(service: Service, part: int) -> Row:
    """Make slates, let users answer, and learn from the answers; return ms of each."""
    live, records, slates, spent = service._live["main"], [], [], 0.0
    for number in range(REQUESTS):
        clicks = (str((part * REQUESTS + number) % ITEMS),)
        request = Request(f"user-{number % 50}", clicks=clicks, k=20)
        start = time.thread_time()
        record, slate, _ = service.recommend(request)
        spent += time.thread_time() - start
        records.append(record)
        slates.append(slate)
    found: Row = {"request": 1e3 * spent / REQUESTS}
    if live.learning is None:
        return found
    start = time.thread_time()  # not the difference of two runs, which is mostly chance
    for slate in slates:
        live.learning.shown(slate, None)
    found["shown"] = 1e3 * (time.thread_time() - start) / REQUESTS
    outcomes = [
        Outcome(record.slate_id, None, record.items[:1] if number % 5 == 0 else (), record.time)
        for number, record in enumerate(records)
    ]
    service.store.write(records, outcomes)
    start = time.thread_time()
    live.learn(service.store)
    found["learning"] = 1e3 * (time.thread_time() - start) / REQUESTS
    serving = next(record.serving for record in records if record.serving is not None)
    return found | {"bytes": len(serving.shown or "")}


def main() -> None:
    """Run all worlds, and measure the cost."""
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=3)
    options = parse(arguments, globals())
    rows = [row for name in WORLDS for row in world_rows(name, options.seeds, options.keep)]
    targets = []
    for row in rows:
        row["interval"] = f"{row['new_gain_low']:+.4f} … {row['new_gain_high']:+.4f}"
        if row["arm"].startswith("learning"):
            what = f"{row['world']}, {row['arm']}: click rate on new items over nights only"
            targets.append(Target(what, row["new_gain_low"], 0.0, at_least=True))
    columns = {
        **{"world": "{}", "arm": "{}", "slates": "{:,.0f}", "rate": "{:.4f}", "gain": "{:+.4f}"},
        **{"over_counting": "{:+.4f}", "new": "{:.4f}", "new_gain": "{:+.4f}"},
        **{"interval": "{}", "regret": "{:.4f}"},
        "minutes": "{:.1f}",
    }
    with tempfile.TemporaryDirectory() as folder:
        shop.made_up_run(ITEMS, Path(folder) / "run")
        commit = {"commit": circumstances()["commit"]}
        cost = [cost_row(name, Path(folder)) | commit for name in ("greedy", "in-slate-thompson")]
    show(
        "CPU ms of a request and of learning from its answer, one worker",
        {"items": "{:,}", "strategy": "{}", "off": "{:.3f}", "shown": "{:.3f}"}
        | {"learning": "{:.3f}", "on": "{:.3f}", "bytes": "{:,}", "share": "{:.1%}"},
        cost,
    )
    show(
        "ms to keep all items once all have moved, and then what has changed; MB of it",
        {"items": "{:,}", "keep_all": "{:.1f}", "memory_mb": "{:.1f}", "moved": "{:,}"}
        | {"keep": "{:.1f}", "read": "{:.1f}", "files_mb": "{:.1f}"},
        cost[:1],
    )
    targets += [
        Target(f"share of a request's CPU, {row['strategy']}", row["share"], 0.1) for row in cost
    ]
    title = "The first day of new items: click rates of all slates, and of new items alone"
    report(options, title, columns, rows, targets, cost=cost)


if __name__ == "__main__":
    main()
