"""The model in padded shapes, for a GPU: the same equations, and no shape depends on the data.

Shapes: B users, T interactions, S slate positions, D dimensions, I items, K candidates.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from slatewise.data.interactions import Interactions
from slatewise.model.likelihood import Candidates, Exposure
from slatewise.model.parameters import Parameters
from slatewise.model.relevance import Relevance

_NEVER = -1e30
"""Utility of what cannot be chosen; unlike -inf it has a finite sum with itself."""


class PaddedBatch(NamedTuple):
    """The interactions of B users, all as long as the longest."""

    cells: Tensor
    """[B, T, S] int32, items; any item beyond the end of a slate"""
    lengths: Tensor
    """[B, T] how many items of each slate were seen, at least 1"""
    clicks: Tensor
    """[B, T] position in the slate, -1 for no click"""
    sources: Tensor
    """[B, T]"""
    real: Tensor
    """[B, T] whether there is an interaction"""
    further: Tensor | None = None
    """[B, T] clicks made before on the same slate; None where no slate has several"""
    stops: Tensor | None = None
    """[B, T] whether the user had enough after the click"""
    taken: Tensor | None = None
    """[B, T, S] whether an item had been clicked before"""

    @classmethod
    def of(
        cls,
        interactions: Interactions,
        users: Tensor,
        ends: Tensor,
        shape: tuple[int, int],
        num_items: int,
    ) -> "PaddedBatch":
        """Gather the first `ends` [B] interactions of users [B]; the shape is (T, S)."""
        step, position = (torch.arange(size, device=users.device) for size in shape)
        real = step < ends[:, None]
        rows = torch.where(real, interactions.user_offsets[users][:, None] + step, 0)
        starts = interactions.slate_offsets[rows]
        lengths = torch.where(real, interactions.slate_offsets[rows + 1] - starts, 1)
        seen = real[..., None] & (position < lengths[..., None])
        cells = torch.where(seen, starts[..., None] + position, 0)
        items, several = interactions.slate_items[cells], interactions.several
        # Padding names all items in turn. Were it one item, or popular ones, the GPU would queue
        # up to add so many zeros to their gradients.
        others = torch.arange(seen.numel(), device=users.device).view_as(seen) % num_items
        return cls(
            cells=torch.where(seen, items, others.int()),
            lengths=lengths,
            clicks=torch.where(real, interactions.clicks[rows], -1),
            sources=interactions.sources[rows],
            real=real,
            further=None if several is None else torch.where(real, several.further[rows], 0),
            stops=None if several is None else real & several.stops[rows],
            taken=None if several is None else seen & several.taken[cells],
        )

    @property
    def slates_before(self) -> Tensor:
        """[B, T] how many slates the user had seen before."""
        begins = torch.ones_like(self.clicks) if self.further is None else self.further == 0
        return begins.long().cumsum(1) - 1

    @property
    def clicked_items(self) -> Tensor:
        """[B, T] the item clicked; any item for none."""
        position = self.clicks.clamp(min=0).long()[..., None]
        return self.cells.gather(2, position).squeeze(2)


def vectors_of(items: Tensor, numbers: Tensor) -> Tensor:
    """Look vectors [..., D] up in items [I, D]; as an index, its gradient takes 10 × as long."""
    return functional.embedding(numbers, items)


def padded_likelihood(
    parameters: Parameters,
    profiles: Tensor,
    clicked: Tensor,
    batch: PaddedBatch,
    exposure: Exposure | None = None,
    candidates: Candidates | None = None,
) -> tuple[Tensor, Tensor]:
    """Sum the log-likelihood, and its part within the slate alone: `batch_likelihood`, padded.

    `profiles` [B, T, D] are those before each interaction, `clicked` [B, T, D] what was clicked.
    """
    position = torch.arange(batch.cells.shape[2], device=batch.cells.device)
    vectors = vectors_of(parameters.items, batch.cells)  # [B, T, S, D], never in memory
    relevance = parameters.parts.relevance
    utility = exposing = relevance.pairs(profiles[:, :, None], vectors)  # [B, T, S]
    if parameters.positions is not None:
        added = parameters.positions[position.clamp(max=len(parameters.positions) - 1)]  # [S]
        factor = parameters.position_factor(batch.sources, batch.slates_before)
        utility = utility + (added if factor is None else factor[..., None] * added)
    there = position < batch.lengths[..., None]
    if batch.taken is not None:
        there = there & ~batch.taken
    utility, exposing = (torch.where(there, each, _NEVER) for each in (utility, exposing))
    no_click = parameters.no_click_after(batch.lengths.flatten(), batch.sources.flatten())
    no_click = no_click.view_as(batch.lengths)
    enough = None
    if batch.further is not None:
        left = batch.lengths - batch.further
        now = parameters.enough_after(batch.further, left)
        no_click = no_click if now is None else torch.where(batch.further > 0, now, no_click)
        enough = parameters.enough_after(batch.further + 1, left - 1)
    is_click = batch.clicks >= 0
    chosen = torch.where(position == batch.clicks[..., None], utility, 0.0).sum(2)
    chosen = torch.where(is_click, chosen, no_click)
    slate = chosen - torch.logaddexp(torch.logsumexp(utility, dim=2), no_click)  # [B, T]
    if enough is not None and batch.stops is not None:
        behind = torch.where(position == batch.clicks[..., None], _NEVER, utility)
        stop = enough - torch.logaddexp(torch.logsumexp(behind, dim=2), enough)
        slate = slate + torch.where(batch.stops, stop, 0.0)
    slate = torch.where(batch.real, slate, 0.0)
    if exposure is None or candidates is None:
        total = slate.sum()
        return total, total.detach()
    sharpness = exposure.sharpness
    exposed = torch.logsumexp(sharpness * exposing, dim=2)
    numbers = torch.where(is_click, batch.clicked_items, -1).flatten()
    over_catalogue = padded_catalogue_log_sum(
        profiles.flatten(0, 1),
        parameters.items,
        numbers,
        clicked.flatten(0, 1),
        candidates,
        sharpness,
        relevance,
    ).view_as(exposed)
    if exposure.is_choice:
        exposed = torch.logaddexp(exposed, sharpness * no_click)
        over_catalogue = torch.logaddexp(over_catalogue, sharpness * no_click)
    lambdas = exposure.source_weights[batch.sources.long()]
    if batch.further is not None and not exposure.is_choice:
        lambdas = torch.where(batch.further > 0, 0.0, lambdas)  # a slate was shown once
    exposed_term = torch.where(batch.real, lambdas * (exposed - over_catalogue), 0.0)
    return slate.sum() + exposed_term.sum(), slate.detach().sum()


def padded_catalogue_log_sum(
    profiles: Tensor,
    items: Tensor,
    numbers: Tensor,
    clicked: Tensor,
    candidates: Candidates,
    sharpness: float,
    relevance: Relevance,
) -> Tensor:
    """Estimate log Σ_I r^κ as `catalogue_log_sum` does, for profiles [N, D]: [N].

    `numbers` [N] are the items clicked, -1 for none, and `clicked` [N, D] their vectors.
    """
    utility = relevance.many(profiles, items.index_select(0, candidates.rows))  # [N, K]
    scores = candidates.log_weight + sharpness * utility
    if len(candidates.rows) == candidates.catalogue:
        return torch.logsumexp(scores, dim=1)
    # Where the clicked item is also a candidate, it must not be counted twice.
    scores = torch.where(numbers[:, None] == candidates.rows, _NEVER, scores)
    log_sum = torch.logsumexp(scores, dim=1)
    own = sharpness * relevance.pairs(profiles, clicked)
    return torch.where(numbers >= 0, torch.logaddexp(own, log_sum), log_sum)
