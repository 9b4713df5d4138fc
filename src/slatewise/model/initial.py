"""Where a user starts: the paper's amortised initial state, over a prefix of the clicks.

The paper averages over all of a user's clicks, also those that are then predicted: the first click
is predicted from itself. Here the average covers a prefix only, and nothing inside it is scored.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from slatewise.model.dynamics import ClickSteps
from slatewise.model.gaussian import gaussian_kl

_LEAST_VARIANCE = 0.01
"""One click has no spread, and a posterior without variance has no finite divergence."""
_NEVER = 1 << 62
"""A number of clicks that no prefix has."""


class InitialStates(NamedTuple):
    """q(h_0 | prefix) of B users in the order of `ClickSteps.users`."""

    mean: Tensor
    """[B, D]"""
    scale: Tensor
    """[B, D]"""
    known: Tensor
    """[B] whether the prefix has a click; else mean and scale are those of nobody in particular"""

    def sample(self, generator: torch.Generator | None) -> Tensor:
        """Draw the states of users whose prefix has a click; the others keep the mean."""
        noise = torch.randn(self.mean.shape, generator=generator, device=self.mean.device)
        return torch.where(self.known[:, None], self.mean + self.scale * noise, self.mean)

    def kl(self, prior_scale: float) -> Tensor:
        """KL divergence from N(0, prior_scale²) of the users with a click in the prefix: []."""
        zero, one = self.mean.new_zeros(()), self.mean.new_full((), prior_scale)
        each = gaussian_kl(self.mean, self.scale, zero, one).sum(-1)
        return (each * self.known).sum()


def amortised_initial(
    steps: ClickSteps,
    clicked: Tensor,
    prefix: Tensor,
    unknown: Tensor,
    *,
    memory: float,
    sigma_max: float,
) -> InitialStates:
    """Average the first `prefix` [B] clicks of each user (of `steps.users`) into a state.

    `clicked` [K, D] are the clicked items' vectors by step, and slates without a click among them
    are passed over; `unknown` [D] is the state without a click. A click weighs `memory` times what
    the next one weighs: the paper's w^(1/t) would rise with t for w < 1, not decay. The variance is
    the spread of those clicks. Vectors and state may have J posterior draws in front.
    """
    weighted = clicked.new_zeros(*clicked.shape[:-2], len(prefix), clicked.shape[-1])
    plain, squares = weighted.clone(), weighted.clone()
    mass = clicked.new_zeros(len(prefix), 1)
    numbers = torch.where(steps.clicked >= 0, steps.clicks_before[len(prefix) :], _NEVER)  # [K]
    start = 0
    for active in steps.active:
        inside = (numbers[start : start + active] <= prefix[:active])[:, None]
        vector = clicked[..., start : start + active, :]
        rest = len(prefix) - active
        taken = torch.nn.functional.pad(torch.where(inside, vector, 0), (0, 0, 0, rest))
        decay = torch.nn.functional.pad(torch.where(inside, memory, 1.0), (0, 0, 0, rest), value=1)
        weighted = weighted * decay + taken
        mass = mass * decay + torch.nn.functional.pad(inside.float(), (0, 0, 0, rest))
        plain, squares = plain + taken, squares + taken.square()
        start += active
    known = prefix > 0
    count = prefix.clamp(min=1)[:, None]
    variance = (squares / count - (plain / count).square()).clamp(min=0) + _LEAST_VARIANCE
    mean = torch.where(known[:, None], weighted / mass.clamp(min=1e-6), unknown[..., None, :])
    return InitialStates(mean, variance.sqrt().clamp(max=sigma_max), known)
