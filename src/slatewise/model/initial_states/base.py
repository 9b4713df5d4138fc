"""What all initial states of users have.

Shapes: B users, K steps, M states, N interactions, J draws, D dimensions, d_h hidden units.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.model.noise import KeyedNoise
from slatewise.model.part import Device, Noise, Parameter, Part
from slatewise.model.resident import ResidentBatch
from slatewise.model.steps import ClickSteps

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


class BatchMoves(NamedTuple):
    """What moves the users of a batch, and from where."""

    batch: Interactions
    steps: ClickSteps
    moving: Tensor
    """[K, D] what each step moves its user towards; J draws may stand in front"""
    unknown: Tensor
    """[d_h] the learned state of a new user"""


class TrainingStart(NamedTuple):
    """Where the users of a training batch start."""

    states: Tensor
    """[B, d_h] in the order of `ClickSteps.users`, or of the users of a resident batch"""
    weights: Tensor
    """[N] 1 for interactions that count, 0 for those that the start has seen"""
    divergence: Tensor | float
    """KL divergence of states that are drawn for single users: []"""


_STARTS: Final = frozenset(
    ["training_start", "in_place_start", "known_profiles", "present", "single_user"]
)
"""Where users start, for training, for evaluation and for slates."""


class InitialState(Part):
    """The state h_0 of users, around one that is learned for new users."""

    devices: ClassVar[frozenset[Device]] = frozenset(["cpu"])
    """where it can be trained: with `in_place_start`, on a GPU too"""
    restates: ClassVar[Mapping[str, frozenset[str]]] = {verb: _STARTS - {verb} for verb in _STARTS}

    def __init__(self, config: "ModelConfig", state_size: int) -> None:
        super().__init__(config)
        self._state_size = state_size

    def parameters(self, noise: Noise) -> dict[str, Parameter]:
        """Return the learned state of a new user."""
        return {"initial_state": Parameter(torch.zeros(self._state_size), self.config.sigma_h0)}

    @abstractmethod
    def training_start(self, moves: BatchMoves, generator: torch.Generator) -> TrainingStart:
        """Start the users of a training batch."""

    def in_place_start(
        self, batch: ResidentBatch, moving: Tensor, unknown: Tensor, noise: KeyedNoise
    ) -> TrainingStart:
        """Start the users of a training batch that stays on its device, for a GPU.

        The same as `training_start`: `moving` [K, D] by event, `unknown` [d_h], and no shape
        depends on the data.
        """
        raise NotImplementedError

    @abstractmethod
    def known_profiles(self, moves: BatchMoves, roll: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the profile of every state from the clicks that led to it alone: [M, D].

        `roll` turns first states [B, d_h] into profiles [M, D].
        """

    @abstractmethod
    def present(self, moves: BatchMoves, generator: torch.Generator | None) -> Tensor:
        """Start users of whom all clicks are known: [B, d_h], or [J, B, d_h] for J draws."""

    @abstractmethod
    def single_user(
        self, vectors: Floats, kinds: Ints, unknown: Floats, rng: np.random.Generator | None
    ) -> Floats:
        """Return where one user starts, in J draws: [J, d_h].

        After events with vectors [J, E, D] and kinds [E]; `unknown` [J, d_h] is learned. With
        `rng`, what is uncertain about the user herself is drawn too.
        """


def click_counts(batch: Interactions) -> Tensor:
    """Count the clicks of each user: [B]."""
    seen = torch.nn.functional.pad((batch.clicks >= 0).long().cumsum(0), (1, 0))
    return seen[batch.user_offsets].diff()


BASE = InitialState
