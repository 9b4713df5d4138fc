"""What every term with features has, and how its features are brought to one size.

A term adds Σ w_p x_p to a utility: of the items seen, or of clicking nothing. Its weights w have a
Gaussian posterior and the prior N(0, σ_w²), one σ_w for all of them: so features are divided by
their typical size, the root mean square of those that are not 0. A zero stays zero, and serving
touches only what has a feature at all.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from slatewise.data.dataset import SlateDataset
from slatewise.data.interactions import Interactions

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig

Describe = Callable[[Interactions], Tensor]
"""Computes features of any users' interactions: [F, P] of the items seen, or [N, Q]."""

MOST_USERS: Final = 20_000
"""Users by whom the size of features is judged, at most."""


class FeatureTerm(Protocol):
    """A term that knows the log it was fitted to; a frozen configuration, saved as it is."""

    acts_on: ClassVar[Literal["items", "no click"]]

    @classmethod
    def columns(cls, config: "ModelConfig") -> tuple[str, ...]:
        """Name the features, of which each has a weight."""

    @classmethod
    def least_weights(cls, config: "ModelConfig") -> tuple[float, ...]:
        """Say below what the posterior mean of each weight does not fall."""

    @classmethod
    def fit(cls, config: "ModelConfig", dataset: SlateDataset) -> Self:
        """Read off the training part what the features are computed with."""

    def describe_in(self, log: SlateDataset | None) -> Describe:
        """Return the function that computes the features of interactions of a log."""

    def words(self, column: str) -> str:
        """Say in a few words what a feature is, to explain a slate."""

    @classmethod
    def build(cls, values: Mapping[str, Any], where: str) -> Self:
        """Take over plain values, refusing what they cannot be."""

    def model_dump(self) -> dict[str, Any]:
        """Return plain values."""


def typical_sizes(features: Tensor) -> tuple[float, ...]:
    """Return the root mean square of what is not 0 in each column of [K, P]; 1 for none."""
    known = (features != 0).sum(0).clamp(min=1)
    sizes = (features.double().square().sum(0) / known).sqrt()
    return tuple(torch.where(sizes > 0, sizes, 1.0).tolist())


def training_sample(dataset: SlateDataset) -> Interactions:
    """Return the training interactions of some users, always the same."""
    users = np.flatnonzero(dataset.train_end > 0)
    drawn = torch.from_numpy(np.random.default_rng(0).permutation(users)[:MOST_USERS])
    return dataset.interactions().of_users(drawn, torch.from_numpy(dataset.train_end)[drawn])
