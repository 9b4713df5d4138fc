"""The slate-aware network as a term: fitted by itself, to features of the strict past alone.

Vectors and the other terms are fitted without it, so that they rank the catalogue, and what both
say of a slate is pooled (`slatewise.model.pool`). Fitted to what the network leaves, they would
rank badly without it: in a simulated shop greedy slates lost half of their clicks.

It acts where the slate is known: in prediction, estimates off policy and where a given list is
ranked; and where a slate is made, on the best of a ranking of all items.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import numpy as np
import torch
from pydantic import PrivateAttr
from torch import Tensor

from slatewise.config import Config
from slatewise.data.dataset import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.data.ragged import Int64Array
from slatewise.features.item_rates import ItemRates
from slatewise.features.past import PastFeatures, PastTable
from slatewise.features.popularity import Popularity, PopularityConfig, required_log
from slatewise.features.popularity_index import PopularityIndex
from slatewise.features.popularity_state import PopularityState
from slatewise.features.user_history import UserHistory
from slatewise.model.network.architecture import SlateInputs, SlateNetwork, log_sums
from slatewise.model.network.candidates import ALWAYS, SlateCandidates
from slatewise.model.network.fitting import Choices, fit_network, usual_members
from slatewise.model.network.inputs import (
    catalogue_rows,
    cell_times,
    feature_scales,
    in_parts,
    log_to_fit,
    network_inputs,
    parts_of,
    sample_notes,
    standardised,
    usable_dates,
    with_ages,
    with_column,
    with_further,
    with_rates,
)
from slatewise.model.network.item_columns import ItemMatrix, column_notes
from slatewise.model.network.known_items import groups_of, of_items
from slatewise.model.network.laplace import covariance_root
from slatewise.model.network.requests import interactions_with_list
from slatewise.model.network.responses import responses
from slatewise.model.network.settings import NetworkSettings, fingerprint
from slatewise.model.part import Parameter
from slatewise.model.terms.known import ListMoment
from slatewise.model.terms.reads_items import ReadsItems
from slatewise.model.terms.term import Describe, FeatureTerm, Lookup, Ranks

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig

LEAST: Final = 2_000
"""Training interactions below which linear terms do better."""
RATE: Final = "training_click_rate"
"""Name of the feature of items that stay which is not of the strict past."""
AFTER: Final = "after_the_last_click"
"""Name of the feature of items in slates that were clicked before."""
MOST: Final = 5_000_000
"""Items seen that it is fitted to, at most: their features take 250 bytes each, twice."""
_KEPT: Final = 4
"""Networks that a process remembers: a selection fits many models to one log."""
_fitted: dict[str, "NetworkTerm"] = {}


class NetworkTerm(ReadsItems, FeatureTerm):
    """w_1 u(item | slate, past) + w_2 p(position): see `slatewise.model.network`."""

    name: ClassVar[str] = "network"
    acts_on: ClassVar[Literal["items", "no click"]] = "items"
    ranks: ClassVar[Ranks] = "never"
    in_lists: ClassVar[bool] = True
    waits: ClassVar[bool] = True
    by_source: ClassVar[bool] = True
    seed_setting: ClassVar[str | None] = "network_seed"
    without_past: ClassVar[str | None] = "the network knows of no past"
    Settings: ClassVar[type[Config]] = NetworkSettings

    past: PastFeatures
    """What its inputs are computed with."""
    can_pass: bool
    """Whether the training part has slates without a click."""
    members: int = 1
    """Networks whose mean it is."""
    several: bool = False
    """Whether it reads what was clicked before on a slate."""
    reranked: int = 0
    """Candidates for a slate that it ranks again; 0 for none."""
    recalls: tuple[tuple[int, float], ...] = ()
    """Recall of held-out clicks by the numbers of candidates tried, which settled that."""
    validation: tuple[float, float]
    """Mean log-likelihood of held-out choices before and after fitting."""
    users: tuple[int, int] = (0, 0)
    """Users that it was fitted to, of how many."""
    _network: SlateNetwork | None = PrivateAttr(default=None)

    @classmethod
    def columns(cls, config: "ModelConfig") -> tuple[str, ...]:
        """Name what the network adds."""
        return "network", "network_position"

    @classmethod
    def parameters(
        cls, config: "ModelConfig", longest_slate: int, sources: Sequence[str] = ()
    ) -> dict[str, Parameter]:
        """Return the two weights, which start at 1."""
        columns = cls.columns(config)
        return {cls.name: Parameter(torch.ones(2), config.sigma_weights, columns)}

    @classmethod
    def obstacle(cls, dataset: SlateDataset) -> str | None:
        """Return why a network cannot be learned from a log: it takes some thousand choices."""
        count = int(dataset.train_end.sum())
        return None if count >= LEAST else f"{count:,} training interactions, {LEAST:,} needed"

    @classmethod
    def fit(cls, config: "ModelConfig", dataset: SlateDataset) -> "NetworkTerm":
        """Fit the network to the training part; the validation part ends the fit."""
        return cls.fit_on(config, dataset, "cpu")

    @classmethod
    def fit_on(cls, config: "ModelConfig", dataset: SlateDataset, device: str) -> "NetworkTerm":
        """Fit the network on a device; features are computed on the host, and it ends up there."""
        settings, matrix = config.of(cls), ItemMatrix.of(dataset)
        key = f"{fingerprint(dataset, settings, matrix)} {device}"
        if key not in _fitted:
            if len(_fitted) >= _KEPT:
                _fitted.pop(next(iter(_fitted)))
            _fitted[key] = cls._fit(settings, dataset, matrix, device)
        return _fitted[key]

    @classmethod
    def _fit(
        cls, settings: NetworkSettings, dataset: SlateDataset, matrix: ItemMatrix, device: str
    ) -> "NetworkTerm":
        past, (log, users) = PastFeatures.fit(dataset), log_to_fit(dataset, MOST)
        training, validation = parts_of(log)
        of_past, rates, tensors = past.in_log(dataset), ItemRates.fit(dataset), matrix.tensors
        clock = past.popularity is not None
        dates, skipped, dated = usable_dates(matrix.dates, log, clock_times=clock)
        tensors |= dates

        def describe(some: Interactions, own: Int64Array) -> PastTable:
            table = of_past(some) if log.several is None else with_further(of_past(some), some)
            table = with_ages(tensors, table, some.slate_items, cell_times(some), past)
            if rates is None:
                return table
            return with_column(table, torch.from_numpy(rates.in_training(some, own)))

        table = in_parts(describe, log, users)
        if rates is not None:
            tensors["item_rates"] = torch.from_numpy(rates.rates)
        tensors |= feature_scales(table, log, training)
        tensors["item_groups"] = torch.from_numpy(dataset.item_groups.astype(np.int32))
        clicks, groups = log.clicks.long(), dataset.num_groups
        can_pass = bool((clicks[training] < 0).any())
        inputs = network_inputs(tensors, table, log)
        choices = Choices(inputs, clicks, can_pass, log.several).to(device)
        usable = inputs.lengths > 0
        if not can_pass:  # what was never seen cannot be distinguished either
            usable &= clicks >= 0
        training, validation = (rows[usable[rows]].to(device) for rows in (training, validation))
        members = settings.network_members or usual_members(len(training))
        fitted = fit_network(
            *(choices, training, validation if len(validation) else training),
            groups=groups,
            hidden=settings.network_units,
            seed=settings.network_seed,
            members=members,
        )
        tensors |= {f"net.{n}": v.cpu() for n, v in fitted.network.state_dict().items()}
        tensors["root"] = covariance_root(fitted.network, choices, training)
        term = cls(
            past=past,
            can_pass=can_pass,
            groups=groups,
            units=settings.network_units,
            members=members,
            several=log.several is not None,
            reranked=settings.network_candidates,
            validation=(fitted.validation[0], max(fitted.validation)),
            encoder=matrix.encoder,
            skipped=matrix.skipped | skipped,
            dates=dated,
            users=(len(users), int((dataset.valid_end > 0).sum())),
        )
        term._tensors.update(tensors)
        return term

    @property
    def network(self) -> SlateNetwork:
        """The network, put together once: a request has no time for it."""
        if self._network is None:
            found = self._tensors
            features, slates = (
                found[f"net.{name}.weight"].shape[1] for name in ("of_item", "of_slate")
            )
            network = SlateNetwork(features, slates, self.groups, self.units, self.members)
            own = {k.removeprefix("net."): v for k, v in found.items() if k.startswith("net.")}
            network.load_state_dict(own)
            self._network = network
        return self._network

    def describe_in(self, log: SlateDataset | None) -> Describe:
        """Return what computes the network's columns for interactions of a log."""
        log, network = required_log(log, "what the network says of an item"), self.network
        table = self.past.in_log(log, self._tensors["item_groups"].numpy())

        def describe(interactions: Interactions) -> Tensor:
            items, times = interactions.slate_items, cell_times(interactions)
            found = self._complete(table(interactions), items, times, interactions)
            return self._columns(interactions, found, network, self._tensors)

        return describe

    def _complete(
        self,
        table: PastTable,
        items: Tensor,
        times: Tensor,
        interactions: Interactions | None = None,
        tensors: Mapping[str, Tensor] | None = None,
    ) -> PastTable:
        """Add clicks before on a slate, none without interactions, ages of items, and rates."""
        tensors = self._tensors if tensors is None else tensors
        if self.several:
            table = with_further(table, interactions)
        table = with_ages(tensors, table, items, times, self.past)
        return with_rates(tensors, table, items)

    def _columns(
        self,
        interactions: Interactions,
        table: PastTable,
        network: SlateNetwork,
        tensors: Mapping[str, Tensor],
    ) -> Tensor:
        """Return what the network adds to each item seen, and what its position does: [F, 2].

        Only differences count: the utility of clicking nothing is taken off those of the items, or
        where that is no option, as for a further click, the log-sum of those that are left. Where
        every training slate has a click, all items stand far above clicking nothing: else vectors
        and biases would have to learn it.
        """
        inputs = network_inputs(tensors, table, interactions)
        found = []
        with torch.no_grad():
            for rows in torch.split(torch.arange(len(interactions.clicks)), 2_048):
                some, cells = inputs.take(rows)
                last, none = network.hidden_units(some)
                utility = (last @ network.last_weights.T)[:, 0]
                left = utility
                if interactions.several is not None:
                    left = left.masked_fill(interactions.several.taken[cells], -torch.inf)
                level = log_sums(left, some.offsets)
                below = none if self.can_pass else level - ALWAYS
                level = torch.where(interactions.first_choices[rows], below, level)
                utility = utility - level.index_select(0, some.rows)
                found.append(torch.stack([utility, network.position_utilities(some)], 1))
        return torch.cat(found) if found else torch.zeros(0, 2)

    @property
    def _popularity(self) -> Popularity:
        """What is counted of items; nothing asks for it where times are only an order."""
        return self.past.popularity or Popularity(
            settings=PopularityConfig(), rate=1.0, slate_rate=1.0
        )

    def item_state(self, num_items: int) -> PopularityState:
        """Return the popularity of items before any event."""
        return PopularityState.empty(self._popularity, num_items)

    def at_times(self, log: SlateDataset | None) -> Lookup:
        """Return what looks up the popularity of items at any time of a log."""
        log, popularity = (
            required_log(log, "what the network says of an item"),
            self.past.popularity,
        )
        if popularity is not None:
            return PopularityIndex.of(popularity, log).features
        columns = len(self._popularity.names)
        return lambda items, times: np.zeros((len(items), columns), np.float32)

    def counts_like(self, other: FeatureTerm) -> bool:
        """Return whether another network has the same sums: what it makes of them may differ."""
        if not isinstance(other, NetworkTerm):
            return False
        one, two = self._popularity.settings, other._popularity.settings
        return (one.half_lives, one.refresh) == (two.half_lives, two.refresh)

    @property
    def refresh(self) -> float:
        """Seconds for which what is known of items stays as it is."""
        return self._popularity.settings.refresh

    @property
    def candidates(self) -> int:
        """How many of the best items it ranks again."""
        return self.reranked

    def with_candidates(self, count: int, recalls: Mapping[int, float]) -> "NetworkTerm":
        """Return the same that ranks another number of items again."""
        return self.model_copy(update={"reranked": count, "recalls": tuple(recalls.items())})

    def in_list(
        self,
        history: UserHistory,
        items: Int64Array,
        source: int,
        moment: ListMoment,
        length: int,
    ) -> SlateCandidates:
        """Return what the network says of candidates [K] for a slate to a user."""
        log = interactions_with_list(history, items, source, moment.time)
        seen = log.slate_items.numpy().astype(np.int64)
        groups = groups_of(self._tensors, self._later, seen, self.groups).long()
        popular = None if self.past.popularity is None else moment.features(items)
        own = self.past.of_last(log, groups.numpy(), self.groups + 1, popular)
        own.slates[-1, self.past.slate_names.index("slate_length")] = np.log(length)
        known = of_items(self._tensors, self._later, items, self.groups)
        numbers = torch.arange(len(items))
        times = log.times[-1:].expand(len(items))
        own = self._complete(own, numbers, times, tensors=known)
        inputs = SlateInputs(
            *standardised(known, own),
            groups[len(groups) - len(items) :],
            torch.tensor([0, len(items)]),
            *catalogue_rows(known, numbers),
        )
        return SlateCandidates(self.network, inputs, self._tensors["root"], self.can_pass)

    def learned(self, dataset: SlateDataset) -> list[dict[str, Any]]:
        """Return how features of items move the odds of a click, as rows: what moves most first.

        `sds` are standard deviations of the feature above its mean.
        """
        log = dataset.interactions()
        known = self.past.in_log(dataset)(log)
        table = self._complete(known, log.slate_items, cell_times(log), log)
        inputs = network_inputs(self._tensors, table, log)
        dates = [f"age_by_{name}" for name in self.dates]
        names = (*self.past.item_names, *[AFTER] * self.several, *dates, RATE)
        return [
            {"feature": names[one.feature], "sds": value, "log_odds": odds}
            for one in responses(self.network, inputs, can_pass=self.can_pass)
            for value, odds in zip(one.values.tolist(), one.log_odds.tolist(), strict=True)
        ]

    @property
    def notes(self) -> list[str]:
        """Which columns of items it reads and which not, and whether users were left out."""
        columns = column_notes(self.encoder, self.skipped, self.dates)
        return [*columns, *sample_notes(*self.users, MOST)]

    def words(self, column: str) -> str:
        """Return the meaning of a column."""
        if column == "network":
            return "what a network makes of the item, its slate and the past"
        return "what it makes of the position"


PART: Final = NetworkTerm
