"""What passed between user and item before: clicked, shown, clicked last."""

import math
from typing import TYPE_CHECKING, ClassVar, Literal

import torch

from slatewise.config import Config
from slatewise.data.dataset import SlateDataset
from slatewise.features.history import HISTORY, history_features
from slatewise.model.terms.term import Describe, training_sample, typical_sizes

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig


class HistoryTerm(Config):
    """Σ w_p x_p(user, item) over the features of `slatewise.features.history`."""

    acts_on: ClassVar[Literal["items", "no click"]] = "items"

    sizes: tuple[float, ...]
    """By which features are divided."""

    @classmethod
    def columns(cls, config: "ModelConfig") -> tuple[str, ...]:
        """Name the features."""
        return HISTORY

    @classmethod
    def least_weights(cls, config: "ModelConfig") -> tuple[float, ...]:
        """Any."""
        return (-math.inf,) * len(HISTORY)

    @classmethod
    def fit(cls, config: "ModelConfig", dataset: SlateDataset) -> "HistoryTerm":
        """Judge the size of features by training users."""
        return cls(sizes=typical_sizes(history_features(training_sample(dataset))))

    def describe_in(self, log: SlateDataset | None) -> Describe:
        """Of the log nothing is needed: a user's history is in her own interactions."""
        sizes = torch.tensor(self.sizes)
        return lambda interactions: history_features(interactions) / sizes

    def words(self, column: str) -> str:
        """Say what a feature is."""
        return column.replace("_", " ")
