"""How clicks move a user through the latent space (Section userprofile of the paper).

The state changes with clicks only, so a user with C clicks has C + 1 states however many slates
she met. All users of a batch advance together, those with most clicks first: step t concerns the
first `active[t]` of them, and nothing is computed for users who have no click left. Where slates
without a click are evidence too (see `evidence`), they are steps among the clicks.

Weights, vectors and states may all carry one more dimension in front: J posterior draws at once.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.model.evidence import Evidence, slate_share
from slatewise.model.kernels._loading import takes_numba
from slatewise.model.kernels.rolling import roll_gru, roll_linear


class LinearWeights(NamedTuple):
    """The parameter of the linear user model."""

    drift: Tensor
    """[] γ in [0, 1], what stays of the state at a click; [J, 1, 1] for J draws"""


class GruWeights(NamedTuple):
    """The matrices of the GRU; reset gate, update gate and new gate are stacked in this order."""

    from_item: Tensor
    """[3 d_h, D] W_ir, W_id, W_in"""
    from_state: Tensor
    """[3 d_h, d_h] W_hr, W_hd, W_hn"""
    output: Tensor
    """[D, d_h] W_z"""


Weights = LinearWeights | GruWeights


def linear_step(state: Tensor, clicked: Tensor, weights: LinearWeights) -> Tensor:
    """Move the state towards the clicked item: h' = γ h + (1 − γ) v (eq. linearmodel)."""
    return weights.drift * state + (1 - weights.drift) * clicked


def gru_step(state: Tensor, inputs: Tensor, weights: GruWeights) -> Tensor:
    """Advance the state [B, d_h] by a click whose `inputs` are W_i v [B, 3 d_h] (eq. gru)."""
    update, new = gru_gates(state, inputs, weights)
    return new + update * (state - new)


def gru_gates(state: Tensor, inputs: Tensor, weights: GruWeights) -> tuple[Tensor, Tensor]:
    """Return how much stays of the state [B, d_h] at a click, and what it moves towards."""
    reset_in, update_in, new_in = inputs.chunk(3, dim=-1)
    reset_state, update_state, new_state = (state @ weights.from_state.mT).chunk(3, dim=-1)
    reset = torch.sigmoid(reset_in + reset_state)
    update = torch.sigmoid(update_in + update_state)
    return update, torch.tanh(new_in + reset * new_state)


@dataclass(frozen=True)
class SlateSteps:
    """Steps of which some are slates without a click; a click is a slate of one."""

    kinds: Tensor
    """[K] −1 for a click, else the place of the slate's source in `Evidence.fractions`"""
    cells: Tensor
    """[F] the items of all slates of the batch"""
    starts: Tensor
    """[K] where the items of a step begin in `cells`"""
    ends: Tensor
    """[K] where they end"""


@dataclass(frozen=True)
class ClickSteps:
    """Which clicks move whom, for the users of a batch: indices only, no parameters.

    States are numbered by step: first those before any click, of all B users in the order
    `users`, then those after one click, of the users who have one, and so on: M in all. With
    evidence, read "click, or slate without a click that counts" for click.
    """

    users: Tensor
    """[B] the batch's users, those with most clicks first"""
    active: list[int]
    """how many users have a first click, a second click, …"""
    clicked: Tensor
    """[K] items clicked: all first clicks, then all second clicks, …; −1 for a slate without"""
    state_of: Tensor
    """[N] the state in which each interaction found its user"""
    last_state: Tensor
    """[B] the state after all clicks, by user of the batch"""
    slates: SlateSteps | None = None
    """what each step brings, where it need not be a click"""

    @classmethod
    def of(cls, batch: Interactions, evidence: Evidence | None = None) -> "ClickSteps":
        """Lay out the states of a batch, without a loop over users.

        An interaction finds its user in the state that those before it led to.
        """
        moves = batch.clicks >= 0  # [N]
        if evidence is not None:
            moves = moves | (evidence.place[batch.sources.long()] >= 0)
        users, interactions = batch.num_users, len(batch.clicks)
        lengths = batch.user_offsets.diff()
        user_of = torch.repeat_interleave(lengths, output_size=interactions)  # [N]
        seen = torch.nn.functional.pad(moves.long().cumsum(0), (1, 0))  # [N + 1]
        at_start = seen.index_select(0, batch.user_offsets)  # [B + 1]
        before = seen[:-1] - at_start.index_select(0, user_of)  # [N] clicks before
        clicks = at_start.diff()  # [B]
        order = torch.argsort(clicks, descending=True, stable=True)  # [B]
        rank = torch.empty_like(order)
        rank[order] = torch.arange(users, device=order.device)
        histogram = torch.bincount(clicks) if users else clicks.new_zeros(1)
        active = (users - histogram.cumsum(0))[:-1]  # [C] users with more than t clicks
        sizes = torch.cat([active.new_full((1,), users), active])
        starts = torch.nn.functional.pad(sizes.cumsum(0), (1, 0))  # [C + 2]
        state_of = starts.index_select(0, before) + rank.index_select(0, user_of)
        which = torch.nonzero(moves).squeeze(1)  # [K] the interactions that move their users
        step, mover = (part.index_select(0, which) for part in (before, user_of))
        place = starts.index_select(0, step + 1) - users + rank.index_select(0, mover)
        clicked = torch.empty(len(place), dtype=batch.slate_items.dtype, device=place.device)
        clicked[place] = batch.clicked_items.index_select(0, which).to(clicked.dtype)
        return cls(
            users=order,
            active=active.tolist(),
            clicked=clicked,
            state_of=state_of,
            last_state=starts[clicks] + rank,
            slates=None if evidence is None else _slates(batch, evidence, which, place),
        )

    @property
    def clicks_before(self) -> Tensor:
        """[M] how many clicks, slates without one not counted, led to each state."""
        counts = [torch.zeros_like(self.users)]
        for step in torch.split((self.clicked >= 0).long(), self.active):
            counts.append(counts[-1][: len(step)] + step)
        return torch.cat(counts)


def _slates(batch: Interactions, evidence: Evidence, which: Tensor, place: Tensor) -> SlateSteps:
    """Say what the interactions `which` [K] bring, of which `place` [K] is the step."""
    order = torch.empty_like(place)
    order[place] = which  # [K] the interaction of each step
    click = batch.clicks.index_select(0, order)
    is_click = click >= 0
    kinds = evidence.place.index_select(0, batch.sources.index_select(0, order).int())
    starts = batch.slate_offsets.index_select(0, order) + click.clamp(min=0)
    ends = batch.slate_offsets.index_select(0, order + 1)
    ends = torch.where(is_click, starts + 1, ends)
    return SlateSteps(torch.where(is_click, -1, kinds), batch.slate_items, starts, ends)


def user_profiles(
    steps: ClickSteps,
    moving: Tensor,
    initial: Tensor,
    weights: Weights,
    evidence: Evidence | None = None,
) -> Tensor:
    """Return the profile z of every state: [M, D].

    `moving` [K, D] are the vectors of the clicked items, or the means of slates without a click;
    `initial` [B, d_h] the first states in the order of `steps.users`.
    """
    if steps.slates is None or evidence is None:
        hidden = _after_clicks(moving, initial, weights, steps.active)
    else:
        given = evidence.fractions, steps.slates.kinds, steps.active
        if moving.ndim == 2 and takes_numba("auto", moving.shape[1], [moving, initial]):
            return _fused(moving, initial, weights, *given)
        hidden = _after_slates(moving, initial, weights, *given)
    return hidden if isinstance(weights, LinearWeights) else hidden @ weights.output.mT


def _inputs(moving: Tensor, weights: Weights) -> Tensor:
    return moving if isinstance(weights, LinearWeights) else moving @ weights.from_item.mT


def _after_clicks(moving: Tensor, initial: Tensor, weights: Weights, active: list[int]) -> Tensor:
    """Return all states: [M, d_h]."""
    linear = isinstance(weights, LinearWeights)
    states = [initial]
    # Split at once: a slice of its own for each step would cost a gradient of all inputs each.
    for taken in torch.split(_inputs(moving, weights), active, dim=-2):
        state = states[-1][..., : taken.shape[-2], :]
        step = linear_step(state, taken, weights) if linear else gru_step(state, taken, weights)  # type: ignore[arg-type]
        states.append(step)
    return torch.cat(states, dim=-2)


def _after_slates(
    moving: Tensor,
    initial: Tensor,
    weights: Weights,
    fractions: Tensor,
    kinds: Tensor,
    active: list[int],
) -> Tensor:
    """Do the same where a step may be a slate without a click: it moves by ρ, not by the gate."""
    shares = fractions.index_select(-1, kinds.clamp(min=0))[..., None]  # [K, 1]
    columns = (_inputs(moving, weights), -2), (shares, -2), ((kinds < 0)[:, None], 0)
    states = [initial]
    for taken, share, is_click in zip(
        *(torch.split(column, active, dim) for column, dim in columns), strict=True
    ):
        state = states[-1][..., : taken.shape[-2], :]
        if isinstance(weights, LinearWeights):
            kept, target = weights.drift, taken
        else:
            kept, new = gru_gates(state, taken, weights)
            target = torch.where(is_click, new, torch.tanh(taken.chunk(3, dim=-1)[2]))
        gap = target - state
        states.append(state + torch.where(is_click, 1 - kept, slate_share(share, gap)) * gap)
    return torch.cat(states, dim=-2)


def _fused(
    moving: Tensor,
    initial: Tensor,
    weights: Weights,
    fractions: Tensor,
    kinds: Tensor,
    active: list[int],
) -> Tensor:
    """Return all profiles, in one compiled pass: [M, D]."""
    if isinstance(weights, LinearWeights):
        return roll_linear(moving, weights.drift, initial, fractions, kinds, active)
    return roll_gru(moving, weights, initial, fractions, kinds, active)
