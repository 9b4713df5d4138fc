"""One value for everything the posterior is about."""

from dataclasses import dataclass

from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.features.position import positions
from slatewise.model.dynamics import LinearWeights, Weights
from slatewise.model.evidence import Evidence
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
    evidence: Evidence | None = None
    """what slates without a click say of the user, if anything"""
    cell_weights: Tensor | None = None
    """[P] of the features of items seen"""
    step_weights: Tensor | None = None
    """[Q] of the features of interactions, which act on the utility of not clicking"""
    positions: Tensor | None = None
    """[S] what the first, second, … position of a slate adds to the utility of its item"""

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

    def no_click_after(self, scroll: Tensor) -> Tensor:
        """Return log β_s for scroll lengths [N]; longer ones than known count as the longest."""
        return self.no_click.index_select(0, scroll.clamp(max=len(self.no_click)) - 1)

    def no_click_in(self, batch: Interactions) -> Tensor:
        """Return the utility of not clicking in each interaction, features included: [N]."""
        utility = self.no_click_after(batch.scroll_lengths)
        if self.step_weights is None:
            return utility
        return utility + required(batch.step_features) @ self.step_weights

    def passing(self, batch: Interactions) -> Tensor | None:
        """Return what features and positions add to the utility of items seen: [F], None for 0."""
        added = None
        if self.cell_weights is not None:
            added = required(batch.cell_features) @ self.cell_weights
        if self.positions is not None:
            place = self.positions[positions(batch).clamp(max=len(self.positions) - 1)]
            added = place if added is None else added + place
        return added


def required(features: Tensor | None) -> Tensor:
    """Refuse to go on without features where a model has weights for them."""
    if features is None:
        raise ValueError("the model has terms whose features the interactions lack: describe them")
    return features
