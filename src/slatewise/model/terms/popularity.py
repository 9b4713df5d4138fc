"""Popularity as a term: clicks, views and click rates of items, fading with time, and their age.

Weights may have either sign: given its clicks, many recent views count against an item.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

import numpy as np
import torch
from pydantic import Field, PositiveFloat, model_validator

from slatewise.config import Config
from slatewise.data.dataset import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.features.half_lives import half_lives_of
from slatewise.features.popularity import (
    AGE,
    HALF_LIVES,
    Popularity,
    PopularityConfig,
    required_log,
)
from slatewise.features.popularity_index import PopularityIndex
from slatewise.features.popularity_state import PopularityState
from slatewise.features.turnover import items_stay
from slatewise.model.terms.known import ItemState
from slatewise.model.terms.term import Describe, FeatureTerm, Lookup, Ranks
from slatewise.model.terms.typical_sizes import training_sample, typical_sizes

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig


class PopularitySettings(Config):
    """Settings of popularity."""

    half_lives: Annotated[tuple[PositiveFloat, ...], Field(min_length=1)] = HALF_LIVES
    """Half-lives of popularity, in hours."""


class PopularityTerm(FeatureTerm):
    """Σ w_p x_p(item, time) over the features of `slatewise.features.popularity`."""

    name: ClassVar[str] = "popularity"
    acts_on: ClassVar[Literal["items", "no click"]] = "items"
    ranks: ClassVar[Ranks] = "all items"
    without_past: ClassVar[str | None] = "popularity is empty"
    Settings: ClassVar[type[Config]] = PopularitySettings

    popularity: Popularity
    """What the features are computed with."""
    sizes: tuple[float, ...]
    """By which they are divided."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(self.sizes) != len(self.popularity.names):
            raise ValueError(f"sizes are needed for {', '.join(self.popularity.names)}")
        return self

    @classmethod
    def columns(cls, config: "ModelConfig") -> tuple[str, ...]:
        """Name the features: four for each half-life, and the age."""
        settings = PopularityConfig(half_lives=config.of(cls).half_lives)
        return Popularity(settings=settings, rate=1.0, slate_rate=1.0).names

    @classmethod
    def fit(cls, config: "ModelConfig", dataset: SlateDataset) -> "PopularityTerm":
        """Count the click rate, and judge the size of features by training users."""
        settings = PopularityConfig(half_lives=config.of(cls).half_lives)
        popularity = Popularity.fit(dataset, settings)
        index = PopularityIndex.of(popularity, dataset)
        return cls(
            popularity=popularity, sizes=typical_sizes(index.cells(training_sample(dataset)))
        )

    def describe_in(self, log: SlateDataset | None) -> Describe:
        """Look up all items of a slate at once, as `at_times` would one by one."""
        index, sizes = self._index(log), torch.tensor(self.sizes)
        return lambda interactions: index.cells(interactions) / sizes

    def at_times(self, log: SlateDataset | None) -> Lookup:
        """Read the log once: what all users did before a moment counts then."""
        index, sizes = self._index(log), np.array(self.sizes, np.float32)
        return lambda items, times: index.features(items, times) / sizes

    def _index(self, log: SlateDataset | None) -> PopularityIndex:
        log = required_log(log, "the popularity of an item")
        return PopularityIndex.of(self.popularity, log)

    def item_state(self, num_items: int) -> PopularityState:
        """Return the popularity before any event."""
        return PopularityState.empty(self.popularity, num_items, self.sizes)

    def state_after(self, dataset: SlateDataset) -> PopularityState:
        """Return the popularity after everything in a dataset, which may exceed the memory."""
        return PopularityState.of(self.popularity, dataset, self.sizes)

    def counts_like(self, other: FeatureTerm) -> bool:
        """Return whether another term has the same sums: what it makes of them may differ."""
        if not isinstance(other, PopularityTerm):
            return False
        one, two = self.popularity.settings, other.popularity.settings
        return (one.half_lives, one.refresh) == (two.half_lives, two.refresh)

    def require_own(self, state: ItemState) -> None:
        """Refuse popularity that is counted otherwise than that of the model."""
        own = self.popularity, self.sizes
        if not isinstance(state, PopularityState) or (state.popularity, state.sizes) != own:
            raise SlatewiseError(
                "this popularity is counted otherwise than that of the model.",
                "Make the state with model.terms.by_name['popularity'].item_state.",
            )

    @property
    def refresh(self) -> float:
        """Seconds of a tick."""
        return self.popularity.settings.refresh

    @classmethod
    def obstacle(cls, dataset: SlateDataset) -> str | None:
        """Return why popularity cannot be learned from a log: it fades by the hour."""
        return None if dataset.meta["clock_times"] else "the times of the log are only an order"

    @classmethod
    def default_obstacle(cls, dataset: SlateDataset) -> str | None:
        """Return the same where there is an obstacle, or that items stay.

        Its weights within slates rank a catalogue badly: in a world of searches, greedy slates were
        clicked .13 of the time instead of .32. Where items come and go, the next click weighs it.
        """
        return cls.obstacle(dataset) or ("items stay on offer" if items_stay(dataset) else None)

    @classmethod
    def usual_settings(cls, config: "ModelConfig", dataset: SlateDataset) -> dict[str, Any]:
        """Return the half-lives that best predict clicks."""
        return {} if config.is_given("half_lives") else {"half_lives": half_lives_of(dataset)}

    def words(self, column: str) -> str:
        """Return the meaning of a feature."""
        if column == AGE:
            return "how long it has been shown"
        name, _, half_life = column.rpartition("_")
        return f"{name.replace('_', ' ')} lately (half-life {half_life})"


PART: Final = PopularityTerm
