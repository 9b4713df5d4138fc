"""What the term `item_network` adds where all items are ranked, and what it costs there.

It reads what is the same for every user at a time: popularity, group and columns of an item. The
bare minimum is the same model without it. Both are judged by recall@20 of about 1,000 test clicks,
by the first stage alone (`one`) and by both stages (`both`), and in simulated worlds by the exact
click rate of greedy slates of what is alive right after the log (`clicks_…`).

What a ranking costs is measured with tables of items like those of the first log: the features
that popularity has, with and without the columns of the network.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch

from harness import Row, Target, kept, parse, parser, report
from slatewise import ModelConfig, ModelRecommender, SlateDataset, TrainingConfig
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.evaluation import settle_candidates
from slatewise.evaluation.evaluate import batches, scored_users
from slatewise.evaluation.parts import scored_interactions
from slatewise.model.fitted import SlateModel
from slatewise.ranking import Additions, ItemTable, rank_draws, rank_means
from slatewise.simulation import Marketplace, load_config, write_log
from slatewise.simulation.log import simulate_chunk
from slatewise.training import fit, sizes

TERM = "item_network"
WORLDS: dict[str, dict[str, Any]] = {
    "news": {"preset": "news", "users": 1_200},
    "market": {"preset": "market", "scale": 0.25},
    "demo": {"preset": "demo", "users": 1_500},
}
KUAIRAND = 4
"""Every how many users of the short videos are taken."""
SCORED, JUDGED = 1_000, 500
"""Clicks and users that models are judged by."""
ITEMS, DRAWS, TIMES = (100_000, 1_000_000), 32, 12
"""Items that are ranked, posterior draws of a request, and how often it is timed."""
LOSS, COST = 0.01, 1.2
"""Recall that may be lost, and how many times as much a ranking may cost."""
TRAINING: dict[str, Any] = {}
MINIATURE = {
    "WORLDS": {"news": {"preset": "news", "users": 30}},
    **{"SCORED": 5, "JUDGED": 5, "ITEMS": (1_000,), "TIMES": 1, "TRAINING": {"max_epochs": 1}},
    **{"seeds": 1, "cost": True},
}
STAGES = ("one", "both")
"""By what a click is found: the first stage, or both."""
MEASURES = (*STAGES, *(f"clicks_{stages}" for stages in STAGES))


def recommender(model: SlateModel, dataset: SlateDataset, stages: str) -> ModelRecommender:
    """Return the model in one stage, or in both."""
    terms = model.terms.by_name
    if stages == "one":
        terms = {n: t.with_candidates(0, {}) if t.candidates else t for n, t in terms.items()}
    model = replace(model, terms=replace(model.terms, by_name=terms))
    found = ModelRecommender(model, log=dataset).for_slates_of(min(20, dataset.num_items))
    assert isinstance(found, ModelRecommender)
    return found


def recall(found: ModelRecommender, dataset: SlateDataset) -> float:
    """Return recall@20 of test clicks."""
    users = np.random.default_rng(3).permutation(scored_users(dataset, "test"))
    hits = np.empty(0, bool)
    for _, batch in batches(dataset, users, "test", 64):
        ranks = found.target_ranks(batch, scored_interactions(batch, "test")).numpy()
        hits = np.concatenate([hits, ranks <= 20])
        if len(hits) >= SCORED:
            break
    return float(hits.mean())


class World(NamedTuple):
    """A log, and where it is simulated what would be clicked right after it."""

    dataset: SlateDataset
    click_rate: Callable[[ModelRecommender], float] | None


def simulated(name: str, seed: int, folder: Path) -> World:
    """Simulate a world, and keep its users as they are after the log."""
    settings = dict(WORLDS[name])
    config = load_config(settings.pop("preset"), seed=seed, **settings)
    write_log(config, folder / "log")
    division = SplitConfig(method="time", valid_share=0.1, test_share=0.15)
    dataset = prepare(folder / "log", folder / "log", folder / "set", division=division)
    market, ends = Marketplace(config), []
    begin = market.new_users
    market.new_users = lambda *given: ends.append(begin(*given)) or ends[-1]  # type: ignore[method-assign]
    simulate_chunk(market, 0)
    hours = 24.0 * config.days
    ids = dataset.item_ids.cast(pl.Int64).to_numpy()
    row_of = {str(key): row for row, key in enumerate(dataset.user_ids.to_list())}
    who = np.array([user for user in range(JUDGED) if str(user) in row_of])
    rows = torch.tensor([row_of[str(user)] for user in who])
    alive = np.ones(len(ids), bool)
    if market.life is not None:
        alive = market.life.alive(ids[None], np.array([hours]))[0]

    def click_rate(recommender: ModelRecommender) -> float:
        log = dataset.interactions().of_users(rows)
        now = torch.full((len(rows),), max(int(dataset.times.max()) + 1, 0))
        excluded = torch.from_numpy(~alive)
        best = recommender.rank(log, config.max_slate, exclude=excluded, times=now)
        moment = hours if market.life is not None else None
        chances = market.click_probability(ends[0], ids[best.numpy()], who, moment)
        return float(chances.mean())

    return World(dataset, click_rate)


def videos(folder: Path, source: Path) -> World:
    """Prepare some users of the development log of short videos."""
    log = pl.read_parquet(source / "log.parquet")
    users = log["user_id"].unique().sort().gather_every(KUAIRAND)
    log.filter(pl.col("user_id").is_in(users.implode())).write_parquet(folder / "log.parquet")
    division = SplitConfig(method="time", valid_share=0.1, test_share=0.15)
    made = prepare(
        folder / "log.parquet", source / "items.parquet", folder / "set", division=division
    )
    return World(made, None)


def fitted(world: World, seed: int, *, with_it: bool) -> SlateModel:
    """Fit a model with the terms that the log gets unasked, but for the one that is judged."""
    model, _ = sizes.with_terms(ModelConfig(), world.dataset)
    others = tuple(name for name in model.terms if name != TERM)
    model = model.changed(terms=(*others, TERM) if with_it else others)
    training = sizes.with_optimisation(TrainingConfig(**TRAINING), model, world.dataset)
    found = fit(world.dataset, model, training, seed=seed)
    settle_candidates(found, world.dataset)
    return found


def judged(name: str, seed: int, world: World) -> list[Row]:
    """Fit a model with the term and one without, and judge both."""
    rows: list[Row] = []
    for with_it in (False, True):
        start = time.process_time()
        model = fitted(world, seed, with_it=with_it)
        row: Row = {"log": name, "seed": seed, "network": "with" if with_it else "none"}
        row["cpu_s"] = time.process_time() - start
        for stages in STAGES:
            found = recommender(model, world.dataset, stages)
            row[stages] = round(recall(found, world.dataset), 4)
            if world.click_rate is not None:
                row[f"clicks_{stages}"] = round(world.click_rate(found), 4)
        rows.append(row)
    return rows


def costs(world: World) -> list[Row]:
    """Time rankings of items like those of a log, and a refresh of what the network says."""
    dataset = world.dataset
    model, last = fitted(world, 1, with_it=True), int(dataset.times.max())
    posterior, rng = model.posterior, np.random.default_rng(0)
    terms = {n: t for n, t in model.terms.by_name.items() if t.ranks == "all items"}
    ranking = posterior.ranking
    assert ranking is not None
    weights = posterior.by_term(posterior.parts.ranking_names, ranking.mean)
    noise = rng.standard_normal((DRAWS, len(ranking.mean))) @ ranking.root.numpy().T
    drawn = posterior.by_term(posterior.parts.ranking_names, torch.from_numpy(noise).float().T)
    states = {n: term.state_after(dataset).features(last + 1) for n, term in terms.items()}
    rows: list[Row] = []
    for count in ITEMS:
        like = rng.integers(dataset.num_items, size=count)  # items like these, and not the same
        means = model.item_vectors[like] + 0.1 * rng.standard_normal((count, 1))
        groups = dataset.item_groups[like]
        table = ItemTable.create(means, model.item_scales[like], np.zeros(count), groups)
        known = {n: own[like] + 0.01 * rng.random((count, 1)) for n, own in states.items()}
        start = time.process_time()
        now = np.full(count, last + 1)
        network = terms[TERM].of_rows(known[TERM].astype(np.float32), like, now)
        refresh = time.process_time() - start
        profiles = means[:1] + 0.1 * rng.standard_normal((DRAWS, means.shape[1]))
        for names in ([n for n in terms if n != TERM], [*terms]):
            columns = [network if n == TERM else known[n] for n in names]
            table.set_features(np.concatenate(columns, axis=1))
            mean = np.concatenate([weights[n].numpy() for n in names])
            spread = np.concatenate([drawn[n].T.numpy() for n in names], axis=1)
            greedy = partial(rank_means, table, means[0], 20, additions=Additions(mean))
            in_draws = partial(
                *(rank_draws, table, profiles, 20, 1), additions=Additions(mean + spread)
            )
            row: Row = {"log": f"{count:,} items", "seed": 1}
            row["network"] = "with" if TERM in names else "none"
            row |= {"greedy_ms": timed(greedy), "draws_ms": timed(in_draws)}
            rows.append(row | ({"refresh_s": round(refresh, 3)} if TERM in names else {}))
    return rows


def timed(work: Callable[[], object]) -> float:
    """Return the least CPU time of some calls, in milliseconds."""
    work()
    found = []
    for _ in range(TIMES):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return round(1e3 * min(found), 3)


def main() -> None:
    """Judge all logs, or measure what rankings cost."""
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--log", action="append", help="only this one")
    arguments.add_argument("--kuairand", type=Path, help="folder with the log of short videos")
    arguments.add_argument("--cost", action="store_true", help="measure the cost of rankings too")
    options = parse(arguments, globals())
    units: list[Row] = []
    logs = options.log or [*WORLDS, *(["videos"] if options.kuairand else [])]
    for name in logs:
        for seed in range(1, 1 + options.seeds):
            work = partial(_rows, name, seed, options.kuairand)
            units.append(kept(options.keep, f"{name} {seed}", work))
    if options.cost:
        units.append(kept(options.keep, "cost", _cost_rows))
    measures = (*MEASURES, "cpu_s", "greedy_ms", "draws_ms", "refresh_s")
    columns = dict.fromkeys(("log", "seed", "network", *measures), "{}")
    minutes = sum(unit["cpu_s"] for unit in units) / 60
    rows = [dict.fromkeys(measures, "") | row for unit in units for row in unit["rows"]]
    title = "Recall@20, greedy click rate and cost with a network that ranks all items"
    report(options, title, columns, rows, _targets(rows), cpu_minutes=round(minutes, 1))


def _rows(name: str, seed: int, kuairand: Path) -> Row:
    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        if name == "videos":
            world = videos(Path(folder), kuairand)
        else:
            world = simulated(name, seed, Path(folder))
        rows = judged(name, seed, world)
    return {"rows": rows, "cpu_s": time.process_time() - start}


def _cost_rows() -> Row:
    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        rows = costs(simulated(next(iter(WORLDS)), 1, Path(folder)))
    return {"rows": rows, "cpu_s": time.process_time() - start}


def _targets(rows: list[Row]) -> list[Target]:
    found = {(row["log"], row["seed"], row["network"]): row for row in rows}
    targets = []
    for (log, seed, network), row in found.items():
        before = found[log, seed, "none"]
        if network == "none":
            continue
        for stages in STAGES if row["one"] != "" else ():
            gain = row[stages] - before[stages]
            what = f"recall gained, stages {stages}, {log} {seed}"
            targets.append(Target(what, gain, -LOSS, at_least=True))
        for kind in ("greedy_ms", "draws_ms") if row["greedy_ms"] != "" else ():
            times = row[kind] / before[kind]
            targets.append(Target(f"times as much, {kind[:-3]}, {log}", times, COST))
    return targets


if __name__ == "__main__":
    main()
