"""The prior mean of an item given its features, beside its group.

The prior mean of an item's row (v_i, b_i) is μ_g + W x_i with features x_i and W ~ N(0, σ_W²). Like
the group means, W has a Gaussian posterior whose expectation is taken in closed form: it is never
drawn. Items that were never seen start at this mean.

Shapes: R items, Q features, C numbers of an item, G groups.
"""

from typing import TYPE_CHECKING

import torch
from pydantic import PositiveFloat
from torch import Tensor

from slatewise.config import Config
from slatewise.model.gaussian import Gaussian
from slatewise.model.part import Part

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig


class ItemCentreSettings(Config):
    """Settings of the features of items."""

    sigma_features: PositiveFloat = 0.3
    """σ_W, prior of the matrix from the features of an item to its prior mean."""


class ItemCentre(Part):
    """The posterior of W, and the item means that it implies."""

    name = "item features"
    Settings = ItemCentreSettings

    def __init__(self, config: "ModelConfig", num_features: int, posterior_scale: float) -> None:
        super().__init__(config)
        start = torch.zeros(num_features, config.item_columns)
        self.weights = Gaussian.around(start, posterior_scale, config.sigma_max)  # [Q, C]

    def kl(self) -> Tensor:
        """KL divergence of W from its prior: []."""
        return self.weights.kl(self.settings.sigma_features).sum()

    def mean(self, features: Tensor) -> Tensor:
        """Return E W x of items with features [R, Q]: [R, C]."""
        return features.to(self.weights.mean.dtype) @ self.weights.mean

    def variance(self, features: Tensor) -> Tensor:
        """Return Var W x: [R, C]."""
        return features.to(self.weights.mean.dtype).square() @ self.weights.scale.square()

    def variances(self, features: Tensor, groups: Tensor, shares: Tensor, count: int) -> Tensor:
        """Add up shares [R] · Var W x over the items of each of `count` groups: [G, C].

        Var W x is linear in x², so x² is added up, which needs no gradient.
        """
        sums = self.square_sums(features, groups, shares, count)
        return self.summed_variances(sums)

    def square_sums(self, features: Tensor, groups: Tensor, shares: Tensor, count: int) -> Tensor:
        """Add up shares [R] · x² over the items of each of `count` groups: [G, Q]."""
        squares = shares[:, None] * features.to(self.weights.scale.dtype).square()  # [R, Q]
        return squares.new_zeros(count, features.shape[1]).index_add_(0, groups, squares)

    def summed_variances(self, sums: Tensor) -> Tensor:
        """Return the sums of Var W x for `square_sums`: [G, C]."""
        scale = self.weights.scale
        return sums.to(scale.dtype) @ scale.square()
