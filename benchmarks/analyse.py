"""What it costs to know how the arms do, to remember people and to forget them; and two errors.

In a SQLite store with slates of 20 items, 25 to a user, of which 20 are answered:

- CPU seconds of the first overview (`GET /v1/experiment`) of a process, which reads the log, and of
  the next one. The floor is SQLite going through the same columns without handing out a row.
- Bytes that are kept of a user with 20 visits for whom a slate was made, as Python's allocators
  count them: her past, and what was worked out from it for a model, which is more for one with the
  term `history`. The floor is the numbers of 400 items, of four bytes.
- Seconds of erasing a person. The floor is writing as many bytes as the store has.

And two errors, in simulations whose truth is known:

- Of experiments whose arms are alike, how many show a difference to somebody who looks every day
  for 60 days: by the interval that holds at any time, and by the usual one. 10 users a day come new
  to each arm, with click rates of their own around 20 %, and come back every fourth day. Beside
  them, experiments whose arms differ, and how many are seen to.
- By how much the per-position estimate flatters greedy, by the log of an ε-mix (ε = 1/2) of a
  service with slates of three, whose users take one item at most. Its floor is the truth.
"""

import json
import math
import random
import sqlite3
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from harness import Row, Target, parse, parser, report, seconds, show, write_seconds
from slatewise.evaluation.arms import ArmTotals
from slatewise.evaluation.sequential import LEAST_USERS, anytime_difference
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.posterior import Posterior
from slatewise.model.terms import FittedTerms
from slatewise.model.terms.history import HistoryTerm
from slatewise.service.analysis import estimate, overview
from slatewise.service.http.startup import begin_with
from slatewise.service.serving import Request, Service
from slatewise.service.serving.replayer import Replayer
from slatewise.service.settings import ArmConfig, ServiceConfig
from slatewise.service.store import Store
from slatewise.service.store.clock import DAY
from slatewise.service.store.records import ItemState, Outcome, Serving, SlateRecord
from slatewise.service.store.rows import StoredSlate, outcome_row, slate_row
from slatewise.service.store.schema import OUTCOMES, SLATES
from slatewise.slates import Recommender
from slatewise.training import runs

ITEMS, SLATE, VISITS, PAGE = 10_000, 20, 20, 50_000
START = 20_000 * DAY
ARMS = {"greedy": ArmConfig(strategy="greedy"), "explore": ArmConfig()}
DAYS, A_DAY, RATE, WORTH = 60, 10, 0.2, 0.04
OFFERED, K, GROUPS = 60, 3, 50
EXPERIMENTS, ASKED, KEPT = 2_000, 3_000, 500
MINIATURE = {"slates": 2_000, "ITEMS": 500, "EXPERIMENTS": 10, "ASKED": 60, "KEPT": 20}
COSTS = {"what": "{}", "of": "{}", "value": "{:,.3f}", "unit": "{}", "floor": "{:,.3f}"}
COSTS |= {"ratio": "{:,.2f}"}
CACHED: dict[str, tuple[str, ...]] = {
    "a cached user": (),
    "the same, with history": ("bias", "history"),
}
SHARES = {"rates": "{}", "experiments": "{:,}", "at_any_time": "{:.1%}", "usually": "{:.1%}"}
MIX, GREEDY = ArmConfig(strategy="epsilon-mix", epsilon=0.5), ArmConfig(strategy="greedy")


def main() -> None:
    """Measure all of it."""
    arguments = parser(__doc__)
    arguments.add_argument("--slates", type=int, default=1_000_000, help="in the store")
    options = parse(arguments, globals())
    slates = options.slates
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        fill(folder / "store.sqlite", slates)
        first, then = _overviews(folder, slates)
        rows = [first, *_cached(folder), *_erasure(folder)]
        rows.append(_per_position(folder / "service", ASKED))
    looks = list(_peeking(EXPERIMENTS))
    print(f"The next overview takes {then:.2f} CPU s.")
    show("Experiments that show a difference on any of 60 days", SHARES, looks)
    allowed = 0.05 + 3 * math.sqrt(0.05 * 0.95 / EXPERIMENTS)
    each = 1e6 * (first["value"] - then) / slates
    report(
        options,
        "Overviews, people, and an estimate",
        COSTS,
        rows,
        [
            Target("CPU µs by which a slate makes the first overview longer", each, 5),
            Target("share of alike arms that seem to differ", looks[0]["at_any_time"], allowed),
        ],
        next_overview=then,
        looks=looks,
    )


def _row(what: str, of: str, value: float, unit: str, floor: float) -> Row:
    row = {"what": what, "of": of, "value": value, "unit": unit}
    return row | {"floor": floor, "ratio": value / floor}


def fill(file: Path, slates: int, days: int = 28, first: int = 0) -> None:
    """Write a log of some days straight into the tables: through the store it would take minutes.

    Only slates from number `first` on: what a store would have that never had the others.
    """
    store = Store.open(f"sqlite:///{file}")
    store.put_items([(f"item-{n}", f"group-{n % 50}", ItemState.SHOWN) for n in range(ITEMS)])
    store.close()
    draw, made, people = random.Random(0), list(_templates()), slates // (VISITS * 5 // 4)
    with sqlite3.connect(file) as connection:
        for start in range(first, slates, PAGE):
            shown, told = [], []
            for n in range(start, min(start + PAGE, slates)):
                user = n % people
                slate = made[2 * (n % 500) + user % 2] | {"seq": 2 * n + 1, "slate_id": f"{n:032x}"}
                slate |= {"user_id": f"user-{user:08d}", "time": START + n * (days * DAY // slates)}
                shown.append(slate)
                if n // people % 5:
                    told.append(_answer(slate, draw.random() < 0.2))
            _insert(connection, "slates", shown)
            _insert(connection, "outcomes", told)
        connection.execute("UPDATE counters SET value = ? WHERE name = 'log'", [2 * slates])
    connection.close()


def _insert(connection: sqlite3.Connection, table: str, rows: list[Row]) -> None:
    for row in rows[:1]:
        values = ", ".join(f":{name}" for name in row)
        names = values.replace(":", "")
        connection.executemany(f"INSERT INTO {table} ({names}) VALUES ({values})", rows)


def _templates() -> Iterator[dict[str, object]]:
    """Return rows of slates, of both arms in turn."""
    draw = random.Random(1)
    for n in range(1_000):
        items = tuple(f"item-{item}" for item in draw.sample(range(ITEMS), SLATE))
        arm = list(ARMS)[n % 2]
        asked = {"exclude": [], "k": SLATE, "history": 200}
        serving = Serving(arm, "main", "1", "in-slate-thompson draws=12", n, SLATE, asked, 5, 7)
        row = slate_row(SlateRecord("-", "-", 0, "recommendation", items, serving), 0)
        yield dict(zip(SLATES.c.keys(), row, strict=True))


def _answer(slate: dict[str, object], clicked: bool) -> dict[str, object]:
    about = StoredSlate(int(str(slate["seq"])), str(slate["user_id"]), int(str(slate["time"])), ())
    clicks = tuple(json.loads(str(slate["item_ids"]))[:1]) if clicked else ()
    outcome = Outcome(str(slate["slate_id"]), 10, clicks, about.time)
    row = outcome_row(outcome, outcome.key, about.time, about, about.seq + 1)
    return dict(zip(OUTCOMES.c.keys(), row, strict=True))


def _overviews(folder: Path, slates: int) -> tuple[Row, float]:
    """Return the first overview of a process, and the CPU seconds of the next."""
    config = ServiceConfig(arms=ARMS)
    store = Store.open(config.store_url(folder))
    first, then = (cpu_seconds(lambda: overview(store, config)) for _ in range(2))
    store.close()
    floor = _scan(folder / "store.sqlite")
    return _row("first overview", f"{slates:,} slates", first, "CPU s", floor), then


def _scan(file: Path) -> float:
    """Return the CPU seconds in which SQLite goes through the columns that an overview needs."""
    connection = sqlite3.connect(file)
    slates = "SELECT max(seq), max(user_id), max(time), max(substr(serving, 9, 80)) FROM slates"
    outcomes = "SELECT max(seq), max(slate), max(clicked) FROM outcomes"
    both = (slates, outcomes)
    taken = cpu_seconds(lambda: [connection.execute(query).fetchall() for query in both])
    connection.close()
    return taken


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return what the process computes meanwhile."""
    start = time.process_time()
    work()
    return time.process_time() - start


def _cached(folder: Path) -> Iterator[Row]:
    """Measure users for whom a slate was made; a model with history asks more of them."""
    floor, of = VISITS * SLATE * 4 / 1e3, f"{VISITS} slates of {SLATE}"
    for what, terms in CACHED.items():
        yield _row(what, of, _kept(folder, terms) / 1e3, "kB", floor)


def _kept(folder: Path, terms: tuple[str, ...]) -> float:
    """Return the bytes that are kept of a user."""
    directory, url = folder / f"service-{len(terms)}", f"sqlite:///{folder / 'store.sqlite'}"
    config = ServiceConfig.build({"history": VISITS, "store": {"url": url}}, "the benchmark")
    service = a_service(directory, config, a_model(ITEMS, 25, terms))
    for n in range(1_000, 1_050):  # others, so that what is shared is there
        service.recommend(Request(f"user-{n:08d}"))
    tracemalloc.start()
    for n in range(KEPT):
        service.recommend(Request(f"user-{n:08d}"))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    service.store.close()
    return kept / KEPT


def a_service(directory: Path, config: ServiceConfig, model: SlateModel) -> Service:
    """Open a service that serves a model."""
    directory.mkdir()
    runs.save(model, directory / "run")
    store = Store.open(config.store_url(directory))
    begin_with(directory / "run", directory, config, store)
    return Service.open(directory, config, store)


def a_model(items: int, dimensions: int, terms: tuple[str, ...] = ()) -> SlateModel:
    """Return a model whose posterior is drawn, not trained."""
    seeded, groups = torch.Generator().manual_seed(7), torch.arange(items) % GROUPS
    config, sources = ModelConfig(dimensions=dimensions, terms=terms), ["recommendation"]
    posterior = Posterior(config, groups, range(GROUPS), 25, seeded, sources)
    with torch.no_grad():
        for part in (posterior.items, *posterior.shared.values()):
            part.mean.add_(0.5 * torch.randn(part.mean.shape, generator=seeded))
    fitted = {"history": HistoryTerm(sizes=(0.7, 0.9, 1.0))} if "history" in terms else {}
    names = [f"item-{n}" for n in range(items)]
    groups_of = [f"group-{n}" for n in range(GROUPS)]
    shown = torch.zeros(items)
    return SlateModel(posterior, names, groups_of, sources, shown, terms=FittedTerms(fitted))


def _erasure(folder: Path) -> Iterator[Row]:
    store = Store.open(f"sqlite:///{folder / 'store.sqlite'}")
    size = (folder / "store.sqlite").stat().st_size
    began = time.process_time()
    taken = seconds(lambda: store.erase("user-00000007", START + 365 * DAY))
    computed = time.process_time() - began
    store.close()
    began = time.process_time()
    written = write_seconds(folder, size)
    what, of = "erasing a person", f"{size / 1e6:,.0f} MB"
    yield _row(what, of, taken, "s", written)
    yield _row(what, of, computed, "CPU s", time.process_time() - began)


def _arm(rate: float, rng: np.random.Generator) -> Iterator[ArmTotals]:
    """Return what an arm has seen at the end of each day: users differ, and come back."""
    users = DAYS * A_DAY
    own, arrival = rng.beta(6 * rate, 6 * (1 - rate), users), np.arange(users) // A_DAY
    visits = (rng.random((DAYS, users)) < 0.25) & (arrival <= np.arange(DAYS)[:, None])
    visits[arrival, np.arange(users)] = True
    clicks = visits & (rng.random((DAYS, users)) < own)
    shown, clicked = visits.cumsum(axis=0), clicks.cumsum(axis=0)  # [days, U]
    for day in range(DAYS):
        here = slice((day + 1) * A_DAY)
        yield ArmTotals(clicked[day, here], shown[day, here])


def _peeking(experiments: int) -> Iterator[Row]:
    """Count the experiments that show a difference on any day: both ways, for some differences."""
    for rate, some in ((RATE, experiments), (0.24, experiments // 5), (0.28, experiments // 5)):
        anytime, usual = np.mean([_seen(rate, number) for number in range(some)], axis=0)
        rates = f"{rate:.0%} against {RATE:.0%}"
        yield {"rates": rates, "experiments": some, "at_any_time": anytime, "usually": usual}


def _seen(rate: float, seed: int) -> tuple[bool, bool]:
    anytime, usual = False, False
    both = (_arm(one, np.random.default_rng([seed, n])) for n, one in enumerate((rate, RATE)))
    for arm, reference in zip(*both, strict=True):
        if len(arm.clicks) >= LEAST_USERS:
            found = anytime_difference(arm, reference, WORTH)
            anytime |= found.excludes(0)
            usual |= abs(found.value) > 1.96 * math.sqrt(arm.variance + reference.variance)
    return anytime, usual


class Crowd:
    """Users who take one item of a slate, or nothing, which is worth 2 to all of them."""

    def __init__(self, model: SlateModel) -> None:
        best = Recommender(model).recommend([], OFFERED, strategy="greedy").items
        # They like what the model ranks high for a stranger; half as much every five ranks.
        self._liked = {str(item): 0.5 ** (rank / 5) for rank, item in enumerate(best)}
        self._rng = np.random.default_rng(0)

    def p_click(self, items: Sequence[object]) -> float:
        """Return how likely a click is."""
        total = sum(self._liked[str(item)] for item in items)
        return total / (total + 2)

    def answer(self, slate: SlateRecord) -> Outcome:
        """Look at a slate."""
        weights = np.array([*(self._liked[item] for item in slate.items), 2.0])
        chosen = int(self._rng.choice(len(weights), p=weights / weights.sum()))
        return Outcome(slate.slate_id, None, slate.items[chosen : chosen + 1], slate.time)


def _per_position(directory: Path, asked: int) -> Row:
    """Let users answer an ε-mix, and judge greedy by that; the truth is exact."""
    config, model = ServiceConfig(arms={"only": MIX}), a_model(OFFERED, 4)
    service, crowd = a_service(directory, config, model), Crowd(model)
    store = service.store
    slates = [service.recommend(Request(f"u{n}", k=K, seed=n))[0] for n in range(asked)]
    store.write(slates, [crowd.answer(slate) for slate in slates])
    replayer = Replayer(directory, config, store)
    visits = [visit for batch in store.export(0, 2**62) for visit in batch]
    found = estimate(replayer, visits, GREEDY, draws=50).estimates[-1]
    wanted = [replayer.slate(visit.slate, "greedy").items for visit in visits]
    truth = float(np.mean([crowd.p_click(items) for items in wanted]))
    store.close()
    of = f"{asked:,} slates of {K}"
    return _row("greedy, per position", of, found.rate.value, "click rate", truth)


if __name__ == "__main__":
    main()
