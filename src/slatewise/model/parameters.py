"""One value for everything the posterior is about."""

from dataclasses import dataclass

from torch import Tensor

from slatewise.model.dynamics import Weights


@dataclass(frozen=True)
class Parameters:
    """θ: a draw from the posterior, or its mean; what likelihood and strategies take."""

    items: Tensor
    """[I, D] item vectors v_i, or the rows of a batch's items"""
    weights: Weights
    """the user dynamics"""
    initial_state: Tensor
    """[d_h] h_0 of a user nobody knows yet"""
    no_click: Tensor
    """[S] log β_s, the utility of not clicking after s = 1 … S items seen"""

    def no_click_after(self, scroll: Tensor) -> Tensor:
        """Return log β_s for scroll lengths [N]; longer ones than known count as the longest."""
        return self.no_click.index_select(0, scroll.clamp(max=len(self.no_click)) - 1)
