"""Choices from slates, with all gradients worked out in the same pass over the items seen.

A slate is read where it lies in the log: nothing is padded, and nothing but the rows of its items
is gathered. Gradients of items are added to a `RowGradient`.

Shapes: M states, N interactions, F cells of the whole log, I items, D dimensions, P features.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from slatewise.model.kernels.gpu.catalogue import CandidateSums
from slatewise.model.kernels.gpu.choice_loops import choice_kernel
from slatewise.model.kernels.gpu.parts import COPIES, RowGradient, width

_SHORT, _LONG, _WARPS = 8, 8, 2
"""Items that are kept in registers between the sum of their slate and its gradient, items of a
further piece, which is read twice, and warps of a program. Registers decide how many programs run
side by side, and these hide how long memory takes: at FINN.no's size on an H200, 1.7 ms; with
pieces of 16 and one warp 4.9."""
_SHORT_WITH_FEATURES, _WARPS_WITH_FEATURES = 4, 1
"""The same where items have features, which need registers too: a whole step takes 8.1 ms and not
8.8."""
_REPLICAS = 2_048
"""Rows in which the gradients of a few shared weights are added up, to be summed in the end."""


@dataclass(frozen=True)
class SlateBatch:
    """Which slates of a log were chosen from, and what was chosen."""

    cells: Tensor
    """[F] int32, items of the whole log"""
    starts: Tensor
    """[N] int64, where a slate begins"""
    lengths: Tensor
    """[N]"""
    clicks: Tensor
    """[N] int32, position in the slate, −1 for no click"""
    state_of: Tensor
    """[N] int64, the state before each interaction"""
    weights: Tensor
    """[N]"""
    features: Tensor | None = None
    """[F, P], of single or half precision, or whole numbers of one byte"""
    taken: Tensor | None = None
    """[F] bool"""
    stops: Tensor | None = None
    """[N] bool"""
    lambdas: Tensor | None = None
    """[N] weights of the exposure term"""
    kappa: float = 1.0
    is_choice: bool = False
    """whether no click, and biases, are in the exposure term"""
    distance: bool = True
    """whether the relevance is −‖z − v‖; else it is z · v"""
    candidates: Tensor | None = None
    """[K] distinct rows that stand for the catalogue"""
    catalogue: int = 0
    """I, the number of items they stand for"""
    used: Tensor | None = None
    """[] int64, how many of the states are in use"""


def choice_values(
    states: Tensor,
    items: Tensor,
    no_click: Tensor,
    slates: SlateBatch,
    *,
    feature_weights: Tensor | None = None,
    positions: Tensor | None = None,
    factors: Tensor | None = None,
    enough: Tensor | None = None,
    gradient: RowGradient | None = None,
) -> tuple[Tensor, Tensor]:
    """Return Σ_n weights_n value_n, differentiable but for the items, and log P within slates [N].

    The references are `slate_terms` and `catalogue_terms`. Gradients of items, for a slope of 1,
    are added to `gradient`; None leaves items as they are.
    """
    found: tuple[Tensor, Tensor] = _Choices.apply(
        states, no_click, feature_weights, positions, factors, enough, items, slates, gradient
    )
    return found


def run_choices(
    inputs: tuple[Tensor | None, ...],
    items: Tensor,
    slates: SlateBatch,
    gradient: RowGradient | None,
    *,
    wanted: bool,
) -> tuple[Tensor, Tensor, list[Tensor | None]]:
    """Return values [N], log P within slates [N], and the gradients of the inputs if `wanted`."""
    states, no_click, feature_weights, positions, factors, enough = (
        None if tensor is None else tensor.detach().contiguous() for tensor in inputs
    )
    assert states is not None
    assert no_click is not None
    count, dims = len(slates.clicks), states.shape[1]
    features = None if feature_weights is None else slates.features
    num_features = 0 if feature_weights is None else len(feature_weights)
    last = 0 if positions is None else len(positions) - 1
    stops = None if enough is None else slates.stops
    values, within = torch.zeros_like(no_click), torch.zeros_like(no_click)

    def room(given: Tensor | None, *shape: int) -> Tensor:
        return states.new_zeros(shape) if wanted and given is not None else values

    of_states = room(states, *states.shape)
    of_none, of_factors, of_enough = (room(t, count) for t in (no_click, factors, stops))
    of_features = room(features, _REPLICAS, num_features)
    of_positions = room(positions, _REPLICAS, last + 1)
    sums, candidates = None, slates.candidates
    is_candidate = values
    sampled = candidates is not None and len(candidates) < slates.catalogue
    multiplicity = 1.0
    if slates.lambdas is not None and candidates is not None:
        multiplicity = slates.catalogue / len(candidates)
        used = slates.used
        if used is None:
            used = torch.full((), len(states), dtype=torch.int64, device=states.device)
        sums = CandidateSums(
            states,
            items,
            candidates,
            used,
            log_weight=math.log(multiplicity),
            kappa=slates.kappa,
            include_bias=slates.is_choice,
            distance=slates.distance,
            wanted=wanted,
        )
        if sampled:
            is_candidate = torch.zeros(len(items), dtype=torch.uint8, device=items.device)
            is_candidate.index_fill_(0, candidates, 1)
    of_sums = room(None if sums is None else states, len(states))

    def given(tensor: Tensor | None) -> Tensor:
        return values if tensor is None else tensor

    taken = None if slates.taken is None else slates.taken.view(torch.uint8)
    short, warps = _SHORT, _WARPS
    if features is not None:
        short, warps = _SHORT_WITH_FEATURES, _WARPS_WITH_FEATURES
    if count:
        choice_kernel[(count,)](
            states, items, no_click, slates.cells, slates.starts, slates.lengths, slates.clicks,
            slates.weights, slates.state_of, given(features), given(feature_weights),
            given(positions), given(factors), given(taken),
            given(None if stops is None else stops.view(torch.uint8)), given(enough),
            given(slates.lambdas), values if sums is None else sums.values, is_candidate,
            values, within, values if gradient is None else gradient.buffer,
            slates.cells if gradient is None else gradient.slots, len(items), of_states, of_none,
            of_features, of_positions, of_factors, of_enough, of_sums, slates.kappa, multiplicity,
            last, C=items.shape[1], D=dims, P=num_features, DP=width(dims),
            PP=width(max(1, num_features)), SHORT=short, LONG=_LONG, REPLICAS=_REPLICAS,
            COPIES=COPIES, DISTANCE=slates.distance, BIAS=items.shape[1] > dims,
            FEATURES=features is not None, POSITIONS=positions is not None,
            FACTORS=factors is not None, TAKEN=taken is not None, STOPS=stops is not None,
            EXPOSURE=slates.lambdas is not None, IS_CHOICE=slates.is_choice, SAMPLED=sampled,
            SUMS=sums is not None, ITEMS=gradient is not None, GRADIENT=wanted, num_warps=warps,
        )  # fmt: skip
    if not wanted:
        return values, within, []
    if sums is not None:
        sums.backward(of_sums, of_states, None if gradient is None else gradient.total)
    return (
        values,
        within,
        [
            of_states,
            of_none,
            None if features is None else of_features.sum(0),
            None if positions is None else of_positions.sum(0),
            None if factors is None else of_factors,
            None if stops is None else of_enough,
        ],
    )


class _Choices(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor]:
        inputs, (items, slates, gradient) = arguments[:6], arguments[6:]
        values, within, ctx.gradients = run_choices(inputs, items, slates, gradient, wanted=True)
        ctx.mark_non_differentiable(within)
        weights = slates.weights
        return torch.where(weights != 0, weights * values, 0.0).sum(), within

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, factor: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if each is None else factor * each for each in ctx.gradients)
        return (*scaled, None, None, None)
