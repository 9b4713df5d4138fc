"""GRU dynamics: a click moves the user as far as gates let it (eq. gru)."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
import torch
from pydantic import PositiveFloat
from torch import Tensor

from slatewise.compiled.gpu import takes_triton
from slatewise.config import Config, Search
from slatewise.model.dynamics import Floats, Ints, Recurrent
from slatewise.model.kernels.backend import loops, takes_numba
from slatewise.model.kernels.dynamics import roll_gru
from slatewise.model.part import Noise, Parameter
from slatewise.model.resident import ResidentBatch


class GruWeights(NamedTuple):
    """The matrices of the GRU; reset gate, update gate and new gate are stacked in this order."""

    from_item: Tensor
    """[3 d_h, D] W_ir, W_id, W_in"""
    from_state: Tensor
    """[3 d_h, d_h] W_hr, W_hd, W_hn"""
    output: Tensor
    """[D, d_h] W_z"""


class GruSettings(Config):
    """Settings of the GRU; its `hidden` dimension stands among those of the model."""

    sigma_rnn: Annotated[PositiveFloat, Search(0.1, 10.0)] = 1.0
    """σ_rnn, prior of the GRU's weights."""


class Gru(Recurrent):
    """The paper's gates, without bias terms: h ← (1 − Υ) n + Υ h, and the profile is W_z h."""

    name = "gru"
    Settings = GruSettings

    @classmethod
    def usual_settings(cls, state_size: int) -> dict[str, Any]:
        """Return a σ_rnn that shrinks with d_h.

        There are d_h² weights: under one prior for all d_h, their divergence eats what more
        dimensions explain.
        """
        return {"sigma_rnn": round(state_size**-0.5, 3)}

    @property
    def state_size(self) -> int:
        """d_h, the dimension of the hidden state."""
        return self.config.hidden or self.config.dimensions

    def parameters(self, noise: Noise) -> dict[str, Parameter]:
        """Start like the linear model: the new gate copies the clicked item."""
        hidden, d, sigma = self.state_size, self.config.dimensions, self.settings.sigma_rnn
        copy = torch.cat([torch.zeros(2 * hidden, d), torch.eye(hidden, d)])
        small = 1 / math.sqrt(hidden)
        starts = {
            "from_item": copy + 0.1 * small * noise(3 * hidden, d),
            "from_state": 0.1 * small * noise(3 * hidden, hidden),
            "output": torch.eye(d, hidden) + 0.1 * small * noise(d, hidden),
        }
        return {name: Parameter(start, sigma) for name, start in starts.items()}

    def weights(self, values: Mapping[str, Tensor]) -> GruWeights:
        """Return the three matrices, which may have J draws in front."""
        return GruWeights(values["from_item"], values["from_state"], values["output"])

    def inputs(self, moving: Tensor, weights: GruWeights) -> Tensor:
        """Return W_i v of all steps: [..., K, 3 d_h]."""
        return moving @ weights.from_item.mT

    def gates(self, state: Tensor, inputs: Tensor, weights: GruWeights) -> tuple[Tensor, Tensor]:
        """Return the update gate Υ and the new gate n at clicks with W_i v [B, 3 d_h] (eq. gru)."""
        reset_in, update_in, new_in = inputs.chunk(3, dim=-1)
        reset_state, update_state, new_state = (state @ weights.from_state.mT).chunk(3, dim=-1)
        reset = torch.sigmoid(reset_in + reset_state)
        update = torch.sigmoid(update_in + update_state)
        return update, torch.tanh(new_in + reset * new_state)

    def slate_target(self, inputs: Tensor, weights: GruWeights) -> Tensor:
        """Return tanh(W_in v̄) of the mean v̄ of the slate: the new gate without the state."""
        return torch.tanh(inputs.chunk(3, dim=-1)[2])

    def output(self, states: Tensor, weights: GruWeights) -> Tensor:
        """Return z = W_z h."""
        return states @ weights.output.mT

    def fused(
        self,
        moving: Tensor,
        initial: Tensor,
        weights: GruWeights,
        fractions: Tensor,
        kinds: Tensor,
        active: list[int],
    ) -> Tensor | None:
        """Roll out all users in one compiled loop."""
        if moving.ndim > 2 or not takes_numba("auto", moving.shape[1], [moving, initial]):
            return None
        return roll_gru(moving, weights, initial, fractions, kinds, active)

    def scanned(
        self, batch: ResidentBatch, moving: Tensor, initial: Tensor, weights: GruWeights
    ) -> Tensor | None:
        """Roll out all users in one kernel."""
        if not takes_triton(moving, initial):
            return None
        from slatewise.model.kernels.gpu.scan import fits_gru, scan_gru  # noqa: PLC0415

        if not fits_gru(initial.shape[-1], initial.device):
            return None
        inputs = self.inputs(moving, weights)
        return scan_gru(
            inputs, initial, weights.from_state, batch.event_offsets, batch.state_before
        )

    def follow(
        self, vectors: Floats, kinds: Ints, initial: Floats, values: Mapping[str, Floats]
    ) -> Floats:
        """Move one user through her events in a compiled loop, draw after draw."""
        vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        state = np.array(initial, dtype=np.float32)  # [J, d_h]
        fractions = np.tanh(values.get("evidence", np.empty((len(vectors), 0), np.float32)))
        profiles = np.empty((len(vectors), vectors.shape[2]), np.float32)
        matrices = values["from_item"], values["from_state"], values["output"]
        loops("single_user").follow_gru(vectors, kinds, *matrices, fractions, state, profiles)
        return profiles


PART: Final = Gru
