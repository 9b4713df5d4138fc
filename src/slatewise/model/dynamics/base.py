"""What all dynamics have, and those whose state moves step by step.

Weights, vectors and states may all carry one more dimension in front: J posterior draws at once.

Shapes: B users, K steps, M states, E events of one user, D dimensions, d_h hidden units.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from slatewise.model.evidence import SlateEvidence, slate_share
from slatewise.model.kernels.lookup import lookup
from slatewise.model.part import Device, Part
from slatewise.model.resident import ResidentBatch
from slatewise.model.steps import ClickSteps, SlateSteps

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


class Dynamics(Part):
    """How what a user does moves her, and what profile that leaves."""

    devices: ClassVar[frozenset[Device]] = frozenset(["cpu"])
    first_stage: ClassVar[str | None] = "linear"
    """dynamics with which two-step training learns the items first; None: with these themselves"""
    takes_evidence: ClassVar[bool] = False
    """whether slates without a click move the state by `SlateEvidence.fractions`"""
    without_past: ClassVar[str | None] = "histories are empty"
    restates: ClassVar[Mapping[str, frozenset[str]]] = {
        "follow": frozenset(["weights", "profiles"])
    }

    @classmethod
    def check(cls, config: "ModelConfig") -> None:
        """Refuse evidence that these dynamics would take for clicks."""
        if config.evidence and not cls.takes_evidence:
            raise ValueError(f"{cls.name} dynamics take no evidence from slates without a click")
        if "cuda" in cls.devices and cls.in_place_profiles is Dynamics.in_place_profiles:
            raise ValueError(f"{cls.name} dynamics need `in_place_profiles` to be trained on a GPU")

    @classmethod
    def usual_settings(cls, state_size: int) -> dict[str, Any]:
        """Return settings that follow d_h where the prior counts nearly in full."""
        return {}

    def in_place_profiles(
        self,
        batch: ResidentBatch,
        moving: Tensor,
        initial: Tensor,
        weights: Any,
        evidence: SlateEvidence | None,
        longest: int,
    ) -> Tensor:
        """Return the profile of every state of a batch that stays on its device: [M, D].

        The same as `profiles`, where no shape depends on the data; for training on a GPU.
        """
        raise NotImplementedError

    @property
    def state_size(self) -> int:
        """d_h, the dimension of the hidden state."""
        return self.config.dimensions

    def weights(self, values: Mapping[str, Tensor]) -> Any:
        """Return what `profiles` computes with, from the values of all parameters by name."""
        return values

    @abstractmethod
    def profiles(
        self,
        steps: ClickSteps,
        moving: Tensor,
        initial: Tensor,
        weights: Any,
        evidence: SlateEvidence | None = None,
    ) -> Tensor:
        """Return the profile z of every state: [M, D].

        `moving` [K, D] are the vectors of the clicked items, or the means of slates without a
        click; `initial` [B, d_h] the first states in the order of `steps.users`.
        """

    def follow(
        self, vectors: Floats, kinds: Ints, initial: Floats, values: Mapping[str, Floats]
    ) -> Floats:
        """Return the profile of one user after events with vectors [J, E, D] and kinds [E]: [J, D].

        The same as the last of `profiles`, for J draws of everything: `initial` [J, d_h] are the
        first states, `values` all parameters by name, [J, …]. Here it is computed by `profiles`,
        which takes a hundred times as long as a loop for one user; dynamics for a busy site should
        have such a loop.
        """
        drawn = {name: torch.from_numpy(np.ascontiguousarray(v)) for name, v in values.items()}
        first = torch.from_numpy(np.ascontiguousarray(initial))[:, None]  # [J, 1, d_h]
        steps, evidence = single_user_steps(kinds), None
        if "evidence" in drawn:
            evidence = SlateEvidence(torch.empty(0), torch.tanh(drawn["evidence"]))
        moving = torch.from_numpy(np.ascontiguousarray(vectors, dtype=np.float32))
        with torch.no_grad():
            found = self.profiles(steps, moving, first, self.weights(drawn), evidence)
        return np.asarray(found[:, -1].numpy())


_EQUATIONS: Final = frozenset(["weights", "inputs", "step", "gates", "slate_target", "output"])
"""What recurrent dynamics are defined by."""


class Recurrent(Dynamics):
    """Dynamics whose state moves step by step, each time part of the way to a target."""

    takes_evidence: ClassVar[bool] = True
    devices: ClassVar[frozenset[Device]] = frozenset(["cpu", "cuda"])
    restates: ClassVar[Mapping[str, frozenset[str]]] = {
        "step": frozenset(["gates"]),
        "gates": frozenset(["step"]),  # which moves users where slates count too
        "follow": _EQUATIONS | {"profiles"},
        "fused": _EQUATIONS,
        "scanned": _EQUATIONS - {"slate_target", "output"},
        "devices": frozenset(["profiles"]),  # `_in_place` goes by the equations
    }

    def inputs(self, moving: Tensor, weights: Any) -> Tensor:
        """Return what a step takes of the vectors [..., K, D], for all steps at once."""
        return moving

    def step(self, state: Tensor, inputs: Tensor, weights: Any) -> Tensor:
        """Advance states [B, d_h] by one click each."""
        kept, target = self.gates(state, inputs, weights)
        return target + kept * (state - target)

    @abstractmethod
    def gates(self, state: Tensor, inputs: Tensor, weights: Any) -> tuple[Tensor, Tensor]:
        """Return how much stays of the state at a click, and what it moves towards."""

    @abstractmethod
    def slate_target(self, inputs: Tensor, weights: Any) -> Tensor:
        """Return where a slate without a click would draw the state: [..., d_h]."""

    def output(self, states: Tensor, weights: Any) -> Tensor:
        """Return the profiles of states."""
        return states

    def fused(
        self,
        moving: Tensor,
        initial: Tensor,
        weights: Any,
        fractions: Tensor,
        kinds: Tensor,
        active: list[int],
    ) -> Tensor | None:
        """Return all profiles by one compiled pass, None where there is none for these tensors.

        `kinds` [K] are −1 for a click, else an index into the `fractions` [E] of slates.
        """
        return None

    def profiles(
        self,
        steps: ClickSteps,
        moving: Tensor,
        initial: Tensor,
        weights: Any,
        evidence: SlateEvidence | None = None,
    ) -> Tensor:
        """Return the profile of every state, step after step: [M, D]."""
        slates = steps.slates if evidence is not None else None
        fractions = moving.new_empty(0) if evidence is None else evidence.fractions
        kinds = torch.full(steps.clicked.shape, -1) if slates is None else slates.kinds
        found = self.fused(moving, initial, weights, fractions, kinds, steps.active)
        if found is not None:
            return found
        if slates is None:
            hidden = self._after_clicks(moving, initial, weights, steps.active)
        else:
            hidden = self._after_slates(moving, initial, weights, fractions, kinds, steps.active)
        return self.output(hidden, weights)

    def in_place_profiles(
        self,
        batch: ResidentBatch,
        moving: Tensor,
        initial: Tensor,
        weights: Any,
        evidence: SlateEvidence | None,
        longest: int,
    ) -> Tensor:
        """Return the profile of every state: [M, D]."""
        states = self._in_place(batch, moving, initial, weights, evidence, longest)
        return self.output(states, weights)

    def _in_place(
        self,
        batch: ResidentBatch,
        moving: Tensor,
        initial: Tensor,
        weights: Any,
        evidence: SlateEvidence | None,
        longest: int,
    ) -> Tensor:
        """Return all states of a batch that stays on its device: [M, d_h].

        `moving` [K, D] is what each event moves its user towards, `initial` [B, d_h] where users
        start, and `longest` the most events a user may have. It is `profiles` before the output,
        and no shape depends on the data.
        """
        if evidence is None:
            found = self.scanned(batch, moving, initial, weights)
            if found is not None:
                return found
        inputs, state, states = self.inputs(moving, weights), initial, [initial]
        first, count = batch.event_offsets[:-2], batch.event_offsets[:-1].diff()
        shares = None
        if evidence is not None:
            shares = lookup(evidence.fractions, batch.kinds.clamp(min=0))[:, None]  # [K, 1]
        for number in range(longest):
            event = (first + number).clamp(max=len(moving) - 1)
            taken = inputs.index_select(0, event)
            if shares is None:
                moved = self.step(state, taken, weights)
            else:
                is_click = batch.kinds.index_select(0, event)[:, None] < 0
                share = shares.index_select(0, event)
                moved = self._step_or_slate(state, taken, weights, is_click, share)
            state = torch.where((number < count)[:, None], moved, state)
            states.append(state)
        step = torch.arange(longest + 1, device=moving.device)
        users = torch.arange(len(initial), device=moving.device)
        rows = (first + users)[:, None] + step  # [B, longest + 1]
        size = len(moving) + len(initial)
        rows = torch.where(step <= count[:, None], rows, size)  # what is not used goes behind
        everything = torch.stack(states, dim=1).flatten(0, 1)
        kept_rows = everything.new_zeros(size + 1, everything.shape[1])
        return kept_rows.index_copy(0, rows.flatten(), everything)[:-1]

    def scanned(
        self, batch: ResidentBatch, moving: Tensor, initial: Tensor, weights: Any
    ) -> Tensor | None:
        """Return all states by one kernel, where no slates count; None where there is none."""
        return None

    def _after_clicks(
        self, moving: Tensor, initial: Tensor, weights: Any, active: Sequence[int]
    ) -> Tensor:
        """Return all states: [M, d_h]."""
        states = [initial]
        # Split at once: a slice of its own for each step would cost a gradient of all inputs each.
        for taken in torch.split(self.inputs(moving, weights), list(active), dim=-2):
            state = states[-1][..., : taken.shape[-2], :]
            states.append(self.step(state, taken, weights))
        return torch.cat(states, dim=-2)

    def _after_slates(
        self,
        moving: Tensor,
        initial: Tensor,
        weights: Any,
        fractions: Tensor,
        kinds: Tensor,
        active: Sequence[int],
    ) -> Tensor:
        """Do the same where a step may be a slate without a click: it moves by ρ, not by a gate."""
        shares = fractions.index_select(-1, kinds.clamp(min=0))[..., None]  # [K, 1]
        columns = (self.inputs(moving, weights), -2), (shares, -2), ((kinds < 0)[:, None], 0)
        states = [initial]
        for taken, share, is_click in zip(
            *(torch.split(column, list(active), dim) for column, dim in columns), strict=True
        ):
            state = states[-1][..., : taken.shape[-2], :]
            states.append(self._step_or_slate(state, taken, weights, is_click, share))
        return torch.cat(states, dim=-2)

    def _step_or_slate(
        self, state: Tensor, inputs: Tensor, weights: Any, is_click: Tensor, share: Tensor
    ) -> Tensor:
        """Advance states [B, d_h] by a click, or by ρ of a slate without one (`share` [B, 1])."""
        kept, target = self.gates(state, inputs, weights)
        gap = torch.where(is_click, target, self.slate_target(inputs, weights)) - state
        return state + torch.where(is_click, 1 - kept, slate_share(share, gap)) * gap


def single_user_steps(kinds: Ints) -> ClickSteps:
    """Lay out the states of one user after events of these kinds [E], as `ClickSteps.of` would."""
    events = torch.arange(len(kinds))
    slates = SlateSteps(torch.from_numpy(kinds), events, events, events + 1)
    return ClickSteps(
        users=torch.zeros(1, dtype=torch.int64),
        active=[1] * len(kinds),
        clicked=torch.where(slates.kinds < 0, events, -1),
        state_of=torch.arange(len(kinds) + 1),
        last_state=torch.tensor([len(kinds)]),
        slates=slates,
    )


BASE = Dynamics
