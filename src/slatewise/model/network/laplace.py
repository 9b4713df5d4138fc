"""How sure the network is of its last weights: a Gaussian, by the curvature of the likelihood.

Shapes: N slates, F items of all of them, H units of all members.
"""

import torch
from torch import Tensor

from slatewise.model.network.architecture import SlateNetwork
from slatewise.model.network.fitting import Choices

PRECISION = 1.0
"""Of the prior of each weight of a member; in the mean of all it is divided by their number."""


def covariance_root(network: SlateNetwork, choices: Choices, rows: Tensor) -> Tensor:
    """Return L with L Lᵀ the posterior covariance of w, from some slates [R]: [H, H] float32.

    The negative Hessian of the log-likelihood of choices is exact: over a slate, the covariance of
    φ under the predicted probabilities, where clicking nothing has φ = 0.
    """
    hidden = network.weights.in_features
    precision = network.members**2 * PRECISION * torch.eye(hidden, dtype=torch.float64)
    with torch.no_grad():
        for part in torch.split(rows, 2_048):
            inputs, cells = choices.inputs.take(part)
            last, none = network.hidden_units(inputs)
            utilities = (last @ network.last_weights.T)[:, 0] + network.position_utilities(inputs)
            utilities = utilities - none.index_select(0, inputs.rows)
            odds, pass_ = choices.options(utilities, torch.zeros_like(none), part, cells)
            odds, pass_ = odds.double(), pass_.double()
            peak = torch.segment_reduce(odds, "max", offsets=inputs.offsets, axis=0).clamp(min=0)
            share = (odds - peak.index_select(0, inputs.rows)).exp()
            total = torch.segment_reduce(share, "sum", offsets=inputs.offsets, axis=0)
            total = total + (pass_ - peak).exp() * choices.can_pass
            share = share / total.index_select(0, inputs.rows)  # [F]
            last = last.double()
            weighted = share[:, None] * last
            mean = torch.segment_reduce(weighted, "sum", offsets=inputs.offsets, axis=0)
            precision += (weighted.T @ last - mean.T @ mean).cpu()
    root = torch.linalg.cholesky(precision)
    # (R Rᵀ)⁻¹ = R⁻ᵀ R⁻¹
    inverse: Tensor = torch.linalg.solve_triangular(root, torch.eye(hidden).double(), upper=False)
    return inverse.T.float()
