"""The evidence lower bound of a batch (eq. elbo), per interaction."""

from dataclasses import dataclass

import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.model.dynamics import ClickSteps, user_profiles
from slatewise.model.gaussian import Gaussian
from slatewise.model.initial import amortised_initial
from slatewise.model.likelihood import BatchLikelihood, Candidates, Exposure, batch_likelihood
from slatewise.model.posterior import Posterior
from slatewise.model.predicting import moving_vectors


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
    config = posterior.config
    drawn = posterior.prior.draw(rows.items, rows.groups, rows.shares, generator, rows.features)
    parameters = posterior.sample_around(drawn.vectors, generator)
    steps = ClickSteps.of(batch, parameters.evidence)
    moving = moving_vectors(parameters, steps)  # [K, D]
    weights = torch.ones(len(batch.clicks), device=moving.device)
    divergence = posterior.shared_kl() / total
    if config.initial_state == "amortised":
        prefix = random_prefix(batch, steps, generator)  # [B]
        initial = amortised_initial(
            steps,
            moving,
            prefix,
            parameters.initial_state,
            memory=config.memory,
            sigma_max=config.sigma_max,
        )
        start = initial.sample(generator)
        weights = after_prefix(batch, steps, prefix)
        divergence = divergence + initial.kl(config.sigma_h0) / max(1, len(batch.clicks))
    else:
        start = parameters.initial_state.expand(batch.num_users, -1)
    profiles = user_profiles(steps, moving, start, parameters.weights, parameters.evidence)
    likelihood = batch_likelihood(
        parameters, profiles, steps.state_of, batch, weights, exposure, candidates
    )
    item_divergence = posterior.prior.drawn_kl(drawn, generator)
    divergence = divergence + item_divergence / len(batch.clicks)
    loss = -likelihood.total / weights.sum().clamp(min=1) + config.temperature * divergence
    return loss, likelihood


def random_prefix(batch: Interactions, steps: ClickSteps, generator: torch.Generator) -> Tensor:
    """Draw how many of each user's clicks make her initial state: 0 to all, [B] by step order."""
    seen = torch.nn.functional.pad((batch.clicks >= 0).long().cumsum(0), (1, 0))
    clicks = seen[batch.user_offsets].diff()[steps.users]
    return (torch.rand(len(clicks), generator=generator) * (clicks + 1)).long()


def after_prefix(batch: Interactions, steps: ClickSteps, prefix: Tensor) -> Tensor:
    """Mark with 1 the interactions that come after the prefix's clicks: [N]."""
    users = torch.repeat_interleave(batch.user_offsets.diff())
    seen = torch.nn.functional.pad((batch.clicks >= 0).long().cumsum(0), (1, 0))
    before = seen[:-1] - seen[batch.user_offsets[:-1]][users]
    own = torch.empty_like(prefix)
    own[steps.users] = prefix
    return (before >= own[users]).float()
