"""What the network says of candidates for a slate, by the mean of its last weights or in draws.

Shapes: K candidates, k of them in the slate, J draws, H units of all members, Q features of a
slate.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from slatewise.data.ragged import Int64Array
from slatewise.model.network.architecture import SlateInputs, SlateNetwork

Floats = npt.NDArray[np.float32]

ALWAYS: Final = 10.0
"""How far clicking nothing lies below all items where every training slate has a click."""


@dataclass(frozen=True)
class SlateCandidates:
    """The candidates for one slate to one user."""

    network: SlateNetwork
    inputs: SlateInputs
    """of one slate, which holds all candidates; its length is that of the slate to be shown"""
    root: Tensor
    """[H, H] of the covariance of the last weights"""
    can_pass: bool
    """whether clicking nothing is an option"""

    @cached_property
    def _units(self) -> Tensor:
        with torch.no_grad():
            return self.network.item_units(self.inputs)  # [K, H]

    def mean(self, shown: Int64Array) -> Floats:
        """Return utilities [K, 2] where the candidates at `shown` [k] are the slate; of position 0.

        Any other is seen in the slate in place of the last of them.
        """
        found: Floats = self._columns(shown, self.network.last_weights)[0]
        return found

    def draws(self, shown: Int64Array, count: int, rng: np.random.Generator) -> Floats:
        """Return the same in draws of the last weights: [J, K, 2]."""
        noise = torch.from_numpy(rng.standard_normal((count, len(self.root)), np.float32))
        return self._columns(shown, self.network.last_weights + noise @ self.root.T)

    def _columns(self, shown: Int64Array, weights: Tensor) -> Floats:
        """Return utilities above clicking nothing, with weights [J, H]: [J, K, 2]."""
        indices = torch.from_numpy(shown)
        with torch.no_grad():
            last, none = self.network.units_beside(self._units, self.inputs.slates, indices)
            utilities = weights @ last.T  # [J, K]
            if self.can_pass:
                utilities = utilities - none
            else:
                level = utilities.index_select(1, indices).logsumexp(1, keepdim=True)
                utilities = utilities - level + ALWAYS
            return torch.stack([utilities, torch.zeros_like(utilities)], 2).numpy()
