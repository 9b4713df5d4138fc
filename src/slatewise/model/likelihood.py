"""Likelihoods of clicks: choice within the slate, exposure within the catalogue (Section 3.1).

log P = slate + λ · exposure, with exposure = log Σ_slate r^κ − log Σ_I r^κ and r = exp(utility).
λ = 0 is the slate likelihood. λ = κ = 1 with the no-click option in both sums is the all-item
likelihood. λ by source, with no-click in neither sum, is the source-aware likelihood.

What is in one sum of the exposure term must be in the other. The catalogue's is of items that were
not shown: they have no position, and their features at that moment would be those of a million
items. The item bias is in both for all-item, where the sum is what a click competes
with. It is in neither for source-aware: there it would learn what is shown much, instead of what is
clicked where it is shown.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.errors import SlatewiseError
from slatewise.model.kernels.backend import Backend
from slatewise.model.kernels.catalogue import ItemLists, catalogue_terms
from slatewise.model.kernels.slate import slate_terms
from slatewise.model.parameters import Parameters
from slatewise.model.utility import (
    enough_utilities,
    no_click_utilities,
    position_factors,
    required,
)

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig

SEARCH = "search"
"""The source whose slates are what people searched for."""
_OF_SEARCH, _OF_ANY_SOURCE = 1.0, 0.3
"""λ where none is given. What people search for tells where items are, the more so the less groups
tell. Of slates that another system chose, more of it learns what is shown, not what is clicked."""
_LOOK_BACK = 1_000
"""Interactions up to which a user's past is looked at, so that memory stays bounded."""


@dataclass(frozen=True)
class Exposure:
    """How much the catalogue counts beside the slate."""

    source_weights: Tensor
    """[number of sources] λ"""
    sharpness: float
    """κ"""
    is_choice: bool
    """whether no-click and item biases are in the sums, as in a choice; else distance alone is"""
    declined: bool = True
    """whether any shown item was passed over, from which terms learn their weights"""
    repeats: bool = True
    """whether a user may click an item again; else what she clicked is in no sum after it"""

    @classmethod
    def of(
        cls, config: "ModelConfig", sources: list[str], *, declined: bool = True
    ) -> "Exposure | None":
        """Read the exposure term off the configuration; None for the slate likelihood.

        In a log of clicks alone nothing was `declined`: terms would only learn that every slate is
        clicked, and the rest of the model that no click explains as much as an item.
        """
        if config.likelihood == "all-item":
            ones = torch.ones(len(sources))
            return cls(ones, 1.0, is_choice=True, declined=declined, repeats=config.repeats)
        if config.likelihood == "source-aware":
            weights = exposure_weights(config, sources)
            return cls(torch.tensor(list(weights.values())), config.sharpness, is_choice=False)
        return None


def exposure_weights(config: "ModelConfig", sources: list[str]) -> dict[str, float]:
    """Return λ of each source of a log in the source-aware likelihood.

    Where the configuration gives none, what people searched for counts, and in a log without a
    source of that name all that they were shown.
    """
    given = config.exposure
    if given is None:
        given = (
            {SEARCH: _OF_SEARCH} if SEARCH in sources else dict.fromkeys(sources, _OF_ANY_SOURCE)
        )
    unknown = sorted(given.keys() - set(sources))
    if unknown:
        raise SlatewiseError(
            f"exposure names '{unknown[0]}', which is not a source of the log.",
            f"The log's sources are {', '.join(sources)}: give weights to these alone.",
        )
    return {source: given.get(source, 0.0) for source in sources}


@dataclass(frozen=True)
class Candidates:
    """Items that stand for the catalogue in a sum over it."""

    rows: Tensor
    """[K] distinct rows of the item vectors in use, drawn uniformly or all there are"""
    catalogue: int
    """I, the number of items they stand for"""


@dataclass(frozen=True)
class BatchLikelihood:
    """Log-likelihood of a batch."""

    total: Tensor
    """[] weighted sum, differentiable"""
    slate: Tensor
    """[N] of the choice within each slate, without gradient"""


def batch_likelihood(
    parameters: Parameters,
    profiles: Tensor,
    state_of: Tensor,
    batch: Interactions,
    weights: Tensor,
    exposure: Exposure | None = None,
    candidates: Candidates | None = None,
) -> BatchLikelihood:
    """Weigh and sum the log-likelihood of N interactions (eq. likelihood, eq. all-item-likelihood).

    `profiles` [M, D] are user profiles, `state_of` [N] the profile of each interaction,
    `weights` [N] how much it counts. `batch.slate_items` points into `parameters.items`.
    """
    if parameters.pool is not None:
        raise ValueError("a model is fitted before it is pooled with terms that see slates")
    no_click = no_click_utilities(parameters, batch)  # [N]
    several, lambdas = batch.several, None
    if exposure is not None:
        lambdas = exposure.source_weights.to(profiles.device)[batch.sources.long()]
        if several is not None and not exposure.is_choice:
            lambdas = torch.where(several.further > 0, 0.0, lambdas)  # a slate was shown once
    profiles, items = parameters.with_spread(profiles)
    cell_weights = parameters.cell_weights
    if exposure is not None and not exposure.declined:
        cell_weights = None
    # Predictions have dimensions of their own, for which no loop over slates is worth compiling.
    plain = parameters.variances is not None and not profiles.is_cuda
    backend: Backend = "torch" if plain else "auto"
    terms = slate_terms(
        profiles,
        items,
        no_click,
        state_of=state_of,
        cells=batch.slate_items,
        offsets=batch.slate_offsets,
        clicks=batch.clicks,
        weights=weights,
        features=None if cell_weights is None else required(batch.cell_features),
        feature_weights=cell_weights,
        positions=parameters.positions,
        position_factors=position_factors(parameters, batch),
        taken=None if several is None else several.taken,
        stops=None if several is None else several.stops,
        enough=enough_utilities(parameters, batch),
        exposure_weights=lambdas,
        sharpness=1.0 if exposure is None else exposure.sharpness,
        include_no_click=exposure is not None and exposure.is_choice,
        include_bias=exposure is not None and exposure.is_choice,
        relevance=parameters.parts.relevance,
        backend=backend,
    )
    if exposure is None or lambdas is None or candidates is None:
        return BatchLikelihood(terms.total, terms.log_likelihood)
    over_catalogue = catalogue_terms(
        profiles,
        items,
        no_click if exposure.is_choice else None,
        candidates=candidates.rows,
        catalogue=candidates.catalogue,
        state_of=state_of,
        own=_own_items(batch, exposure),
        weights=weights * lambdas,
        sharpness=exposure.sharpness,
        include_bias=exposure.is_choice,
        taken=None if exposure.repeats else clicked_before(batch),
        relevance=parameters.parts.relevance,
    )
    return BatchLikelihood(terms.total - over_catalogue, terms.log_likelihood)


def _own_items(batch: Interactions, exposure: Exposure) -> ItemLists:
    """Return the items of the other sum of the exposure term: what was clicked, or shown."""
    if exposure.is_choice:
        is_click = batch.clicks >= 0
        offsets = torch.nn.functional.pad(is_click.cumsum(0), (1, 0))
        return ItemLists(offsets, batch.clicked_items[is_click])
    rows = batch.slate_items
    if batch.several is not None:
        rows = torch.where(batch.several.taken, -1, rows)
    return ItemLists(batch.slate_offsets, rows)


def clicked_before(batch: Interactions) -> ItemLists:
    """Return what the user of each interaction had clicked before it, in her last 1,000 of them.

    An item that she clicks again is left out of what she clicked before: it was a choice.
    """
    clicked, offsets = batch.clicked_items, batch.user_offsets
    interactions = torch.arange(len(clicked), device=clicked.device)
    before = interactions - torch.repeat_interleave(offsets[:-1], offsets.diff())
    lengths = before.clamp(max=_LOOK_BACK)
    ends = lengths.cumsum(0)
    owner = torch.repeat_interleave(interactions, lengths)  # [G]
    # Those of an interaction end right before it.
    index = owner - ends[owner] + torch.arange(len(owner), device=owner.device)
    rows = clicked[index]
    rows = torch.where(rows == clicked[owner], -1, rows)
    return ItemLists(torch.cat([ends.new_zeros(1), ends]), rows)
