"""One small log, models of it that are drawn and not trained, and their utilities worked out."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from torch import Tensor

from slatewise.data import SlateDataset
from slatewise.data.formats import LogFormat
from slatewise.data.interactions import Interactions
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.features.popularity_state import CountedEvents
from slatewise.features.user_history import UserHistory
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.parameters import Parameters
from slatewise.model.posterior import Posterior
from slatewise.model.profiles import known_profiles
from slatewise.model.ranking_weights import RankingWeights
from slatewise.model.registry import TERMS
from slatewise.model.steps import ClickSteps
from slatewise.model.terms import FittedTerms
from slatewise.model.terms.known import ItemState, ListMoment
from slatewise.model.utility import (
    enough_utilities,
    item_utilities,
    no_click_utilities,
    ranking_utilities,
    required,
)

ITEMS, USERS, START, SECOND = 30, 40, 1_700_000_000, 1_000_000
END = (START + 3 * 86_400) * SECOND
"""A moment after the whole log, in microseconds."""
SOURCES = ("front page", "search")
Doubles = npt.NDArray[np.float64]


def small_log(folder: Path) -> SlateDataset:
    """Draw eight slates of one to six items for each user over two days, half of them clicked.

    Some are clicked several times.
    """
    rng, rows = np.random.default_rng(3), []
    for user in range(USERS):
        for second in np.sort(rng.integers(0, 2 * 86_400, 8)).tolist():
            slate = [f"i{item}" for item in rng.permutation(ITEMS)[: rng.integers(1, 7)]]
            click = slate[rng.integers(len(slate))] if rng.random() < 0.5 else None
            source = SOURCES[int(rng.integers(2))]
            clicks = [] if click is None else [click]
            if click is not None and rng.random() < 0.3:
                clicks = rng.permutation(slate)[: rng.integers(1, 4)].tolist()
            rows.append(
                {"user_id": f"u{user}", "time": START + second, "source": source}
                | {"slate": slate, "click": clicks}
            )
    pl.DataFrame(rows, schema_overrides={"click": pl.List(pl.String)}).write_parquet(
        folder / "log.parquet"
    )
    ids = [f"i{item}" for item in range(ITEMS)]
    items = pl.DataFrame(
        {
            "item_id": ids,
            "group": ["ab"[item % 2] for item in range(ITEMS)],
            "price": rng.normal(size=ITEMS),
            "brand": [f"b{item % 3}" for item in range(ITEMS)],
            # Some of before the log, some of amid it: what was not known yet must not count.
            "made": START + rng.integers(-86_400, 86_400, ITEMS),
        }
    )
    items.write_parquet(folder / "items.parquet")
    return _prepared(folder)


def _prepared(folder: Path) -> SlateDataset:
    return prepare(
        folder / "log.parquet",
        folder / "items.parquet",
        folder / "set",
        log_format=LogFormat(time_unit="s"),
        division=SplitConfig(valid_share=0.2, test_share=0.2, prefix=3),
    )


@cache
def as_a_night_has_it(folder: Path) -> SlateDataset:
    """Return the log of a folder with other numbers of items, groups and sources, and more of each.

    It is what the store of a service knows of the same log some days later: no columns, and a new
    user, the last one, who met everything new. The shop has put some items into another group.
    """
    log = pl.read_parquet(folder / "log.parquet")
    late = {"user_id": "v", "time": END // SECOND, "source": "app", "slate": ["a new one", "i3"]}
    log = pl.concat([log, pl.DataFrame([late | {"click": ["i3"]}], schema=log.schema)])
    (folder / "night").mkdir()
    log.write_parquet(folder / "night" / "log.parquet")
    items = pl.read_parquet(folder / "items.parquet").select("item_id", "group").reverse()
    moved = pl.when(pl.col("item_id").is_in(["i4", "i7", "i9"])).then(pl.lit("_"))
    items = items.with_columns(moved.otherwise("group").alias("group"))
    new = pl.DataFrame({"item_id": ["a new one", "i3 too"], "group": ["_", "b"]})
    pl.concat([new, items]).write_parquet(folder / "night" / "items.parquet")
    return _prepared(folder / "night")


def posterior_of(config: ModelConfig, dataset: SlateDataset, seed: int) -> Posterior:
    """Return a posterior as training begins with it."""
    groups = torch.from_numpy(dataset.item_groups).long()
    longest = int(np.diff(dataset.slate_offsets).max())
    seeded = torch.Generator().manual_seed(seed)
    return Posterior(config, groups, dataset.group_names, longest, seeded, dataset.source_names)


def model_of(config: ModelConfig, dataset: SlateDataset) -> SlateModel:
    """Return a model whose means are drawn, and so certain that draws are the mean."""
    posterior = posterior_of(config, dataset, 5)
    seeded = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for part in (posterior.items, *posterior.shared.values()):
            part.mean.add_(0.5 * torch.randn(part.mean.shape, generator=seeded))
            part.raw.fill_(float(torch.logit(torch.tensor(1e-7 / config.sigma_max))))
    if config.ranking == "next-click":
        columns = sum(len(posterior.shared[name].mean) for name in posterior.parts.ranking_names)
        one, other = torch.randn(2, columns, generator=seeded)
        certain = 1e-7 * torch.eye(columns)
        posterior.ranking = RankingWeights(one, certain, RankingWeights(other, certain))
    return SlateModel(
        posterior,
        dataset.item_ids.to_list(),
        list(dataset.group_names),
        list(dataset.source_names),
        torch.ones(dataset.num_items),
        terms=certain_terms(config, dataset),
    )


def certain_terms(config: ModelConfig, dataset: SlateDataset) -> FittedTerms:
    """Return fitted terms that are certain of what they say."""
    fitted = FittedTerms.fit(config, dataset)
    tensors = {n: 1e-7 * t if n.endswith(".root") else t for n, t in fitted.tensors.items()}
    for name in [name for name in tensors if name.endswith("net.of_group.weight")]:
        seeded = torch.Generator().manual_seed(3)  # so short a log teaches networks no groups
        tensors[name] = tensors[name] + 0.3 * torch.randn(tensors[name].shape, generator=seeded)
    # Slates that are made are for the second source: whoever takes the first is found out.
    return FittedTerms.from_json(fitted.to_json(), config, "the contract", tensors, 1)


@dataclass(frozen=True, eq=False)
class Case:
    """A model of the log, with what the reference says of it in float64."""

    model: SlateModel
    dataset: SlateDataset

    uncertain: bool = False
    """whether items have a spread that matters; else draws are the mean"""
    _states: dict[int, dict[str, ItemState]] = field(default_factory=dict, init=False)

    @cached_property
    def parameters(self) -> Parameters:
        """The posterior mean, with the variances of items where they are uncertain."""
        posterior = self.model.posterior
        shared = {name: part.mean.double() for name, part in posterior.shared.items()}
        ranking = None if posterior.ranking is None else posterior.ranking.mean.double()
        found = posterior.parameters(posterior.items.mean.double(), shared, ranking)
        if not self.uncertain:
            return found
        scales = posterior.items.scale[:, : posterior.config.dimensions].double()
        return replace(found, variances=scales.square().sum(1))

    @cached_property
    def described(self) -> Interactions:
        """All interactions as training has them, with the features of the model's terms."""
        return self.model.terms.in_log(self.dataset).describe_all(self.dataset)

    @cached_property
    def log(self) -> Interactions:
        """The same in float64."""
        parts = self.described.cell_features, self.described.step_features
        cells, steps = (None if part is None else part.double() for part in parts)
        return replace(self.described, cell_features=cells, step_features=steps)

    @cached_property
    def _met_by(self) -> tuple[Tensor, Tensor]:
        """The profiles before each interaction [N, D], and after all of each user [B, D]."""
        steps = ClickSteps.of(self.log, self.parameters.evidence)
        profiles = known_profiles(self.parameters, self.log, steps)
        return profiles[steps.state_of], profiles[steps.last_state]

    @cached_property
    def slate_utilities(self) -> tuple[Tensor, Tensor]:
        """The utility of each item seen [F], and of clicking nothing [N]."""
        on_items = item_utilities(self.parameters, self._met_by[0], self.log)
        return on_items, no_click_utilities(self.parameters, self.log)

    @cached_property
    def in_slates_alone(self) -> Doubles:
        """What terms that never rank add to the items seen: [F]."""
        return self._never_ranking(but_position=False)

    @cached_property
    def in_lists_alone(self) -> Doubles:
        """The same without what they say of positions."""
        return self._never_ranking(but_position=True)

    def _never_ranking(self, *, but_position: bool) -> Doubles:
        posterior, found, start = self.model.posterior, np.zeros(len(self.log.slate_items)), 0
        for name in posterior.parts.weight_names("items"):
            term, weights = self.model.terms.by_name[name], posterior.shared[name].mean.double()
            columns = term.columns(self.model.config)
            kept = [not (but_position and column.endswith("position")) for column in columns]
            if term.ranks == "never":
                values = required(self.log.cell_features)[:, start : start + len(columns)]
                found += (values @ (weights * torch.tensor(kept))).numpy()
            start += len(columns)
        return found

    @cached_property
    def log_likelihood(self) -> Tensor:
        """Of each choice in the log: [N]."""
        chances, none = self.log_probabilities
        clicked = self.log.slate_offsets[:-1] + self.log.clicks.clamp(min=0)
        found = torch.where(self.log.clicks >= 0, chances[clicked], none)
        enough = enough_utilities(self.parameters, self.log)
        if enough is None or self.log.several is None:
            return found
        for row in self.log.several.stops.nonzero()[:, 0].tolist():
            utilities = self._left(row)
            utilities[self.log.clicks[row]] = -torch.inf
            behind = torch.cat([utilities, enough[row, None]])
            found[row] = found[row] + enough[row] - torch.logsumexp(behind, 0)
        return found

    def _left(self, row: int) -> Tensor:
        """Return the utilities of the items of an interaction, −inf for what was clicked."""
        log = self.log
        cells = slice(int(log.slate_offsets[row]), int(log.slate_offsets[row + 1]))
        utilities = self.slate_utilities[0][cells].clone()
        if log.several is not None:
            utilities[log.several.taken[cells]] = -torch.inf
        return utilities

    @cached_property
    def log_probabilities(self) -> tuple[Tensor, Tensor]:
        """Of each item seen [F], and of clicking nothing [N]: the softmax of utilities."""
        on_items, no_click = self.slate_utilities
        total = torch.stack(
            [
                torch.logsumexp(torch.cat([self._left(row), none[None]]), 0)
                for row, none in enumerate(no_click)
            ]
        )
        return on_items - total.repeat_interleave(self.log.scroll_lengths), no_click - total

    @cached_property
    def histories(self) -> list[UserHistory]:
        """What each user did in the whole log."""
        return [UserHistory.of_log(self.log, user) for user in range(self.log.num_users)]

    def after_all(self, user: int, time: int = END) -> Doubles:
        """Return the utilities of all items to a user after the whole log: [I]."""
        return self._ranked_by(self._met_by[1][user], self.histories[user], time)

    def as_a_slate(self, user: int, time: int = END, history: UserHistory | None = None) -> Doubles:
        """Return the utilities that all items have as the slate of a user after the log: [I].

        Those of `after_all` where no term ranks again. `history` is what is told of her.
        """
        history = history or self.histories[user]
        return self._in_a_slate(self._met_by[1][user], history, time)

    def as_a_slate_before(self, row: int) -> Doubles:
        """Return the same before one interaction of the log: [I]."""
        profile, time = self._met_by[0][row], int(self.log.times[row])
        source = int(self.log.sources[row])
        return self._in_a_slate(profile, self.history_before(row), time, source)

    def _in_a_slate(
        self, profile: Tensor, history: UserHistory, time: int, source: int = 1
    ) -> Doubles:
        terms = self.model.terms.by_name
        seeing = {name: term for name, term in terms.items() if term.in_lists}
        if not self.ranks_again:
            return self._ranked_by(profile, history, time)
        total = sum(self.added(history, time, again=True).values(), np.zeros(ITEMS))
        for name, term in seeing.items():
            features = self.states(time)[name].features(time)
            moment = ListMoment(time, features.__getitem__)
            found = term.in_list(history, np.arange(ITEMS), source, moment, ITEMS)
            weights = self.model.posterior.shared[name].mean.double().numpy()
            total += found.mean(np.arange(ITEMS)) @ weights
        found = ranking_utilities(self.parameters, profile[None], torch.from_numpy(total)[None])
        return np.asarray(found[0].numpy())

    def before(self, row: int) -> Doubles:
        """Return the utilities of all items before one interaction of the log: [I]."""
        return self._ranked_by(
            self._met_by[0][row], self.history_before(row), int(self.log.times[row])
        )

    def history_before(self, row: int) -> UserHistory:
        """Return what the user of an interaction did before it."""
        user = int(torch.searchsorted(self.log.user_offsets, row, right=True)) - 1
        return UserHistory.of_log(self.log, user, row - int(self.log.user_offsets[user]))

    def _ranked_by(self, profile: Tensor, history: UserHistory, time: int) -> Doubles:
        added = sum(self.added(history, time).values(), np.zeros(ITEMS))
        found = ranking_utilities(self.parameters, profile[None], torch.from_numpy(added)[None])
        return np.asarray(found[0].numpy())

    @property
    def ranks_again(self) -> bool:
        """Whether a term ranks the best again for a slate."""
        return any(term.candidates for term in self.model.terms.by_name.values())

    def added(self, history: UserHistory, time: int, *, again: bool = False) -> dict[str, Doubles]:
        """Return what each term that ranks adds to all items, or to those ranked again: [I]."""
        found, start = {}, 0
        ranking, weights_again = self.parameters.ranking_weights, self.model.posterior.ranking
        if again and weights_again is not None and weights_again.again is not None:
            ranking = weights_again.again.mean.double()
        for name, term in self.model.terms.by_name.items():
            weights = self.model.posterior.shared[term.name].mean.double().numpy()
            if ranking is not None and term.ranks != "never":
                start += len(weights)
                weights = ranking[start - len(weights) : start].numpy()
            if term.ranks == "items met":
                found[name] = term.met(history, np.arange(ITEMS))[1] @ weights
            elif term.ranks == "all items":
                known, rows = self.states(time)[name].features(time)[:ITEMS], np.arange(ITEMS)
                now = np.full(ITEMS, time)
                found[name] = term.of_rows(known, rows, now) @ weights
        return found

    def states(self, time: int) -> Mapping[str, ItemState]:
        """Return what terms know of all items from the events before a time."""
        if time in self._states:
            return self._states[time]
        events = CountedEvents.of(self.dataset.interactions())
        known = np.asarray(events.times) < time
        states: dict[str, ItemState] = {}
        for name, term in self.model.terms.with_state.items():
            states[name] = term.item_state(ITEMS)
            states[name].count(CountedEvents(*(np.asarray(part)[known] for part in events)))
        self._states[time] = states
        return states

    @property
    def is_distance(self) -> bool:
        """Whether items are ranked by their distance."""
        return self.model.posterior.parts.relevance.ranking == "distance"

    @property
    def drawn_for_sure(self) -> bool:
        """Whether draws are the mean; a user's own start is uncertain in some models."""
        return not self.uncertain and self.model.config.initial_state == "causal"

    def with_candidates(self, count: int) -> "Case":
        """Return the same where terms that see slates rank so many items again."""
        terms = {
            name: term.with_candidates(count, {}) if term.candidates else term
            for name, term in self.model.terms.by_name.items()
        }
        fitted = replace(self.model.terms, by_name=terms)
        return replace(self, model=replace(self.model, terms=fitted))

    def with_uncertain_items(self) -> "Case":
        """Return the same with scales of item vectors from 0 to 2, that differ by item."""
        posterior = copy.deepcopy(self.model.posterior)
        vectors = posterior.items.raw[:, : posterior.config.dimensions]
        chance = torch.Generator().manual_seed(17)
        with torch.no_grad():
            vectors.copy_(torch.randn(vectors.shape, generator=chance))
            vectors.add_(2 * torch.randn(len(vectors), 1, generator=chance))
        return replace(self, model=replace(self.model, posterior=posterior), uncertain=True)

    def with_double(self, term: str) -> "Case":
        """Return the same with twice the parameters of one term."""
        posterior = copy.deepcopy(self.model.posterior)
        config, own = posterior.config, TERMS[term]
        with torch.no_grad():
            for name in own.parameters(
                config, len(posterior.shared["no_click"].mean), self.model.source_names
            ):
                posterior.shared[name].mean.mul_(2)
            if own.item_columns(config):
                posterior.items.mean[:, config.dimensions :].mul_(2)
        return replace(self, model=replace(self.model, posterior=posterior))


def case_of(dataset: SlateDataset, **settings: Any) -> Case:
    """Return the case of a model with these settings."""
    config = ModelConfig.build(
        {"dimensions": 3, "sigma_max": 2.0, "half_lives": (2.0, 12.0)} | settings, "the contract"
    )
    return Case(model_of(config, dataset), dataset)
