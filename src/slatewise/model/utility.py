"""The utility of an item, and of clicking nothing: the one definition that all else is tested by.

    u = relevance(z, v) + b + Σ_p w_p x_p + what its position adds

with relevance −‖z − v‖ or z · v, x_p the features of terms from the strict past, and exp(u) the
relevance of eq. click-softmax. What was clicked before in the same slate is no longer a choice.
In slates all of it counts κ times where a model is pooled with terms that see these (`pool`).
Kernels, GPU passes, rankings and explanations compute the same faster; tests hold each of them to
these functions.

Parameters are a draw of the posterior, its mean, or its mean with the variances of items: then the
relevance of an item is what it is on average, −√(‖z − μ‖² + Σσ²) for the distance.

Shapes: N interactions, F items seen, I items, B users, D dimensions, P features.
"""

import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.features.cells import positions, slates_before
from slatewise.model.kernels.slate import split_bias
from slatewise.model.parameters import Parameters


def item_utilities(parameters: Parameters, profiles: Tensor, batch: Interactions) -> Tensor:
    """Return the utility of every item seen, given the profile [N, D] that saw its slate: [F].

    `batch.slate_items` points into `parameters.items`, and the batch has its features where the
    model has terms.
    """
    profiles, items = parameters.with_spread(profiles)
    seen_by = torch.repeat_interleave(profiles, batch.scroll_lengths, dim=0)  # [F, D]
    rows = items.index_select(0, batch.slate_items)
    vectors, biases = split_bias(rows, profiles.shape[1])
    utility = parameters.parts.relevance.pairs(seen_by, vectors)  # [F]
    if biases is not None:
        utility = utility + biases
    if parameters.cell_weights is not None:
        utility = utility + required(batch.cell_features) @ parameters.cell_weights
    if parameters.positions is not None:
        last = len(parameters.positions) - 1
        added = parameters.positions[positions(batch).clamp(max=last)]
        factors = position_factors(parameters, batch)
        if factors is not None:
            added = added * torch.repeat_interleave(factors, batch.scroll_lengths)
        utility = utility + added
    return utility if parameters.pool is None else parameters.pool.sharpness * utility


def position_factors(parameters: Parameters, batch: Interactions) -> Tensor | None:
    """Return what positions are multiplied by in each interaction: [N], None for 1."""
    if parameters.position_factors is None:
        return None
    return parameters.position_factor(batch.sources, slates_before(batch))


def no_click_utilities(parameters: Parameters, batch: Interactions) -> Tensor:
    """Return the utility of clicking nothing in each interaction: log β_s and its terms: [N].

    Where the slate was clicked before, that of having enough.
    """
    utility = parameters.no_click_after(batch.scroll_lengths, batch.sources)
    if parameters.step_weights is not None:
        utility = utility + required(batch.step_features) @ parameters.step_weights
    if parameters.pool is not None:
        utility = parameters.pool.sharpness * utility + parameters.pool.no_click
    if batch.several is None:
        return utility
    further = batch.several.further
    enough = _enough_after(parameters, further, batch)
    return utility if enough is None else torch.where(further > 0, enough, utility)


def enough_utilities(parameters: Parameters, batch: Interactions) -> Tensor | None:
    """Return the utility of having enough after the click of each interaction: [N].

    None where the model, or the log, knows of no slate with several clicks.
    """
    if batch.several is None:
        return None
    return _enough_after(parameters, batch.several.further + 1, batch)


def _enough_after(parameters: Parameters, clicks: Tensor, batch: Interactions) -> Tensor | None:
    utility = parameters.enough_after(clicks, batch.scroll_lengths - clicks)
    if utility is None or parameters.pool is None:
        return utility
    return parameters.pool.sharpness * utility


def ranking_utilities(parameters: Parameters, profiles: Tensor, added: Tensor | float) -> Tensor:
    """Return the utility of all items to profiles [B, D], as a slate is made from it: [B, I].

    `added` [B, I] is what terms add that rank: features of all items, and of the items that a user
    met. Positions, and what acts on clicking nothing, are the same for all items of a ranking.
    """
    profiles, items = parameters.with_spread(profiles)
    vectors, biases = split_bias(items, profiles.shape[1])
    utility = parameters.parts.relevance.exact(profiles, vectors)
    return utility + added if biases is None else utility + biases + added


def required(features: Tensor | None) -> Tensor:
    """Return features, refusing None where a model has weights for them."""
    if features is None:
        raise ValueError("the model has terms whose features the interactions lack: describe them")
    return features
