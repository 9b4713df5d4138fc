"""What a cause of clicks is worth: the likelihood lost without it, all else being known.

A simulated log is replayed. At each interaction of the test part the simulator gives the
true probabilities of what the user may do, and those of a world without the cause. The worth is the
mean divergence of the second from the first, after the calibration that models get too (temperature
and level of clicks by source). It is exact but for the draw of the log: nothing is fitted to it.

A term is credited with what it can know: an item bias with the quality of items that training has
seen, item features with where the others lie, evidence with where the user was at her searches
since the last click. Shapes: N interactions scored, S positions, U users.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from slatewise.data.dataset import SlateDataset
from slatewise.data.ragged import offsets_of
from slatewise.evaluation.parts import scored_interactions
from slatewise.features.linear_choice import LinearChoice
from slatewise.simulation import Marketplace, SimulationConfig, Users
from slatewise.simulation.arrays import Bools, Ints
from slatewise.simulation.choice import ChoiceProbabilities
from slatewise.simulation.log import HOUR, START, Chunk, chunks

SWITCHES: Final[Mapping[str, Mapping[str, Mapping[str, float]]]] = {
    "history": {"intent": {"satiation": 0.0}, "effects": {"fatigue": 0.0}},
    "popularity": {"life": {"half_life": 0.0, "burst": 0.0}},
    "propensity": {"effects": {"propensity_sd": 0.0}},
    "position": {"effects": {"position_bias": 0.0}, "outside": {"position_bias": 0.0}},
}
"""Settings without which the cause of a term is gone."""

_PRIOR_MEAN: Final = np.array([1.0, 0.0])
_PRIOR_SD: Final = 1e3
"""Of temperature and level: only where a source does not tell one of them does it matter."""


def worth_of_causes(config: SimulationConfig, dataset: SlateDataset) -> dict[str, float]:
    """Return the worth of each term's cause, in nats per interaction of the test part.

    `dataset` is what the log of this configuration was prepared to; `features` is only there if the
    world tells any.
    """
    market = Marketplace(config)
    log = _log_of(market)
    seen, scored = _seen_in_training(dataset), _scored(dataset, log)
    others = {name: Marketplace(_without(config, name)) for name in SWITCHES}
    others["bias"] = _without_quality(config, seen)
    if config.features.of_vector or config.features.of_quality:
        others["features"] = _without_features(config, ~seen)
    found = _choices(market, others, log, scored)
    rows = np.concatenate(found.pop("rows"))
    choices = {name: _joined(parts) for name, parts in found.items()}
    searched, true = log.searched[rows], choices.pop("truth")
    losses = {name: _loss(true, other, searched) for name, other in choices.items()}
    searches = losses.pop("searches")
    return losses | {"evidence": losses.pop("evidence") - searches}


def _log_of(market: Marketplace) -> Chunk:
    return Chunk(*(np.concatenate(c) for c in zip(*chunks(market), strict=True)))


def _without(config: SimulationConfig, term: str) -> SimulationConfig:
    values: dict[str, Any] = config.model_dump()
    for section, change in SWITCHES[term].items():
        values[section] |= change
    return SimulationConfig.build(values, "simulation")


def _without_quality(config: SimulationConfig, items: Bools) -> Marketplace:
    """Return the world as it would be if these items [I] were as good as any."""
    market = Marketplace(config)
    for quality in (market.effects.quality, market.truth.quality):
        if quality is not None:
            quality[items] = 0
    return market


def _without_features(config: SimulationConfig, items: Bools) -> Marketplace:
    """Return the world as it would be if these items [I] were like their groups."""
    market = Marketplace(config)
    group, features = market.catalogue.group, config.features
    if features.of_vector:
        market.space.vectors[items] = market.space.means[group[items]]
    for quality in (market.effects.quality, market.truth.quality):
        if quality is not None and features.of_quality:
            mean = np.bincount(group, quality) / np.bincount(group)  # [G]
            quality[items] = mean[group[items]]
    return market


def _seen_in_training(dataset: SlateDataset) -> Bools:
    """Mark the items, by their number in the simulator, that training has seen: [I]."""
    kept = scored_interactions(dataset, "training").numpy()
    cells = np.repeat(kept, np.diff(dataset.slate_offsets))
    seen = np.zeros(dataset.num_items, dtype=np.bool_)
    seen[dataset.item_ids.to_numpy()[dataset.slate_items[cells]]] = True
    return seen


def _scored(dataset: SlateDataset, log: Chunk) -> Bools:
    """Mark the rows of the log that are in the test part: [rows]."""
    users = np.repeat(dataset.user_ids.to_numpy(), np.diff(dataset.user_offsets))
    theirs = np.lexsort((dataset.times, users))
    marks = np.zeros(len(log.user), dtype=np.bool_)
    marks[np.lexsort((log.time, log.user))] = scored_interactions(dataset, "test").numpy()[theirs]
    return marks


def _choices(
    market: Marketplace, others: Mapping[str, Marketplace], log: Chunk, scored: Bools
) -> dict[str, list[Any]]:
    """Return the choices at the rows scored, in the true world and in each world without a cause.

    Without search as evidence (`evidence`), a user is where she was at her last click; with it
    (`searches`), where she was at the last click or search.
    """
    found: dict[str, list[Any]] = {name: [] for name in ("rows", "truth", *others)}
    found |= {"evidence": [], "searches": []}
    clicked = np.zeros_like(market.space.means, shape=(market.config.users, log.state.shape[1]))
    searched = clicked.copy()
    for users, everyone in _replayed(market, log):
        rows = everyone[scored[everyone]]
        indifferent = replace(users, propensity=np.zeros_like(users.propensity))
        worlds = {"truth": (market, users)} | {name: (m, users) for name, m in others.items()}
        worlds["propensity"] = (others["propensity"], indifferent)
        for name, state in (("evidence", clicked), ("searches", searched)):
            worlds[name] = (market, replace(users, state=state))
        if len(rows):
            found["rows"].append(rows)
            for name, (world, people) in worlds.items():
                found[name].append(_choice(world, people, log, rows))
        click = log.clicks[everyone] >= 0
        for state, tells in ((clicked, click), (searched, click | log.searched[everyone])):
            state[log.user[everyone][tells]] = log.state[everyone][tells]
    return found


def _choice(market: Marketplace, users: Users, log: Chunk, rows: Ints) -> ChoiceProbabilities:
    hours = (log.time[rows] - START.astype(np.int64)) / HOUR
    return market.choice_probabilities(
        users, log.slates[rows], log.scroll[rows], log.user[rows], hours
    )


def _replayed(market: Marketplace, log: Chunk) -> Iterator[tuple[Users, Ints]]:
    """Yield the users as they were at each step, and the rows of the log of that step."""
    rng = np.random.default_rng(0)  # moves intents, which the log then overrules
    users = market.new_users(market.config.users, rng)
    order = np.lexsort((log.time, log.user))
    counts = np.bincount(log.user, minlength=len(users))
    steps = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    for step in range(int(counts.max())):
        rows = order[steps == step]
        who = log.user[rows]
        users.state[who], users.propensity[who] = log.state[rows], log.propensity[rows]
        yield users, rows
        users.remember(who, log.slates[rows], log.scroll[rows])
        market.intent.advance(users, who, log.clicks[rows], rng)


def _joined(parts: list[ChoiceProbabilities]) -> ChoiceProbabilities:
    return ChoiceProbabilities(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _loss(true: ChoiceProbabilities, other: ChoiceProbabilities, searched: Bools) -> float:
    """Mean divergence of `other` from the truth, calibrated by source."""
    total = 0.0
    for rows in (np.flatnonzero(searched), np.flatnonzero(~searched)):
        if len(rows):
            parts = (ChoiceProbabilities(c.items[rows], c.no_click[rows]) for c in (true, other))
            total += len(rows) * _calibrated(*parts)
    return max(0.0, total / len(searched))  # rounding leaves −1e-12 where nothing is lost


def _calibrated(true: ChoiceProbabilities, other: ChoiceProbabilities) -> float:
    """Mean divergence after calibration: utility is temperature · log(q_i / q_none) + level."""
    p, q = (np.column_stack([c.items, c.no_click]) for c in (true, other))  # [N, S + 1]
    row, option = np.nonzero(p)
    features = np.stack(
        [np.log(q[row, option] / other.no_click[row]), option < true.items.shape[1]], axis=1
    )
    p = p[row, option]
    choice = LinearChoice(features, offsets_of(np.bincount(row)), p, _PRIOR_MEAN, _PRIOR_SD)
    return (float(p @ np.log(p)) - choice.log_likelihood(choice.fit())) / len(true.no_click)
