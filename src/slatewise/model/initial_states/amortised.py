"""The paper's amortised initial state, over a prefix of the clicks.

The paper averages over all of a user's clicks, also those that are then predicted: the first click
is predicted from itself. Here the average covers a prefix only, and nothing inside it is scored.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from slatewise.config import Config
from slatewise.data.interactions import Interactions
from slatewise.model.dynamics import single_user_steps
from slatewise.model.gaussian import gaussian_kl
from slatewise.model.initial_states import (
    BatchMoves,
    Floats,
    InitialState,
    Ints,
    TrainingStart,
    click_counts,
)
from slatewise.model.noise import KeyedNoise
from slatewise.model.part import Device
from slatewise.model.resident import ResidentBatch
from slatewise.model.steps import ClickSteps

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
    """[B] whether the prefix has a click; else the mean is that of a new user"""

    def sample(self, generator: torch.Generator | None) -> Tensor:
        """Draw the states of users whose prefix has a click; the others keep the mean."""
        shape, device = self.mean.shape, self.mean.device
        return self.drawn(torch.randn(shape, generator=generator, device=device))

    def drawn(self, noise: Tensor) -> Tensor:
        """Draw them with given noise [B, D]."""
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
    return _around_clicks(weighted, mass, plain, squares, prefix, unknown, sigma_max)


def _around_clicks(
    weighted: Tensor,
    mass: Tensor,
    plain: Tensor,
    squares: Tensor,
    prefix: Tensor,
    unknown: Tensor,
    sigma_max: float,
) -> InitialStates:
    """Return q(h_0) from sums over the clicks of a prefix: weighted ones, plain ones, squares."""
    known = prefix > 0
    count = prefix.clamp(min=1)[:, None]
    variance = (squares / count - (plain / count).square()).clamp(min=0) + _LEAST_VARIANCE
    mean = torch.where(known[:, None], weighted / mass.clamp(min=1e-6), unknown[..., None, :])
    return InitialStates(mean, variance.sqrt().clamp(max=sigma_max), known)


class AmortisedSettings(Config):
    """Settings of the amortised initial state."""

    memory: float = Field(default=0.8, gt=0, le=1)
    """w, weight of a click relative to the next one in the amortised initial state."""


class Amortised(InitialState):
    """h_0 is drawn around the average of a prefix of the user's clicks."""

    name = "amortised"
    devices: ClassVar[frozenset[Device]] = frozenset(["cpu", "cuda"])
    Settings = AmortisedSettings

    @classmethod
    def check(cls, config: Any) -> None:
        """Refuse a state that is no point among the items."""
        if config.hidden not in (None, config.dimensions):
            raise ValueError("the amortised initial state needs hidden = dimensions")

    def training_start(self, moves: BatchMoves, generator: torch.Generator) -> TrainingStart:
        """Average a prefix of random length, and let only what comes after it count."""
        prefix = random_prefix(moves.batch, moves.steps, generator)  # [B]
        initial = self._average(moves.steps, moves.moving, prefix, moves.unknown)
        states, weights = initial.sample(generator), after_prefix(moves.batch, moves.steps, prefix)
        return TrainingStart(states, weights, initial.kl(self.config.sigma_h0))

    def in_place_start(
        self, batch: ResidentBatch, moving: Tensor, unknown: Tensor, noise: KeyedNoise
    ) -> TrainingStart:
        """Do the same, with sums over the events of each user."""
        users, clicks = batch.num_users, batch.click_counts
        prefix = (noise.uniforms(users) * (clicks + 1)).long()  # [B]
        of_event = torch.nn.functional.pad(prefix, (0, 1)).index_select(0, batch.event_users)
        known = batch.events.clamp(max=len(batch.rows) - 1)
        number = 1 + batch.clicks_before.index_select(0, known)  # [K]
        inside = batch.is_click & (number <= of_event)
        age = torch.where(inside, of_event - number, 0).to(moving.dtype)
        weight = torch.where(inside, self.settings.memory**age, 0.0)[:, None]
        taken = torch.where(inside[:, None], moving, 0.0)
        columns = torch.cat([weight, weight * taken, taken, taken.square()], 1)
        sums = moving.new_zeros(users + 1, columns.shape[1])
        sums = sums.index_add(0, batch.event_users, columns)[:-1]
        dims = [1, *[moving.shape[1]] * 3]
        mass, weighted, plain, squares = torch.split(sums, dims, dim=1)
        initial = _around_clicks(
            weighted, mass, plain, squares, prefix, unknown, self.config.sigma_max
        )
        drawn = initial.drawn(noise.normals((users, moving.shape[1])).to(moving.dtype))
        wanted = torch.nn.functional.pad(prefix, (0, 1)).index_select(0, batch.user_of)
        weights = (batch.real & (batch.clicks_before >= wanted)).to(moving.dtype)
        return TrainingStart(drawn, weights, initial.kl(self.config.sigma_h0))

    def known_profiles(self, moves: BatchMoves, roll: Callable[[Tensor], Tensor]) -> Tensor:
        """Roll out for every number of clicks: the state after t starts from just those t."""
        batch, steps, moving, unknown = moves
        clicks, own = steps.clicks_before[:, None], click_counts(batch)[steps.users]
        profiles = moving.new_zeros(len(clicks), moving.shape[-1])
        for count in range(max(own.tolist(), default=0) + 1):
            # A user with fewer clicks has no such state.
            initial = self._average(steps, moving, torch.where(own >= count, count, 0), unknown)
            profiles = torch.where(clicks == count, roll(initial.mean), profiles)
        return profiles

    def present(self, moves: BatchMoves, generator: torch.Generator | None) -> Tensor:
        """Average all clicks of each user, and draw around that with a generator."""
        batch, steps, moving, unknown = moves
        initial = self._average(steps, moving, click_counts(batch)[steps.users], unknown)
        return initial.mean if generator is None else initial.sample(generator)

    def single_user(
        self, vectors: Floats, kinds: Ints, unknown: Floats, rng: np.random.Generator | None
    ) -> Floats:
        """Average all clicks of the user."""
        steps, moving = single_user_steps(kinds), torch.from_numpy(np.ascontiguousarray(vectors))
        clicks = torch.tensor([int((kinds < 0).sum())])
        with torch.no_grad():
            initial = self._average(steps, moving, clicks, torch.from_numpy(unknown.copy()))
            if rng is None:
                return np.asarray(initial.mean[:, 0].numpy())
            seeded = torch.Generator().manual_seed(int(rng.integers(1 << 62)))
            return np.asarray(initial.sample(seeded)[:, 0].numpy())

    def _average(
        self, steps: ClickSteps, moving: Tensor, prefix: Tensor, unknown: Tensor
    ) -> InitialStates:
        return amortised_initial(
            steps,
            moving,
            prefix,
            unknown,
            memory=self.settings.memory,
            sigma_max=self.config.sigma_max,
        )


def random_prefix(batch: Interactions, steps: ClickSteps, generator: torch.Generator) -> Tensor:
    """Draw how many of each user's clicks make her initial state: 0 to all, [B] by step order."""
    clicks = click_counts(batch)[steps.users]
    return (torch.rand(len(clicks), generator=generator) * (clicks + 1)).long()


def after_prefix(batch: Interactions, steps: ClickSteps, prefix: Tensor) -> Tensor:
    """Mark with 1 the interactions that come after the prefix's clicks: [N]."""
    users = torch.repeat_interleave(batch.user_offsets.diff())
    seen = torch.nn.functional.pad((batch.clicks >= 0).long().cumsum(0), (1, 0))
    before = seen[:-1] - seen[batch.user_offsets[:-1]][users]
    own = torch.empty_like(prefix)
    own[steps.users] = prefix
    return (before >= own[users]).float()


PART: Final = Amortised
