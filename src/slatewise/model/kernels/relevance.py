"""Relevance functions: how a state z and an item vector v make a utility, before bias and terms."""

from typing import ClassVar, Literal, Protocol

import torch
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


class _Distance:
    name: ClassVar[str] = "distance"
    fused: ClassVar[bool] = True

    def pairs(self, states: Tensor, vectors: Tensor) -> Tensor:
        return -safe_norm(states - vectors)

    def many(self, states: Tensor, vectors: Tensor) -> Tensor:
        return -many_distances(states, vectors)


class _Dot:
    name: ClassVar[str] = "dot"
    fused: ClassVar[bool] = True

    def pairs(self, states: Tensor, vectors: Tensor) -> Tensor:
        return (states * vectors).sum(-1)

    def many(self, states: Tensor, vectors: Tensor) -> Tensor:
        return states @ vectors.T


DISTANCE, DOT = _Distance(), _Dot()
"""−‖z − v‖, which is the paper's, and z · v."""


def safe_norm(difference: Tensor) -> Tensor:
    """Return Euclidean norms whose derivative at zero is zero instead of NaN."""
    squared = difference.square().sum(-1)
    zero = squared == 0
    return torch.where(zero, 0.0, torch.where(zero, 1.0, squared).sqrt())


def many_distances(profiles: Tensor, items: Tensor) -> Tensor:
    """Return Euclidean distances [M, K] through one matrix product.

    Expanding the square costs digits where points are close: around the items' centre, a distance
    is wrong by a few thousandths where points coincide, which a sum over a catalogue does not
    notice.
    """
    centre = items.mean(0)
    profiles, items = profiles - centre, items - centre
    squares = profiles.square().sum(1)[:, None] + items.square().sum(1)
    return (squares - 2 * profiles @ items.T).clamp(min=1e-6).sqrt()
