"""One value for everything the posterior is about."""

from dataclasses import dataclass

import torch
from torch import Tensor

from slatewise.model.dynamics import LinearWeights, Weights
from slatewise.model.kernels.slate import split_bias


@dataclass(frozen=True)
class Parameters:
    """θ: a draw from the posterior, or its mean; what likelihood and strategies take."""

    items: Tensor
    """[I, D] item vectors v_i, [I, D + 1] with biases b_i after them; or those of a batch"""
    weights: Weights
    """the user dynamics"""
    initial_state: Tensor
    """[d_h] h_0 of a user nobody knows yet"""
    no_click: Tensor
    """[S] log β_s, the utility of not clicking after s = 1 … S items seen"""

    @property
    def dimensions(self) -> int:
        """D, the dimension of item vectors."""
        linear = isinstance(self.weights, LinearWeights)
        return self.initial_state.shape[-1] if linear else self.weights.output.shape[-2]  # type: ignore[union-attr]

    @property
    def vectors(self) -> Tensor:
        """[I, D] item vectors v_i."""
        return split_bias(self.items, self.dimensions)[0]

    @property
    def biases(self) -> Tensor | None:
        """[I] item biases b_i, if there are any."""
        return split_bias(self.items, self.dimensions)[1]

    def vectors_of(self, items: Tensor) -> Tensor:
        """Look up the vectors of items [K]: [K, D]."""
        # Not from `vectors`: the gradient of that slice would be as large as the table.
        return split_bias(self.items.index_select(-2, items), self.dimensions)[0]

    def lasting(self, profiles: Tensor) -> Tensor:
        """Return −‖z − v_i‖ + b_i for profiles [B, D] and all items: [B, I].

        It is what ranks: the part of the utility that is not about one slate or one moment.
        """
        utility = -torch.cdist(profiles, self.vectors)
        return utility if self.biases is None else utility + self.biases

    def no_click_after(self, scroll: Tensor) -> Tensor:
        """Return log β_s for scroll lengths [N]; longer ones than known count as the longest."""
        return self.no_click.index_select(0, scroll.clamp(max=len(self.no_click)) - 1)
