"""What the kernels ask of a relevance; `slatewise.model.relevance` has those there are."""

from typing import Literal, Protocol

from torch import Tensor

FusedRelevance = Literal["distance", "dot"]
"""Names of those that the compiled loops know."""


class RelevanceFunction(Protocol):
    """A utility of states and vectors, differentiable in both.

    Anything with these attributes can be trained: with `fused`, by the compiled loops, which know
    it by its name; without, by the reference in torch.
    """

    @property
    def name(self) -> str:
        """Return what errors, and the compiled loops, call it."""

    @property
    def fused(self) -> bool:
        """Return whether the compiled loops know it."""

    def pairs(self, states: Tensor, vectors: Tensor, /) -> Tensor:
        """Return the utility of each vector [..., D] to its own state [..., D]: [...]."""

    def many(self, states: Tensor, vectors: Tensor, /) -> Tensor:
        """Return the utilities of vectors [K, D] to states [M, D], for a sum over many: [M, K]."""
