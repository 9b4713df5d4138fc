"""How clicks move a user through the latent space (Section userprofile of the paper).

The state changes with clicks only, so a user with C clicks has C + 1 states however many slates
she met. All users of a batch advance together, those with most clicks first: step t concerns the
first `active[t]` of them, and nothing is computed for users who have no click left.

Weights, vectors and states may all carry one more dimension in front: J posterior draws at once.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from slatewise.data.interactions import Interactions


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
    reset_in, update_in, new_in = inputs.chunk(3, dim=-1)
    reset_state, update_state, new_state = (state @ weights.from_state.mT).chunk(3, dim=-1)
    reset = torch.sigmoid(reset_in + reset_state)
    update = torch.sigmoid(update_in + update_state)
    new = torch.tanh(new_in + reset * new_state)
    return new + update * (state - new)


@dataclass(frozen=True)
class ClickSteps:
    """Which clicks move whom, for the users of a batch: indices only, no parameters.

    States are numbered by step: first those before any click, of all B users in the order
    `users`, then those after one click, of the users who have one, and so on: M in all.
    """

    users: Tensor
    """[B] the batch's users, those with most clicks first"""
    active: list[int]
    """how many users have a first click, a second click, …"""
    clicked: Tensor
    """[K] items clicked: all first clicks, then all second clicks, …"""
    state_of: Tensor
    """[N] the state in which each interaction found its user"""
    last_state: Tensor
    """[B] the state after all clicks, by user of the batch"""

    @classmethod
    def of(cls, batch: Interactions) -> "ClickSteps":
        """Lay out the states of a batch, without a loop over users."""
        is_click = batch.clicks >= 0  # [N]
        users, interactions = batch.num_users, len(batch.clicks)
        lengths = batch.user_offsets.diff()
        user_of = torch.repeat_interleave(lengths, output_size=interactions)  # [N]
        seen = torch.nn.functional.pad(is_click.long().cumsum(0), (1, 0))  # [N + 1]
        before = seen[:-1] - seen[batch.user_offsets[:-1]][user_of]  # [N] clicks before
        clicks = seen[batch.user_offsets].diff()  # [B]
        order = torch.argsort(clicks, descending=True, stable=True)  # [B]
        rank = torch.empty_like(order)
        rank[order] = torch.arange(users, device=order.device)
        histogram = torch.bincount(clicks) if users else clicks.new_zeros(1)
        active = (users - histogram.cumsum(0))[:-1]  # [C] users with more than t clicks
        sizes = torch.cat([active.new_full((1,), users), active])
        starts = torch.nn.functional.pad(sizes.cumsum(0), (1, 0))  # [C + 2]
        place = starts[before[is_click] + 1] - users + rank[user_of[is_click]]
        clicked = torch.empty(len(place), dtype=batch.slate_items.dtype, device=place.device)
        clicked[place] = batch.clicked_items[is_click].to(clicked.dtype)
        return cls(
            users=order,
            active=active.tolist(),
            clicked=clicked,
            state_of=starts[before] + rank[user_of],
            last_state=starts[clicks] + rank,
        )


def user_profiles(steps: ClickSteps, clicked: Tensor, initial: Tensor, weights: Weights) -> Tensor:
    """Return the profile z of every state: [M, D].

    `clicked` [K, D] are the vectors of the clicked items, `initial` [B, d_h] the first states in
    the order of `steps.users`.
    """
    linear = isinstance(weights, LinearWeights)
    inputs = clicked if linear else clicked @ weights.from_item.mT  # type: ignore[union-attr]
    states = [initial]
    # Split at once: a slice of its own for each step would cost a gradient of all inputs each.
    for taken in inputs.split(steps.active, dim=-2):
        state = states[-1][..., : taken.shape[-2], :]
        step = linear_step(state, taken, weights) if linear else gru_step(state, taken, weights)  # type: ignore[arg-type]
        states.append(step)
    hidden = torch.cat(states, dim=-2)  # [M, d_h]
    return hidden if linear else hidden @ weights.output.mT  # type: ignore[union-attr]
