"""What passed between user and item before: clicked, shown, clicked last."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import numpy as np
import torch

from slatewise.data.dataset import SlateDataset
from slatewise.data.ragged import Int64Array
from slatewise.features.history import HISTORY, history_features, met_features
from slatewise.features.user_history import UserHistory
from slatewise.model.terms.term import (
    Describe,
    FeatureTerm,
    Floats,
    Ranks,
)
from slatewise.model.terms.typical_sizes import training_sample, typical_sizes

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig


_NEVER_AGAIN: Final = -20.0
"""What one click takes from the utility of an item: more than vectors give to what is near."""


class HistoryTerm(FeatureTerm):
    """Σ w_p x_p(user, item) over the features of `slatewise.features.history`."""

    name: ClassVar[str] = "history"
    acts_on: ClassVar[Literal["items", "no click"]] = "items"
    ranks: ClassVar[Ranks] = "items met"
    keeps_out_clicked: ClassVar[bool] = True
    without_past: ClassVar[str | None] = "histories are empty"

    sizes: tuple[float, ...]
    """By which features are divided."""

    @classmethod
    def columns(cls, config: "ModelConfig") -> tuple[str, ...]:
        """Name the features."""
        return HISTORY

    @classmethod
    def fit(cls, config: "ModelConfig", dataset: SlateDataset) -> "HistoryTerm":
        """Judge the size of features by training users."""
        return cls(sizes=typical_sizes(history_features(training_sample(dataset))))

    def describe_in(self, log: SlateDataset | None) -> Describe:
        """Compute the same as `met` in one pass over all users; of the log nothing is needed."""
        sizes = torch.tensor(self.sizes)
        return lambda interactions: history_features(interactions) / sizes

    def met(
        self, history: UserHistory, items: Int64Array | None = None
    ) -> tuple[Int64Array, Floats]:
        """Return items [m] and features [m, 3], of what she was shown and clicked."""
        items, features = met_features(history, items)
        return items, np.divide(features, np.array(self.sizes), dtype=np.float32)

    def weights_expected(self, config: "ModelConfig") -> Sequence[float]:
        """Expect an item not to be clicked again where no training user did so.

        A few held-out clicks alone would leave room for it.
        """
        if config.repeats:
            return super().weights_expected(config)
        return (_NEVER_AGAIN * self.sizes[0] / math.log(2), 0.0, 0.0)


PART: Final = HistoryTerm
