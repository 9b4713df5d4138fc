"""Where users are: a profile from what was known before, and nothing later."""

import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.model.initial_states import BatchMoves
from slatewise.model.kernels.means import row_means
from slatewise.model.parameters import Parameters
from slatewise.model.steps import ClickSteps


def moving_vectors(parameters: Parameters, steps: ClickSteps) -> Tensor:
    """Return what each step moves its user towards: [K, D].

    It is the clicked item's vector, or the mean of the vectors of a slate without a click.
    """
    if steps.slates is None:
        return parameters.vectors_of(steps.clicked)
    slates = steps.slates
    ranges = slates.cells, slates.starts, slates.ends
    return row_means(parameters.items, *ranges, parameters.dimensions)


def rolled_profiles(
    parameters: Parameters, steps: ClickSteps, moving: Tensor, initial: Tensor
) -> Tensor:
    """Return the profile of every state, from first states [B, d_h]: [M, D]."""
    dynamics = parameters.parts.dynamics
    return dynamics.profiles(steps, moving, initial, parameters.weights, parameters.evidence)


def known_profiles(parameters: Parameters, batch: Interactions, steps: ClickSteps) -> Tensor:
    """Return the profile of every state from the clicks that led to it: [M, D].

    `batch.slate_items` points into `parameters.items`, and the steps are those of
    `parameters.evidence`.
    """
    moving = moving_vectors(parameters, steps)  # [K, D]
    return parameters.parts.initial_state.known_profiles(
        BatchMoves(batch, steps, moving, parameters.initial_state),
        lambda initial: rolled_profiles(parameters, steps, moving, initial),
    )


def present_profiles(
    parameters: Parameters, batch: Interactions, generator: torch.Generator | None = None
) -> Tensor:
    """Return the profile of every user now, after all her clicks: [B, D].

    With J draws in front of the parameters, [J, B, D]. With `generator`, what is uncertain about
    a single user's initial state is drawn too.
    """
    steps = ClickSteps.of(batch, parameters.evidence)
    moving = moving_vectors(parameters, steps)  # [K, D]
    moves = BatchMoves(batch, steps, moving, parameters.initial_state)
    start = parameters.parts.initial_state.present(moves, generator)
    return rolled_profiles(parameters, steps, moving, start)[..., steps.last_state, :]
