"""One learned initial state for all users: a user's own clicks are not in it."""

from collections.abc import Callable
from typing import ClassVar, Final

import numpy as np
import torch
from torch import Tensor

from slatewise.model.initial_states import BatchMoves, Floats, InitialState, Ints, TrainingStart
from slatewise.model.noise import KeyedNoise
from slatewise.model.part import Device
from slatewise.model.resident import ResidentBatch


class Causal(InitialState):
    """h_0 is the same for all users; not in the paper, whose average sees what it predicts."""

    name = "causal"
    devices: ClassVar[frozenset[Device]] = frozenset(["cpu", "cuda"])

    def training_start(self, moves: BatchMoves, generator: torch.Generator) -> TrainingStart:
        """Start all users in the learned state, and let every interaction count."""
        weights = torch.ones(len(moves.batch.clicks), device=moves.moving.device)
        return TrainingStart(moves.unknown.expand(moves.batch.num_users, -1), weights, 0.0)

    def in_place_start(
        self, batch: ResidentBatch, moving: Tensor, unknown: Tensor, noise: KeyedNoise
    ) -> TrainingStart:
        """Start all users in the learned state, and let every interaction count."""
        return TrainingStart(unknown.expand(batch.num_users, -1), batch.real.to(unknown.dtype), 0.0)

    def known_profiles(self, moves: BatchMoves, roll: Callable[[Tensor], Tensor]) -> Tensor:
        """Roll out once: no state has seen what came later."""
        return roll(moves.unknown.expand(moves.batch.num_users, -1))

    def present(self, moves: BatchMoves, generator: torch.Generator | None) -> Tensor:
        """Start all users in the learned state."""
        draws = moves.moving.shape[:-2]
        return moves.unknown[..., None, :].expand(*draws, moves.batch.num_users, -1)

    def single_user(
        self, vectors: Floats, kinds: Ints, unknown: Floats, rng: np.random.Generator | None
    ) -> Floats:
        """Return the learned state."""
        return unknown


PART: Final = Causal
