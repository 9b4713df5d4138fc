"""One learned initial state for everybody: nothing of a user's own clicks is in it."""

from collections.abc import Callable
from typing import Final

import numpy as np
import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.model.initial_states import Floats, InitialState, Ints, TrainingStart
from slatewise.model.steps import ClickSteps


class Causal(InitialState):
    """h_0 is the same for all users; not in the paper, whose average sees what it predicts."""

    name = "causal"

    def training_start(
        self,
        steps: ClickSteps,
        moving: Tensor,
        unknown: Tensor,
        batch: Interactions,
        generator: torch.Generator,
    ) -> TrainingStart:
        """Start everybody in one place, and let every interaction count."""
        weights = torch.ones(len(batch.clicks), device=moving.device)
        return TrainingStart(unknown.expand(batch.num_users, -1), weights, 0.0)

    def known_profiles(
        self,
        roll: Callable[[Tensor], Tensor],
        steps: ClickSteps,
        moving: Tensor,
        unknown: Tensor,
        batch: Interactions,
    ) -> Tensor:
        """Roll out once: no state has seen what came later."""
        return roll(unknown.expand(batch.num_users, -1))

    def present(
        self,
        steps: ClickSteps,
        moving: Tensor,
        unknown: Tensor,
        batch: Interactions,
        generator: torch.Generator | None,
    ) -> Tensor:
        """Start everybody in one place."""
        return unknown[..., None, :].expand(*moving.shape[:-2], batch.num_users, -1)

    def single_user(
        self, vectors: Floats, kinds: Ints, unknown: Floats, rng: np.random.Generator | None
    ) -> Floats:
        """Return the learned state."""
        return unknown


PART: Final = Causal
