"""The evidence lower bound of a batch (eq. elbo), per interaction."""

from dataclasses import dataclass

import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.model.gaussian import Gaussian
from slatewise.model.initial_states import BatchMoves
from slatewise.model.likelihood import BatchLikelihood, Candidates, Exposure, batch_likelihood
from slatewise.model.posterior import Posterior
from slatewise.model.profiles import moving_vectors, rolled_profiles
from slatewise.model.steps import ClickSteps


@dataclass(frozen=True)
class ItemRows:
    """The items a batch touches, by which the divergence of all items is carried."""

    items: Gaussian
    """[R, D] their posterior"""
    groups: Tensor
    """[R]"""
    shares: Tensor
    """[R] share of each item's divergence that this batch answers for: its touches in the batch
    over its expected touches in an epoch"""
    features: Tensor | None = None
    """[R, Q] if items have features"""


def negative_elbo(
    posterior: Posterior,
    rows: ItemRows,
    batch: Interactions,
    total: int,
    generator: torch.Generator,
    exposure: Exposure | None = None,
    candidates: Candidates | None = None,
) -> tuple[Tensor, BatchLikelihood]:
    """Estimate −ELBO / N with one draw: −mean log-likelihood + τ · KL / N.

    `batch.slate_items` and the candidates point into `rows`; `total` is N, the interactions of the
    whole training set. The estimate is unbiased in the draw, the batch and the candidates' sum.
    """
    drawn = posterior.prior.draw(rows.items, rows.groups, rows.shares, generator, rows.features)
    parameters = posterior.sample_around(drawn.vectors, generator)
    steps = ClickSteps.of(batch, parameters.evidence)
    moving = moving_vectors(parameters, steps)  # [K, D]
    divergence = posterior.shared_kl() / total
    moves = BatchMoves(batch, steps, moving, parameters.initial_state)
    start = posterior.parts.initial_state.training_start(moves, generator)
    profiles = rolled_profiles(parameters, steps, moving, start.states)
    likelihood = batch_likelihood(
        parameters, profiles, steps.state_of, batch, start.weights, exposure, candidates
    )
    of_items = posterior.prior.drawn_kl(drawn, generator) + start.divergence
    divergence = divergence + of_items / max(1, len(batch.clicks))
    counted = start.weights.sum().clamp(min=1)
    return -likelihood.total / counted + posterior.config.temperature * divergence, likelihood
