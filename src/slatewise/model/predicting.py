"""User profiles for prediction: each from what was known before, and nothing later."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.model.dynamics import ClickSteps, user_profiles
from slatewise.model.initial import amortised_initial
from slatewise.model.kernels.means import row_means
from slatewise.model.parameters import Parameters

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig


def moving_vectors(parameters: Parameters, steps: ClickSteps) -> Tensor:
    """Return what each step moves its user towards: [K, D].

    It is the clicked item's vector, or the mean of the vectors of a slate without a click.
    """
    if steps.slates is None:
        return parameters.vectors_of(steps.clicked)
    slates = steps.slates
    ranges = slates.cells, slates.starts, slates.ends
    return row_means(parameters.items, *ranges, parameters.dimensions)


def known_profiles(
    parameters: Parameters, config: "ModelConfig", batch: Interactions, steps: ClickSteps
) -> Tensor:
    """Return the profile of every state from the clicks that led to it: [M, D].

    `batch.slate_items` points into `parameters.items`, and the steps are those of
    `parameters.evidence`. With an amortised initial state, the state after t clicks starts from the
    average of just those t, so every t is rolled out by itself.
    """
    moving = moving_vectors(parameters, steps)  # [K, D]
    if config.initial_state == "causal":
        start = parameters.initial_state.expand(batch.num_users, -1)
        return user_profiles(steps, moving, start, parameters.weights, parameters.evidence)
    clicks, own = steps.clicks_before[:, None], _clicks(batch)[steps.users]  # [M, 1], [B]
    profiles = moving.new_zeros(len(clicks), parameters.dimensions)
    for count in range(max(own.tolist(), default=0) + 1):
        initial = amortised_initial(
            steps,
            moving,
            torch.where(own >= count, count, 0),  # who has fewer clicks has no such state
            parameters.initial_state,
            memory=config.memory,
            sigma_max=config.sigma_max,
        )
        rolled = user_profiles(steps, moving, initial.mean, parameters.weights, parameters.evidence)
        profiles = torch.where(clicks == count, rolled, profiles)
    return profiles


def present_profiles(
    parameters: Parameters,
    config: "ModelConfig",
    batch: Interactions,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return the profile of every user now, after all her clicks: [B, D].

    With J draws in front of the parameters, [J, B, D]; an amortised initial state is then drawn
    too, by `generator`.
    """
    steps = ClickSteps.of(batch, parameters.evidence)
    moving = moving_vectors(parameters, steps)  # [K, D]
    if config.initial_state == "causal":
        start = parameters.initial_state[..., None, :].expand(
            *moving.shape[:-2], batch.num_users, -1
        )
    else:
        initial = amortised_initial(
            steps,
            moving,
            _clicks(batch)[steps.users],
            parameters.initial_state,
            memory=config.memory,
            sigma_max=config.sigma_max,
        )
        start = initial.mean if generator is None else initial.sample(generator)
    profiles = user_profiles(steps, moving, start, parameters.weights, parameters.evidence)
    return profiles[..., steps.last_state, :]


def _clicks(batch: Interactions) -> Tensor:
    """Count the clicks of each user: [B]."""
    seen = torch.nn.functional.pad((batch.clicks >= 0).long().cumsum(0), (1, 0))
    return seen[batch.user_offsets].diff()
