"""One value for everything the posterior is about."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from slatewise.model.evidence import SlateEvidence
from slatewise.model.kernels.lookup import lookup
from slatewise.model.kernels.slate import split_bias
from slatewise.model.pool import SlatePool
from slatewise.model.terms.position import RETURNS

if TYPE_CHECKING:
    from slatewise.model.parts import Parts


@dataclass(frozen=True)
class Parameters:
    """θ: a draw from the posterior, or its mean; what likelihood and strategies take."""

    parts: "Parts"
    """the parts of the model, which know what the numbers mean"""
    items: Tensor
    """[I, D] item vectors v_i, [I, D + 1] with biases b_i after them; or those of a batch"""
    weights: Any
    """of the user dynamics"""
    initial_state: Tensor
    """[d_h] h_0 of a new user"""
    no_click: Tensor
    """[S] log β_s, the utility of not clicking after s = 1 … S items seen"""
    evidence: SlateEvidence | None = None
    """how slates without a click move the user; None if they do not"""
    cell_weights: Tensor | None = None
    """[P] of the features of items seen"""
    step_weights: Tensor | None = None
    """[Q] of the features of interactions, which act on the utility of not clicking"""
    positions: Tensor | None = None
    """[S] what the first, second, … position of a slate adds to the utility of its item"""
    position_factors: Tensor | None = None
    """[number of sources + R] logarithms of the factors of positions: of each source, and of users
    who have seen slates before"""
    ranking_weights: Tensor | None = None
    """[P] of the features of terms that rank, where the catalogue is ranked; None: `cell_weights`
    rank as well"""
    source_no_click: Tensor | None = None
    """[number of sources] what each source adds to the utility of not clicking"""
    variances: Tensor | None = None
    """[I] of the item vectors, summed over dimensions, where the items are means and predictions
    know how uncertain they are"""

    pool: SlatePool | None = None
    """how much all this counts in slates, where other terms see these; None: in full"""
    enough: Tensor | None = None
    """[3] utility of having enough after one, two, … clicks on a slate, beside log(items left)"""

    @property
    def dimensions(self) -> int:
        """D, the dimension of item vectors."""
        return self.parts.dimensions

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

    def of_items(self, rows: Tensor) -> "Parameters":
        """Return the same with only the items at rows [K]."""
        variances = None if self.variances is None else self.variances[rows]
        return replace(self, items=self.items[rows], variances=variances)

    def with_spread(self, profiles: Tensor) -> tuple[Tensor, Tensor]:
        """Return profiles [M, D'] and items [I, C'] as utilities compare them.

        Where the variances of items are known, the relevance may add dimensions for them.
        """
        if self.variances is None:
            return profiles, self.items
        vectors, biases = split_bias(self.items, self.dimensions)
        relevance = self.parts.relevance
        profiles, vectors = relevance.with_spread(profiles, vectors, self.variances)
        return profiles, vectors if biases is None else torch.cat([vectors, biases[:, None]], 1)

    def no_click_after(self, scroll: Tensor, sources: Tensor) -> Tensor:
        """Return log β_s for scroll lengths [N] of slates from sources [N].

        Lengths beyond those known count as the longest.
        """
        utility = lookup(self.no_click, scroll.clamp(max=len(self.no_click)) - 1)
        if self.source_no_click is None:
            return utility
        return utility + lookup(self.source_no_click, sources.int())

    def enough_after(self, clicks: Tensor, left: Tensor) -> Tensor | None:
        """Return the utility of enough after clicks [...], with items left [...] to click.

        None for a model that knows of no slate with several clicks.
        """
        if self.enough is None:
            return None
        utility = lookup(self.enough, (clicks - 1).clamp(0, len(self.enough) - 1))
        return utility + left.clamp(min=1).log()

    def position_factor(self, sources: Tensor, slates_before: Tensor) -> Tensor | None:
        """Return the factor of positions for sources [...] and slates seen before [...]."""
        if self.position_factors is None:
            return None
        own, returns = (
            self.position_factors[: -len(RETURNS)],
            self.position_factors[-len(RETURNS) :],
        )
        seen = torch.stack([slates_before >= count for count in RETURNS], dim=-1)
        return (lookup(own, sources.int()) + (seen * returns).sum(-1)).exp()
