"""A network as a term where all items are ranked: see `slatewise.model.network.item_side`.

It acts in the first stage alone. Its weights are those of the next click, fitted once all else is,
so that slates are predicted, and candidates ranked again, as without it.
"""

from typing import TYPE_CHECKING, ClassVar, Final, Literal

import numpy as np
import torch
from pydantic import PositiveInt, PrivateAttr

from slatewise.config import Config
from slatewise.data.dataset import SlateDataset
from slatewise.data.ragged import Int64Array
from slatewise.errors import SlatewiseError
from slatewise.features.popularity import HALF_LIVES, Popularity, PopularityConfig, required_log
from slatewise.features.popularity_index import PopularityIndex
from slatewise.features.popularity_state import PopularityState
from slatewise.features.turnover import items_stay
from slatewise.model.network.inputs import log_to_fit, usable_dates
from slatewise.model.network.item_columns import ItemMatrix, column_notes
from slatewise.model.network.item_side import (
    LAST,
    ItemNetwork,
    changing,
    fit_item_network,
    next_clicks,
    standardised,
)
from slatewise.model.network.known_items import of_items
from slatewise.model.terms.known import ItemState
from slatewise.model.terms.reads_items import ReadsItems
from slatewise.model.terms.term import FeatureTerm, Floats, Lookup, Ranks

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig

LEAST: Final = 2_000
"""Training clicks below which linear terms do better."""
DATED: Final = 500_000
"""Items seen by which it is told whether a date says an age."""
_AT_ONCE: Final = 1 << 16
"""Items that go through the network at a time."""


class ItemNetworkSettings(Config):
    """Settings of the network that ranks all items."""

    item_network_units: PositiveInt = 32
    """H, units of each hidden layer of `item_network`."""
    item_network_seed: int = 0
    """Seed of its starting weights."""


class ItemNetworkTerm(ReadsItems, FeatureTerm):
    """Σ w_l φ_l(item, time) over the last units of a network of one item."""

    name: ClassVar[str] = "item_network"
    acts_on: ClassVar[Literal["items", "no click"]] = "items"
    ranks: ClassVar[Ranks] = "all items"
    first_stage: ClassVar[bool] = True
    waits: ClassVar[bool] = True
    seed_setting: ClassVar[str | None] = "item_network_seed"
    without_past: ClassVar[str | None] = "popularity is empty"
    Settings: ClassVar[type[Config]] = ItemNetworkSettings

    popularity: Popularity
    """What its inputs are computed with, but for groups and columns of items."""
    validation: tuple[float, float]
    """Mean log-likelihood of held-out clicks before and after fitting."""
    _network: ItemNetwork | None = PrivateAttr(default=None)

    @classmethod
    def columns(cls, config: "ModelConfig") -> tuple[str, ...]:
        """Name its last units."""
        return tuple(f"unit_{number}" for number in range(1, LAST + 1))

    @classmethod
    def obstacle(cls, dataset: SlateDataset) -> str | None:
        """Return why it cannot be learned from a log: popularity needs hours, a network clicks."""
        if not dataset.meta["clock_times"]:
            return "the times of the log are only an order"
        count = int(dataset.train_end.sum())
        return None if count >= LEAST else f"{count:,} training interactions, {LEAST:,} needed"

    @classmethod
    def default_obstacle(cls, dataset: SlateDataset) -> str | None:
        """Return the same, or that items stay.

        There the clicks of a log tell what was shown as much as what is liked: in a simulated shop
        it found more of the logged clicks, and greedy slates without a second stage were clicked
        .34 of the time instead of .38.
        """
        return cls.obstacle(dataset) or ("items stay on offer" if items_stay(dataset) else None)

    @classmethod
    def fit(cls, config: "ModelConfig", dataset: SlateDataset) -> "ItemNetworkTerm":
        """Fit the network to training clicks; validation clicks end the fit."""
        return cls.fit_on(config, dataset, "cpu")

    @classmethod
    def fit_on(cls, config: "ModelConfig", dataset: SlateDataset, device: str) -> "ItemNetworkTerm":
        """Fit the network on a device; features are computed on the host, and it ends up there."""
        settings, matrix = config.of(cls), ItemMatrix.of(dataset)
        popularity = Popularity.fit(dataset, PopularityConfig(half_lives=HALF_LIVES))
        groups = torch.from_numpy(dataset.item_groups.astype(np.int64))
        rng = np.random.default_rng([settings.item_network_seed, 9])
        index = PopularityIndex.of(popularity, dataset)
        dates, skipped, dated = usable_dates(
            matrix.dates, log_to_fit(dataset, DATED)[0], clock_times=True
        )
        clicks, training, scales = next_clicks(
            dataset.interactions(), index, groups, matrix.values, dates, rng
        )
        fitted = fit_item_network(
            *(clicks.to(device), training),
            groups=dataset.num_groups,
            hidden=settings.item_network_units,
            seed=settings.item_network_seed,
        )
        term = cls(
            popularity=popularity,
            groups=dataset.num_groups,
            units=settings.item_network_units,
            validation=(fitted.validation[0], max(fitted.validation)),
            encoder=matrix.encoder,
            skipped=matrix.skipped | skipped,
            dates=dated,
        )
        network = fitted.network.cpu()
        with torch.no_grad():
            some = clicks.items[:training].flatten()[::7]
            own = clicks.features[:training].flatten(0, 1)[::7]
            found = network.units(torch.cat([own, matrix.values[some]], -1), groups[some])
        # Of mean 0 and size 1: all that ranks is differences, and one prior goes for all weights.
        term._tensors.update(
            {f"net.{name}": value for name, value in network.state_dict().items()}
            | {**scales, **matrix.tensors, **dates, "item_groups": groups.int()}
            | {"centre": found.mean(0), "size": found.std(0).clamp(min=1e-6)}
        )
        return term

    @property
    def network(self) -> ItemNetwork:
        """The network, put together once."""
        if self._network is None:
            features = self._tensors["net.of_item.weight"].shape[1]
            self._network = ItemNetwork(features, self.groups, self.units)
            own = {k[4:]: v for k, v in self._tensors.items() if k.startswith("net.")}
            self._network.load_state_dict(own)
        return self._network

    def of_rows(self, known: Floats, rows: Int64Array, times: Int64Array) -> Floats:
        """Return the last units [R, L] of items in rows [R] of the model, with popularity [R, P].

        Items that nobody described have the mean of all columns, and no group if theirs is new.
        Those of training keep their group and columns, whatever the shop calls them since.
        """
        found, tensors = np.empty((len(rows), LAST), np.float32), self._tensors
        with torch.inference_mode():
            for first in range(0, len(rows), _AT_ONCE):
                some = slice(first, first + _AT_ONCE)
                own = of_items(tensors, self._later, rows[some], self.groups)
                now = torch.from_numpy(known[some])
                here = np.arange(len(now))
                features = changing(self.popularity, now, own, here, times[some])
                features = standardised(tensors, features)
                if "item_columns" in tensors:
                    features = torch.cat([features, own["item_columns"][:-1]], 1)
                units = self.network.units(features, own["item_groups"].long())
                found[some] = ((units - tensors["centre"]) / tensors["size"]).numpy()
        return found

    def at_times(self, log: SlateDataset | None) -> Lookup:
        """Return what looks up the last units of items at any time of a log."""
        log = required_log(log, "what the network says of an item")
        index = PopularityIndex.of(self.popularity, log)
        return lambda items, times: self.of_rows(index.features(items, times), items, times)

    def item_state(self, num_items: int) -> PopularityState:
        """Return the popularity of items before any event: `of_rows` has the rest."""
        return PopularityState.empty(self.popularity, num_items)

    def state_after(self, dataset: SlateDataset) -> PopularityState:
        """Return the popularity after everything in a dataset, which may exceed the memory."""
        return PopularityState.of(self.popularity, dataset)

    def counts_like(self, other: FeatureTerm) -> bool:
        """Return whether another network has the same sums: what it makes of them may differ."""
        if not isinstance(other, ItemNetworkTerm):
            return False
        one, two = self.popularity.settings, other.popularity.settings
        return (one.half_lives, one.refresh) == (two.half_lives, two.refresh)

    def require_own(self, state: ItemState) -> None:
        """Refuse popularity that is counted otherwise than that of the network."""
        if not isinstance(state, PopularityState) or state.popularity != self.popularity:
            raise SlatewiseError(
                "this popularity is counted otherwise than that of the network.",
                "Make the state with model.terms.by_name['item_network'].item_state.",
            )

    @property
    def refresh(self) -> float:
        """Seconds of a tick."""
        return self.popularity.settings.refresh

    @property
    def notes(self) -> list[str]:
        """Which columns of items it reads, and which not."""
        return column_notes(self.encoder, self.skipped, self._dates_read)

    def words(self, column: str) -> str:
        """Return the meaning of a unit."""
        number = column.removeprefix("unit_")
        return f"what a network makes of its popularity, group and columns ({number} of {LAST})"


PART: Final = ItemNetworkTerm
