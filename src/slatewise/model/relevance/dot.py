"""The relevance of matrix factorisation: the more an item points the user's way, the better."""

from typing import ClassVar, Final

import numpy as np
from torch import Tensor

from slatewise.model.relevance import Array, Relevance


class Dot(Relevance):
    """z · v."""

    name = "dot"
    fused: ClassVar[bool] = True
    words: ClassVar[str] = "how much it points the user's way"

    def pairs(self, profiles: Tensor, vectors: Tensor) -> Tensor:
        """Return z · v."""
        return (profiles * vectors).sum(-1)

    def exact(self, profiles: Tensor, vectors: Tensor) -> Tensor:
        """Return z · v through one matrix product."""
        return profiles @ vectors.T

    def with_spread(
        self, profiles: Tensor, vectors: Tensor, variances: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Leave all as it is: E z · v is z · E v."""
        return profiles, vectors

    def gradients(self, profile: Array, vectors: Array, variances: Array) -> tuple[Array, Array]:
        """Return z · μ, and its derivatives z."""
        return (profile * vectors).sum(axis=1), np.broadcast_to(profile, vectors.shape)

    def of_arrays(self, profiles: Array, vectors: Array) -> Array:
        """Return z · v."""
        return np.asarray(np.einsum("...d,...d->...", profiles, vectors))


PART: Final = Dot
