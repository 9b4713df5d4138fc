"""A logarithmic pool of the model and of terms that see whole slates.

    log P(i | slate)  = κ u_i + Σ_q a_q y_q(i, slate) + …
    log P(no click)   = κ u_0 + c + …

with u the utilities of the model without such terms, by which it was fitted and ranks all items,
and y the utility that such a term gives an item in its slate. κ, a and c are fitted last
(`training.pool`). Fitted together with a network, vectors and weights would learn only what the
network leaves unexplained, and would rank the catalogue by that: the network does not rank it.

Parameters hold the weights a / κ beside those of other terms, so that in a slate every utility is κ
times a sum of terms.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class SlatePool:
    """The weights of the model in a pool with terms that see whole slates."""

    sharpness: float
    """κ"""
    no_click: float
    """c, added to the utility of clicking nothing"""

    def tensors(self) -> dict[str, Tensor]:
        """Return both by name, to be saved."""
        return {"pool": torch.tensor([self.sharpness, self.no_click], dtype=torch.float64)}

    @classmethod
    def of_tensors(cls, tensors: Mapping[str, Tensor]) -> "SlatePool | None":
        """Take over what `tensors` returned, None where a run has none."""
        return cls(*tensors["pool"].tolist()) if "pool" in tensors else None
