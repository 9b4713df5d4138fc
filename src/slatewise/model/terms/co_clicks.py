"""Items that other people clicked near what the user clicked lately."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from pydantic import ConfigDict, Field, PositiveInt

from slatewise.config import Config
from slatewise.data.dataset import SlateDataset
from slatewise.data.ragged import Int64Array
from slatewise.features.co_clicks import CO_CLICKS, CoClicks
from slatewise.features.user_history import UserHistory
from slatewise.model.terms.known import NO_FACTS, NOBODY, Facts
from slatewise.model.terms.term import (
    Describe,
    FeatureTerm,
    Floats,
    Ranks,
)
from slatewise.model.terms.typical_sizes import training_sample, typical_sizes

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig


_NEAR: Final = {
    "after_last": "what the user clicked last",
    "after_recent": "what the user clicked lately",
    "alike": "what the user clicked, more than near anything else",
}


class CoClicksSettings(Config):
    """Settings of co-clicks."""

    neighbours: PositiveInt = 100
    """Neighbours kept of each item, for co-clicks."""


class CoClicksTerm(FeatureTerm):
    """Σ w_p x_p(user, item) over the features of `slatewise.features.co_clicks`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    name: ClassVar[str] = "co_clicks"
    acts_on: ClassVar[Literal["items", "no click"]] = "items"
    ranks: ClassVar[Ranks] = "items met"
    without_past: ClassVar[str | None] = "histories are empty"
    Settings: ClassVar[type[Config]] = CoClicksSettings

    sizes: tuple[float, ...]
    """By which features are divided."""
    table: CoClicks = Field(exclude=True, repr=False)
    """The neighbours of each item."""

    @classmethod
    def columns(cls, config: "ModelConfig") -> tuple[str, ...]:
        """Name the features."""
        return CO_CLICKS

    @classmethod
    def fit(cls, config: "ModelConfig", dataset: SlateDataset) -> "CoClicksTerm":
        """Count pairs of clicks, and judge the size of features by training users."""
        table = CoClicks.count(dataset.interactions(), dataset.num_items, config.of(cls).neighbours)
        found = table.features(training_sample(dataset), without_own=True)
        return cls(sizes=typical_sizes(found), table=table)

    def describe_in(self, log: SlateDataset | None) -> Describe:
        """Compute the same as `met` in one pass over all users; of the log nothing is needed."""
        sizes = torch.tensor(self.sizes)
        return lambda interactions: self.table.features(interactions) / sizes

    def describe_training(self, log: SlateDataset) -> Describe:
        """Leave the user's own clicks out where she is in training: they were counted."""
        sizes = torch.tensor(self.sizes)
        return lambda interactions: self.table.features(interactions, without_own=True) / sizes

    def met(
        self, history: UserHistory, items: Int64Array | None = None
    ) -> tuple[Int64Array, Floats]:
        """Return items [m] and features [m, P], of the neighbours of what she clicked lately."""
        items, features = self.table.met(history, items)
        return items, np.divide(features, np.array(self.sizes), dtype=np.float32)

    @property
    def arrays(self) -> Mapping[str, npt.NDArray[Any]]:
        """The neighbours, to be saved beside the posterior."""
        return self.table.arrays

    @classmethod
    def restore(
        cls, values: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], where: str
    ) -> Self:
        """Take over what was saved."""
        return cls.build({**values, "table": CoClicks.of_arrays(arrays)}, where)

    def on_items(
        self,
        known: Int64Array,
        groups: npt.NDArray[np.integer],
        described: Int64Array = NOBODY,
        facts: Facts = NO_FACTS,
    ) -> Self:
        """Return the term with the neighbours among other items; new ones have none."""
        return self.model_copy(update={"table": self.table.on_items(known)})

    def words(self, column: str) -> str:
        """Return the meaning of a feature."""
        return f"others clicked it near {_NEAR[column]}"


PART: Final = CoClicksTerm
