"""The layout of user states in a batch: which events move which users, and in which order.

The state changes with clicks only, so a user with C clicks has C + 1 states however many slates
she saw. All users of a batch advance together, those with most clicks first: step t concerns the
first `active[t]` of them, and nothing is computed for users who have no click left. Where slates
without a click are evidence too (see `evidence`), they are steps among the clicks.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.model.evidence import SlateEvidence


@dataclass(frozen=True)
class SlateSteps:
    """Steps of which some are slates without a click; a click is a slate of one."""

    kinds: Tensor
    """[K] −1 for a click, else the index of the slate's source in `SlateEvidence.fractions`"""
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
    def of(cls, batch: Interactions, evidence: SlateEvidence | None = None) -> "ClickSteps":
        """Lay out the states of a batch, without a loop over users.

        An interaction finds its user in the state that those before it led to.
        """
        moves = batch.clicks >= 0  # [N]
        if evidence is not None:
            moves = moves | (evidence.source_index[batch.sources.long()] >= 0)
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
        step_of = starts.index_select(0, step + 1) - users + rank.index_select(0, mover)
        clicked = torch.empty(len(step_of), dtype=batch.slate_items.dtype, device=step_of.device)
        clicked[step_of] = batch.clicked_items.index_select(0, which).to(clicked.dtype)
        return cls(
            users=order,
            active=active.tolist(),
            clicked=clicked,
            state_of=state_of,
            last_state=starts[clicks] + rank,
            slates=None if evidence is None else _slates(batch, evidence, which, step_of),
        )

    @property
    def user_of(self) -> Tensor:
        """[M] whose state it is, as an index into `users`."""
        order = torch.arange(len(self.users), device=self.users.device)
        return torch.cat([order, *(order[:count] for count in self.active)])

    @property
    def past(self) -> Tensor:
        """[M, C] the steps that led to each state, oldest first; −1 where there were fewer.

        For dynamics that look at all of them at once, instead of going from step to step.
        """
        sizes = torch.tensor([len(self.users), *self.active], device=self.users.device)
        starts = sizes[1:].cumsum(0) - sizes[1:]  # [C] the first row of each step
        number = torch.arange(len(sizes), device=self.users.device)
        before = torch.repeat_interleave(number, sizes)  # [M] steps before each state
        rows = starts + self.user_of[:, None]
        return torch.where(number[:-1] < before[:, None], rows, -1)

    @property
    def clicks_before(self) -> Tensor:
        """[M] how many clicks, slates without one not counted, led to each state."""
        counts = [torch.zeros_like(self.users)]
        for step in torch.split((self.clicked >= 0).long(), self.active):
            counts.append(counts[-1][: len(step)] + step)
        return torch.cat(counts)


def _slates(
    batch: Interactions, evidence: SlateEvidence, which: Tensor, step_of: Tensor
) -> SlateSteps:
    """Return what the interactions `which` [K] bring, each at its step `step_of` [K]."""
    order = torch.empty_like(step_of)
    order[step_of] = which  # [K] the interaction of each step
    click = batch.clicks.index_select(0, order)
    is_click = click >= 0
    kinds = evidence.source_index.index_select(0, batch.sources.index_select(0, order).int())
    starts = batch.slate_offsets.index_select(0, order) + click.clamp(min=0)
    ends = batch.slate_offsets.index_select(0, order + 1)
    ends = torch.where(is_click, starts + 1, ends)
    return SlateSteps(torch.where(is_click, -1, kinds), batch.slate_items, starts, ends)
