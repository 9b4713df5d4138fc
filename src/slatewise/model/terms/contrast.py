"""Contrast within the slate as a term: how an item's clicks lately compare with those beside it.

For models without the network, which learns the same and more: small logs. It acts where the slate
is known: in prediction, estimates off policy, and where a given list is ranked. A ranking of all
items has no slate yet and leaves it out, as it does positions.

Shapes: F items seen, K candidates for a slate, k of them in it, H half-lives, J draws.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import numpy as np
import torch

from slatewise.data.dataset import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.data.ragged import Int64Array
from slatewise.features.popularity import Popularity, PopularityConfig, required_log
from slatewise.features.popularity_index import PopularityIndex
from slatewise.features.popularity_state import PopularityState
from slatewise.features.user_history import UserHistory
from slatewise.model.terms.known import ListMoment
from slatewise.model.terms.network import NetworkTerm
from slatewise.model.terms.popularity import PopularityTerm
from slatewise.model.terms.position import Position
from slatewise.model.terms.term import Describe, FeatureTerm, Floats, Lookup, Ranks
from slatewise.model.terms.typical_sizes import training_sample, typical_sizes

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig

HALF_LIVES: Final = (2.0, 24.0)
"""Hours over which the clicks that are compared fade."""
_COUNTED: Final = Popularity(
    settings=PopularityConfig(half_lives=HALF_LIVES), rate=1.0, slate_rate=1.0
)
_CLICKS: Final = [n for n, name in enumerate(_COUNTED.names) if name.startswith("clicks_")]
"""Columns of popularity that are compared."""


class ContrastTerm(FeatureTerm):
    """Σ w_p x_p(item, slate): clicks below the best of the slate, and the rank by clicks in it."""

    name: ClassVar[str] = "contrast"
    acts_on: ClassVar[Literal["items", "no click"]] = "items"
    ranks: ClassVar[Ranks] = "never"
    in_lists: ClassVar[bool] = True
    pooled: ClassVar[bool] = False
    without_past: ClassVar[str | None] = "the contrast within slates is not known"

    sizes: tuple[float, ...]
    """By which the features are divided."""

    @classmethod
    def columns(cls, config: "ModelConfig") -> tuple[str, ...]:
        """Name the features, two for each half-life."""
        hours = [f"{hours:g}h" for hours in HALF_LIVES]
        return tuple(f"{what}_{of}" for what in ("below_best", "clicks_rank") for of in hours)

    @classmethod
    def obstacle(cls, dataset: SlateDataset) -> str | None:
        """Return why a log should not have it: nothing to compare, no hours, or the network."""
        if NetworkTerm.obstacle(dataset) is None:
            return "the network sees slates"
        return Position.obstacle(dataset) or PopularityTerm.obstacle(dataset)

    @classmethod
    def fit(cls, config: "ModelConfig", dataset: SlateDataset) -> "ContrastTerm":
        """Judge the size of features by training users."""
        index = PopularityIndex.of(_COUNTED, dataset)
        found = _contrast_in(index, training_sample(dataset))
        return cls(sizes=typical_sizes(torch.from_numpy(found)))

    def describe_in(self, log: SlateDataset | None) -> Describe:
        """Return what compares the items of slates in a log."""
        sizes = np.array(self.sizes, np.float32)
        index = PopularityIndex.of(_COUNTED, required_log(log, "the contrast within a slate"))
        return lambda interactions: torch.from_numpy(_contrast_in(index, interactions) / sizes)

    def item_state(self, num_items: int) -> PopularityState:
        """Return the clicks of items before any event."""
        return PopularityState.empty(_COUNTED, num_items)

    def at_times(self, log: SlateDataset | None) -> Lookup:
        """Return what looks up the popularity of items at any time of a log."""
        return PopularityIndex.of(
            _COUNTED, required_log(log, "the contrast within a slate")
        ).features

    def counts_like(self, other: FeatureTerm) -> bool:
        """Return whether another term has the same sums: always, of its kind."""
        return isinstance(other, ContrastTerm)

    @property
    def refresh(self) -> float:
        """Seconds for which what is known of items stays as it is."""
        return _COUNTED.settings.refresh

    def in_list(
        self,
        history: UserHistory,
        items: Int64Array,
        source: int,
        moment: ListMoment,
        length: int,
    ) -> "ContrastInList":
        """Return how candidates [K] compare with the slate that some of them are."""
        clicks = moment.features(items)[:, _CLICKS]
        return ContrastInList(clicks, np.array(self.sizes, np.float32))

    @property
    def notes(self) -> list[str]:
        """Where it acts."""
        return ["Contrast counts in predictions and given lists; rankings of all items go without."]

    def words(self, column: str) -> str:
        """Return the meaning of a feature."""
        what, _, half_life = column.rpartition("_")
        said = "clicks below the best of its slate" if what == "below_best" else "rank by clicks"
        return f"{said} (half-life {half_life})"


@dataclass(frozen=True)
class ContrastInList:
    """Candidates for one slate."""

    clicks: Floats
    """[K, H] log(1 + clicks lately)"""
    sizes: Floats
    """[2 H] by which features are divided"""

    def mean(self, shown: Int64Array) -> Floats:
        """Return the features [K, 2 H] beside the candidates at `shown` [k].

        Any other is seen in the slate in place of the last of them.
        """
        beside, rest = self.clicks[shown], self.clicks[shown[:-1]]
        # Logarithms of one and more: of no others the greatest is 0.
        best = np.maximum(self.clicks, rest.max(0, initial=0))  # [K, H]
        best[shown] = beside.max(0, initial=0)
        above = _count_above(rest, self.clicks)
        above[shown] = _count_above(beside, beside)
        below = self.clicks - best
        found: Floats = (np.concatenate([below, np.log1p(above)], 1) / self.sizes).astype("f4")
        return found

    def draws(self, shown: Int64Array, count: int, rng: np.random.Generator) -> Floats:
        """Return the same J times: nothing of it is uncertain but the weights [J, K, 2 H]."""
        return np.repeat(self.mean(shown)[None], count, 0)


def _count_above(slate: Floats, values: Floats) -> Int64Array:
    """Return how many of a slate [k, H] lie above each of some values [K, H]: [K, H]."""
    counts = [
        len(one) - np.searchsorted(np.sort(one), own, side="right")
        for one, own in zip(slate.T, values.T, strict=True)
    ]
    return np.stack(counts, 1).astype(np.int64)


def _contrast_in(popular: PopularityIndex, interactions: Interactions) -> Floats:
    """Return the features of the items that interactions show: [F, 2 H]."""
    clicks = popular.cells(interactions).numpy()[:, _CLICKS]
    offsets = interactions.slate_offsets.numpy()
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    found = np.empty((len(clicks), 2 * len(_CLICKS)), np.float32)
    for n, values in enumerate(clicks.T):
        order = np.lexsort((-values, rows))
        sorted_values, starts = values[order], offsets[rows]
        best = sorted_values[starts]  # [F] rows stay where they were
        index = np.arange(len(order))
        again = np.zeros(len(order), bool)
        again[1:] = (sorted_values[1:] == sorted_values[:-1]) & (rows[1:] == rows[:-1])
        above = np.maximum.accumulate(np.where(again, 0, index)) - starts  # equal ones share a rank
        found[:, n] = values - best
        found[order, len(_CLICKS) + n] = np.log1p(above)
    return found


PART: Final = ContrastTerm
