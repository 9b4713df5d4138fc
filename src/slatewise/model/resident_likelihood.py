"""The likelihood of a batch that stays on its device: `batch_likelihood`, from the log in place.

Where a kernel knows all parts of the utility, one pass works out values and gradients. Else the
items are gathered, and plain torch does it: slower, and the host waits for their number.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from slatewise.compiled.gpu import takes_triton
from slatewise.model.kernels.backend import has_kernel, is_distance
from slatewise.model.kernels.means import row_means
from slatewise.model.likelihood import Candidates, Exposure, batch_likelihood
from slatewise.model.parameters import Parameters
from slatewise.model.resident import ResidentBatch
from slatewise.model.utility import (
    enough_utilities,
    no_click_utilities,
    position_factors,
    required,
)

if TYPE_CHECKING:
    from slatewise.model.kernels.gpu.parts import RowGradient


@dataclass(frozen=True)
class ResidentLikelihood:
    """Minus the weighted mean of log-likelihoods, and what is reported."""

    loss: Tensor
    """[] differentiable; gradients of items may go to a `RowGradient` instead"""
    slate: Tensor
    """[] mean log-likelihood within slates, of the interactions that count"""


def has_kernels(parameters: Parameters, exposure: Exposure | None) -> bool:
    """Return whether kernels know all of the likelihood, on the device of the parameters.

    They sum over one catalogue for everybody, not over what each user has left.
    """
    if exposure is not None and not exposure.repeats:
        return False
    if not (has_kernel(parameters.parts.relevance) and takes_triton(parameters.items)):
        return False
    if exposure is None:
        return True
    from slatewise.model.kernels.gpu.catalogue import fits_candidates  # noqa: PLC0415

    return fits_candidates(parameters.dimensions, parameters.items.device)


def moving_in_place(
    parameters: Parameters,
    batch: ResidentBatch,
    gradient: "RowGradient | None",
    *,
    kernels: bool,
) -> Tensor:
    """Return what each event moves its user towards, as `moving_vectors` does: [K, D].

    With `kernels`, the slope of items is added to `gradient`; None leaves items as they are.
    """
    starts, lengths = batch.event_ranges
    cells, dims = batch.log.slate_items, parameters.dimensions
    if kernels:
        from slatewise.model.kernels.gpu import means  # noqa: PLC0415

        return means.row_means(parameters.items, cells, starts, lengths, dims, gradient)
    return row_means(parameters.items, cells, starts, starts + lengths, dims, backend="torch")


def likelihood_in_place(
    parameters: Parameters,
    profiles: Tensor,
    batch: ResidentBatch,
    weights: Tensor,
    exposure: Exposure | None,
    candidates: Candidates | None,
    gradient: "RowGradient | None",
    *,
    kernels: bool,
) -> ResidentLikelihood:
    """Return −Σ weights · log P / Σ weights for profiles [M, D] and weights [N].

    With `kernels`, the slope of items is added to `gradient`; None leaves items as they are.
    """
    counted = weights.sum().clamp(min=1)
    if not kernels:
        some, of_some = batch.gathered(), weights[batch.real]
        found = batch_likelihood(
            parameters,
            profiles,
            batch.state_of[batch.real],
            some,
            of_some,
            exposure,
            candidates,
        )
        return ResidentLikelihood(-found.total / counted, (of_some * found.slate).sum() / counted)
    from slatewise.model.kernels.gpu.choice import SlateBatch, choice_values  # noqa: PLC0415

    log, choices = batch.log, batch.choices
    lambdas = None
    if exposure is not None:
        lambdas = exposure.source_weights.index_select(0, choices.sources.int())
        if choices.several is not None and not exposure.is_choice:
            lambdas = torch.where(choices.several.further > 0, 0.0, lambdas)
    cell_weights = parameters.cell_weights
    if exposure is not None and not exposure.declined:
        cell_weights = None
    if cell_weights is not None and log.cell_scales is not None:
        cell_weights = cell_weights * log.cell_scales  # the kernel reads whole numbers
    slates = SlateBatch(
        log.slate_items,
        batch.starts,
        choices.scroll_lengths,
        choices.clicks,
        batch.state_of,
        -weights / counted,
        features=None if cell_weights is None else required(log.cell_features),
        taken=None if log.several is None else log.several.taken,
        stops=None if choices.several is None else choices.several.stops,
        lambdas=lambdas,
        kappa=1.0 if exposure is None else exposure.sharpness,
        is_choice=exposure is not None and exposure.is_choice,
        distance=is_distance(parameters.parts.relevance.name),
    )
    if exposure is not None and candidates is not None:
        slates = replace(
            slates,
            candidates=candidates.rows,
            catalogue=candidates.catalogue,
            used=batch.event_offsets[-1] + batch.num_users,
        )
    loss, within = choice_values(
        profiles,
        parameters.items,
        no_click_utilities(parameters, choices),
        slates,
        feature_weights=cell_weights,
        positions=parameters.positions,
        factors=position_factors(parameters, choices),
        enough=enough_utilities(parameters, choices),
        gradient=gradient,
    )
    return ResidentLikelihood(loss, (weights * within).sum() / counted)
