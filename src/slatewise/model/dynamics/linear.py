"""Linear dynamics: a click moves the user part of the way to the item (eq. linearmodel)."""

import functools
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from slatewise.compiled.gpu import takes_triton
from slatewise.model.dynamics import Floats, Ints, Recurrent
from slatewise.model.gaussian import Gaussian
from slatewise.model.kernels.backend import takes_numba
from slatewise.model.kernels.dynamics import roll_linear
from slatewise.model.part import Noise, Parameter
from slatewise.model.resident import ResidentBatch

_GAMMA_MEAN, _GAMMA_SCALE = 0.5, 0.3
"""Prior of γ: N(.5, .3) cut to [0, 1]."""
_NODES, _MASSES = (part.tolist() for part in np.polynomial.hermite_e.hermegauss(32))


class LinearWeights(NamedTuple):
    """The parameter of the linear user model."""

    drift: Tensor
    """[] γ in [0, 1], what stays of the state at a click; [J, 1, 1] for J draws"""


class Linear(Recurrent):
    """h' = γ h + (1 − γ) v, and the profile is the state."""

    name = "linear"
    first_stage: ClassVar[str | None] = None

    @classmethod
    def check(cls, config: Any) -> None:
        """Refuse a hidden dimension: the state is a point among the items."""
        super().check(config)
        if config.hidden not in (None, config.dimensions):
            raise ValueError("linear dynamics have no hidden dimension of their own")

    def parameters(self, noise: Noise) -> dict[str, Parameter]:
        """Return the logit of γ: a clamp would die at 1."""
        return {"drift_logit": Parameter(torch.zeros(()), None)}

    def divergence(self, posterior: Mapping[str, Gaussian]) -> Tensor:
        """KL divergence of γ from its prior: []."""
        return drift_kl(posterior["drift_logit"])

    def weights(self, values: Mapping[str, Tensor]) -> LinearWeights:
        """Return γ, which may have J draws in front."""
        drift = torch.sigmoid(values["drift_logit"])
        return LinearWeights(drift[:, None, None] if drift.ndim else drift)

    def step(self, state: Tensor, inputs: Tensor, weights: LinearWeights) -> Tensor:
        """Move the state towards the clicked item: h' = γ h + (1 − γ) v (eq. linearmodel)."""
        return weights.drift * state + (1 - weights.drift) * inputs

    def gates(self, state: Tensor, inputs: Tensor, weights: LinearWeights) -> tuple[Tensor, Tensor]:
        """Return γ, and the item."""
        return weights.drift, inputs

    def slate_target(self, inputs: Tensor, weights: LinearWeights) -> Tensor:
        """Return the mean of the slate."""
        return inputs

    def fused(
        self,
        moving: Tensor,
        initial: Tensor,
        weights: LinearWeights,
        fractions: Tensor,
        kinds: Tensor,
        active: list[int],
    ) -> Tensor | None:
        """Roll out all users in one compiled loop."""
        if moving.ndim > 2 or not takes_numba("auto", moving.shape[1], [moving, initial]):
            return None
        return roll_linear(moving, weights.drift, initial, fractions, kinds, active)

    def scanned(
        self, batch: ResidentBatch, moving: Tensor, initial: Tensor, weights: LinearWeights
    ) -> Tensor | None:
        """Roll out all users in one kernel."""
        if not takes_triton(moving, initial):
            return None
        from slatewise.model.kernels.gpu.scan import scan_linear  # noqa: PLC0415

        return scan_linear(moving, initial, weights.drift, batch.event_offsets)

    def follow(
        self, vectors: Floats, kinds: Ints, initial: Floats, values: Mapping[str, Floats]
    ) -> Floats:
        """Move one user through her events, all draws at once."""
        state = np.array(initial, dtype=np.float32)  # [J, D]
        fractions = np.tanh(values.get("evidence", np.empty((len(vectors), 0), np.float32)))
        drift = 1 / (1 + np.exp(-values["drift_logit"][:, None]))  # [J, 1]
        for step, kind in enumerate(kinds.tolist()):
            gap = vectors[:, step] - state
            state += (1 - drift if kind < 0 else _slate_share(fractions[:, kind, None], gap)) * gap
        return state


def _slate_share(fraction: Floats, gap: Floats) -> Floats:
    """Return the share of the gap [J, D] that a slate closes, as `evidence.slate_share`: [J, 1]."""
    relevance = np.exp(-np.linalg.norm(gap, axis=1, keepdims=True))
    return np.where(fraction > 0, fraction, fraction * relevance)


@functools.cache
def _quadrature(device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return nodes and masses where they are needed: a step does not wait for a copy of them."""
    nodes, mass = (torch.tensor(each, dtype=dtype, device=device) for each in (_NODES, _MASSES))
    return nodes, mass


def drift_kl(logit: Gaussian) -> Tensor:
    """KL divergence of γ = sigmoid(logit) from N(.5, .3) cut to [0, 1], by Gauss-Hermite: []."""
    nodes, mass = _quadrature(logit.mean.device, logit.mean.dtype)
    points = logit.mean + logit.scale * nodes
    gamma = torch.sigmoid(points)
    half = 0.5 / _GAMMA_SCALE / math.sqrt(2)
    log_normaliser = math.log(_GAMMA_SCALE * math.sqrt(2 * math.pi) * math.erf(half))
    log_prior = -0.5 * ((gamma - _GAMMA_MEAN) / _GAMMA_SCALE).square() - log_normaliser
    log_jacobian = torch.nn.functional.logsigmoid(points) + torch.nn.functional.logsigmoid(-points)
    entropy = logit.scale.log() + 0.5 * math.log(2 * math.pi * math.e)
    return -entropy - (mass * (log_prior + log_jacobian)).sum() / mass.sum()


PART: Final = Linear
