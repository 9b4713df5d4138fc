"""Weights by which terms rank the catalogue, beside those that explain a choice within a slate.

A likelihood of choices within slates says nothing of items that were not shown. Where clicks were
logged without slates, or are to be found among all items, the weights of the next click rank:

    u_i = relevance(z, v_i) + b_i + Σ_p ω_p x_p(i, user, time)

with ω fitted after everything else (`training.next_click`). P features of all terms that rank.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class RankingWeights:
    """A Gaussian of the weights by which terms rank, in the order of their columns."""

    mean: Tensor
    """[P]"""
    root: Tensor
    """[P, P] a root R of the covariance R Rᵀ"""
    again: "RankingWeights | None" = None
    """by which the best of a ranking are ranked again for a slate; None: the same"""

    def draw(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw the weights once: [P]."""
        noise = torch.randn(len(self.mean), generator=generator, device=self.mean.device)
        return self.mean + self.root @ noise

    def to(self, device: torch.device | str) -> "RankingWeights":
        """Return the same on a device."""
        again = None if self.again is None else self.again.to(device)
        return RankingWeights(self.mean.to(device), self.root.to(device), again)

    def tensors(self) -> dict[str, Tensor]:
        """Return all by name, to be saved."""
        more = {} if self.again is None else self.again.tensors()
        own = {"ranking.mean": self.mean, "ranking.root": self.root}
        return own | {f"again.{name}": tensor for name, tensor in more.items()}

    @classmethod
    def of_tensors(cls, tensors: Mapping[str, Tensor], prefix: str = "") -> "RankingWeights | None":
        """Take over what `tensors` returned, None where a run has none."""
        if (name := f"{prefix}ranking.mean") not in tensors:
            return None
        again = cls.of_tensors(tensors, f"{prefix}again.")
        return cls(tensors[name], tensors[f"{prefix}ranking.root"], again)
