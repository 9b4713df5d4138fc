"""User profiles for prediction: each from what was known before, and nothing later."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.model.dynamics import ClickSteps, user_profiles
from slatewise.model.initial import amortised_initial
from slatewise.model.parameters import Parameters

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig


def known_profiles(
    parameters: Parameters, config: "ModelConfig", batch: Interactions, steps: ClickSteps
) -> Tensor:
    """Return the profile of every state from the clicks that led to it: [M, D].

    `batch.slate_items` points into `parameters.items`. With an amortised initial state, the state
    after t clicks starts from the average of just those t, so every t is rolled out by itself.
    """
    clicked = parameters.vectors_of(steps.clicked)  # [K, D]
    if config.initial_state == "causal":
        start = parameters.initial_state.expand(batch.num_users, -1)
        return user_profiles(steps, clicked, start, parameters.weights)
    sizes = [batch.num_users, *steps.active]
    blocks = []
    for clicks, block in enumerate(_blocks(sizes)):
        prefix = torch.full((batch.num_users,), clicks, device=clicked.device)
        prefix[sizes[clicks] :] = 0  # they have fewer clicks, and no state in this block
        initial = amortised_initial(
            steps,
            clicked,
            prefix,
            parameters.initial_state,
            memory=config.memory,
            sigma_max=config.sigma_max,
        )
        blocks.append(user_profiles(steps, clicked, initial.mean, parameters.weights)[block])
    return torch.cat(blocks)


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
    steps = ClickSteps.of(batch)
    clicked = parameters.vectors_of(steps.clicked)  # [K, D]
    if config.initial_state == "causal":
        start = parameters.initial_state[..., None, :].expand(
            *clicked.shape[:-2], batch.num_users, -1
        )
    else:
        initial = amortised_initial(
            steps,
            clicked,
            _clicks(batch)[steps.users],
            parameters.initial_state,
            memory=config.memory,
            sigma_max=config.sigma_max,
        )
        start = initial.mean if generator is None else initial.sample(generator)
    return user_profiles(steps, clicked, start, parameters.weights)[..., steps.last_state, :]


def _clicks(batch: Interactions) -> Tensor:
    """Count the clicks of each user: [B]."""
    seen = torch.nn.functional.pad((batch.clicks >= 0).long().cumsum(0), (1, 0))
    return seen[batch.user_offsets].diff()


def _blocks(sizes: list[int]) -> list[slice]:
    ends = torch.tensor(sizes).cumsum(0).tolist()
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
