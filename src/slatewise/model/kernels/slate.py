"""The log-likelihood of choices from slates, and the slate's side of exposure, with gradients.

Shapes: M states, N interactions, F cells (items of all slates, one after the other), R item rows,
D dimensions, P features of a cell, S slate positions.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from slatewise.compiled.gpu import takes_triton
from slatewise.model.kernels.backend import (
    Backend,
    RelevanceFunction,
    has_kernel,
    is_distance,
    loops,
    plain,
    takes_numba,
)
from slatewise.model.kernels.checks import check_features, check_lengths, check_shapes
from slatewise.model.relevance.distance import DISTANCE

_NEVER = -1e30
"""Utility of what cannot be chosen; unlike -inf it has a finite sum with itself."""


@dataclass(frozen=True)
class SlateTerms:
    """The terms of N interactions and their weighted sum."""

    total: Tensor
    """[] differentiable with respect to states, items, no_click, feature_weights, positions,
    position_factors and enough"""
    log_likelihood: Tensor
    """[N] without gradient"""
    exposed: Tensor
    """[N] without gradient; zeros where no exposure weights were given"""


def slate_terms(
    states: Tensor,
    items: Tensor,
    no_click: Tensor,
    *,
    state_of: Tensor,
    cells: Tensor,
    offsets: Tensor,
    clicks: Tensor,
    weights: Tensor,
    features: Tensor | None = None,
    feature_weights: Tensor | None = None,
    positions: Tensor | None = None,
    position_factors: Tensor | None = None,
    taken: Tensor | None = None,
    stops: Tensor | None = None,
    enough: Tensor | None = None,
    exposure_weights: Tensor | None = None,
    sharpness: float = 1.0,
    include_no_click: bool = False,
    include_bias: bool = False,
    relevance: RelevanceFunction = DISTANCE,
    backend: Backend = "auto",
) -> SlateTerms:
    """Return sum_n weights_n (log_likelihood_n + exposure_weights_n exposed_n) and its parts.

    A cell's utility is u = r(z, v) + b + features · feature_weights + its position's number, with
    r = -||z - v|| or another relevance (eq. click-softmax, with further terms). Per interaction,
    `log_likelihood` is u of the click minus logsumexp of u over the slate and the no-click option;
    where the click was the last of several that a slate may have, the log-probability that then the
    user had enough of what is left is added;
    `exposed` is logsumexp of sharpness * r over the slate, the part of the exposure term that
    depends on the slate. Features and positions are not in it: the other side of that term sums
    over items that were not shown, which have no position, and no features as of that moment.

    Args:
        states: [M, D] user states z.
        items: [R, D] item vectors v, or [R, D + 1] with the bias b in the last column.
        no_click: [N] utility of clicking nothing.
        state_of: [N] int64, the state before each interaction.
        cells: [F] int32, the row of `items` in each cell.
        offsets: [N + 1] int64, slate n is `cells[offsets[n] : offsets[n + 1]]`.
        clicks: [N] int32, position in the slate, -1 for no click.
        weights: [N] a constant: no gradient flows to it.
        features: [F, P] a constant.
        feature_weights: [P] given with the features.
        positions: [S] added to the utility of the first, second, … item of a slate; of items
            further down, the last.
        position_factors: [N] by which they are multiplied in each interaction; 1 without it.
        taken: [F] bool, a constant: cells that were clicked before and cannot be chosen.
        stops: [N] bool, a constant: whether the user had enough after this click; given with
            `enough`.
        enough: [N] utility of having enough after the click of each interaction.
        exposure_weights: [N] a constant; None leaves the exposure term out.
        sharpness: positive exponent of the relevance in the exposure term.
        include_no_click: whether the no-click option counts in the exposure term.
        include_bias: whether b is added to r there too.
        relevance: r, of a state and a vector.
        backend: `numba` is one fused pass in float32 on the CPU, whose gradients are worked out
            on the way and handed out by one backward pass (a second one raises); `torch` is the
            reference, for any device, dtype and relevance; `auto` takes numba where it can.

    """
    if not sharpness > 0:
        raise ValueError(f"sharpness must be positive, not {sharpness}")
    floats = [states, items, no_click, weights]
    given = (feature_weights, positions, position_factors, enough, exposure_weights)
    floats += [tensor for tensor in given if tensor is not None]
    on_gpu = backend == "auto" and has_kernel(relevance) and takes_triton(*floats)
    floats += [] if features is None else [features]
    check_shapes(states, items, no_click, state_of, cells, offsets, clicks, weights)
    check_lengths(
        (exposure_weights, len(clicks), "exposure_weights"),
        (position_factors, len(clicks), "position_factors"),
        (taken, len(cells), "taken"),
        (stops, len(clicks), "stops"),
        (enough, len(clicks), "enough"),
    )
    check_features(features, feature_weights, len(cells))
    run = _fused if takes_numba(backend, states.shape[1], floats, relevance) else _reference
    if on_gpu and not torch.is_grad_enabled():
        run = _on_gpu
    total, log_likelihood, exposed = run(
        states,
        items,
        no_click,
        feature_weights,
        positions,
        position_factors,
        enough,
        features=None if features is None else features.detach(),
        state_of=state_of,
        cells=cells,
        offsets=offsets,
        clicks=clicks,
        taken=taken,
        stops=stops,
        weights=weights.detach(),
        exposure_weights=None if exposure_weights is None else exposure_weights.detach(),
        sharpness=sharpness,
        include_no_click=include_no_click,
        include_bias=include_bias,
        relevance=relevance,
    )
    return SlateTerms(total, log_likelihood, exposed)


# Reference.


def _reference(
    states: Tensor,
    items: Tensor,
    no_click: Tensor,
    feature_weights: Tensor | None,
    positions: Tensor | None,
    position_factors: Tensor | None,
    enough: Tensor | None,
    *,
    features: Tensor | None,
    state_of: Tensor,
    cells: Tensor,
    offsets: Tensor,
    clicks: Tensor,
    taken: Tensor | None,
    stops: Tensor | None,
    weights: Tensor,
    exposure_weights: Tensor | None,
    sharpness: float,
    include_no_click: bool,
    include_bias: bool,
    relevance: RelevanceFunction,
) -> tuple[Tensor, Tensor, Tensor]:
    count, num_cells = len(clicks), len(cells)
    each = torch.arange(count, device=clicks.device)  # [N]
    of_cell = torch.repeat_interleave(each, offsets.diff(), output_size=num_cells)  # [F]
    seen_by = states.index_select(0, state_of.index_select(0, of_cell))  # [F, D]
    vectors, biases = split_bias(items.index_select(0, cells), states.shape[1])
    utility = exposing = relevance.pairs(seen_by, vectors)  # [F]
    if biases is not None:
        utility = utility + biases
        exposing = utility if include_bias else exposing
    if features is not None and feature_weights is not None:
        utility = utility + features.to(feature_weights.dtype) @ feature_weights
    if positions is not None:
        position = torch.arange(num_cells, device=clicks.device) - offsets[of_cell]
        added = positions[position.clamp(max=len(positions) - 1)]
        factors = 1.0 if position_factors is None else position_factors.index_select(0, of_cell)
        utility = utility + factors * added
    if taken is not None:
        utility, exposing = (torch.where(taken, _NEVER, each) for each in (utility, exposing))
    choices, of_choice = torch.cat([utility, no_click]), torch.cat([of_cell, each])  # [F + N]
    chosen = torch.where(clicks >= 0, offsets[:-1] + clicks, num_cells + each)  # [N]
    log_likelihood = choices.index_select(0, chosen) - segment_log_sums(choices, of_choice, count)
    if stops is not None and enough is not None:
        # Whether the click was the last: "enough" against what is left behind it.
        index = torch.arange(num_cells, device=clicks.device)
        behind = torch.where(index == chosen.index_select(0, of_cell), _NEVER, utility)
        total = segment_log_sums(torch.cat([behind, enough]), of_choice, count)
        log_likelihood = log_likelihood + torch.where(stops, enough - total, 0.0)
    terms = log_likelihood
    exposed = torch.zeros_like(log_likelihood)
    if exposure_weights is not None:
        if include_no_click:
            exposed = segment_log_sums(
                sharpness * torch.cat([exposing, no_click]), of_choice, count
            )
        else:
            exposed = segment_log_sums(sharpness * exposing, of_cell, count)
        counted = exposure_weights != 0  # an empty slate has -inf
        terms = terms + torch.where(counted, exposure_weights * exposed, 0.0)
    total = torch.where(weights != 0, weights * terms, 0.0).sum()
    return total, log_likelihood.detach(), exposed.detach()


def split_bias(items: Tensor, dims: int) -> tuple[Tensor, Tensor | None]:
    """Split rows of items into vectors [..., D] and biases [...], None where they have none."""
    if items.shape[-1] == dims:
        return items, None
    return items[..., :dims], items[..., dims]


def segment_log_sums(values: Tensor, segments: Tensor, count: int) -> Tensor:
    """Return logsumexp of each segment's values, -inf for none."""
    highest = values.new_full((count,), -torch.inf)
    highest = highest.scatter_reduce(0, segments, values.detach(), "amax")
    highest = torch.where(highest == -torch.inf, 0.0, highest)
    parts = (values - highest.index_select(0, segments)).exp()
    return highest + values.new_zeros(count).index_add(0, segments, parts).log()


# One pass on a GPU, without gradients.


def _on_gpu(
    states: Tensor,
    items: Tensor,
    no_click: Tensor,
    feature_weights: Tensor | None,
    positions: Tensor | None,
    position_factors: Tensor | None,
    enough: Tensor | None,
    **constants: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the same; training has a pass of its own, with gradients of all items."""
    from slatewise.model.kernels.gpu.choice import SlateBatch, run_choices  # noqa: PLC0415

    offsets, weights = constants["offsets"], constants["weights"]
    slates = SlateBatch(
        constants["cells"],
        offsets[:-1].contiguous(),
        offsets.diff(),
        constants["clicks"],
        constants["state_of"],
        weights,
        features=constants["features"],
        taken=constants["taken"],
        stops=constants["stops"],
        lambdas=constants["exposure_weights"],
        kappa=constants["sharpness"],
        is_choice=constants["include_no_click"],
        distance=is_distance(constants["relevance"].name),
    )
    inputs = (states, no_click, feature_weights, positions, position_factors, enough)
    values, within, _ = run_choices(inputs, items, slates, None, wanted=False)
    lambdas = constants["exposure_weights"]
    exposed = torch.zeros_like(within)
    if lambdas is not None:
        exposed = torch.where(lambdas != 0, (values - within) / lambdas, 0.0)
    return torch.where(weights != 0, weights * values, 0.0).sum(), within, exposed


# One fused pass.


def _fused(*inputs: Tensor | None, **constants: Any) -> tuple[Tensor, Tensor, Tensor]:
    if not torch.is_grad_enabled():  # autograd would still ask for gradients
        inputs = tuple(None if tensor is None else tensor.detach() for tensor in inputs)
    return _Fused.apply(*inputs, constants)  # type: ignore[no-any-return,no-untyped-call]


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        items: Tensor,
        no_click: Tensor,
        feature_weights: Tensor | None,
        positions: Tensor | None,
        position_factors: Tensor | None,
        enough: Tensor | None,
        constants: dict[str, Any],
    ) -> tuple[Tensor, Tensor, Tensor]:
        nothing = no_click.new_empty(0)
        inputs = (states, items, no_click, feature_weights, positions, position_factors, enough)
        floats = [nothing if tensor is None else plain(tensor) for tensor in inputs]
        wanted, features = list(ctx.needs_input_grad[:7]), constants["features"]
        if features is not None:  # the pass takes what weights make of the features of a cell: [F]
            features, row = plain(features).numpy(), floats[3][None].numpy()
            floats[3] = no_click.new_empty(len(features))
            loops("slate").feature_kernel(row.size)(features, row, floats[3].numpy())
        gradients = [
            torch.zeros_like(value) if want else value.new_empty((0, *value.shape[1:]))
            for value, want in zip(floats, wanted, strict=True)
        ]
        log_likelihood, exposed = torch.zeros_like(floats[2]), torch.zeros_like(floats[2])
        exposure_weights, dims = constants["exposure_weights"], states.shape[1]
        terms = items.shape[1] > dims or feature_weights is not None or positions is not None
        taken, stops = (
            nothing.bool() if flags is None else plain(flags, torch.bool)
            for flags in (constants["taken"], constants["stops"])
        )
        kernel = loops("slate").slate_kernel(
            dims, terms, features is not None, len(taken) > 0, constants["relevance"].name
        )
        total, fault = kernel(
            *(value.numpy() for value in floats),
            plain(constants["state_of"], torch.int64).numpy(),
            plain(constants["cells"], torch.int32).numpy(),
            plain(constants["offsets"], torch.int64).numpy(),
            plain(constants["clicks"], torch.int32).numpy(),
            taken.numpy(),
            stops.numpy(),
            plain(constants["weights"]).numpy(),
            (nothing if exposure_weights is None else plain(exposure_weights)).numpy(),
            np.float32(constants["sharpness"]),
            constants["include_no_click"],
            constants["include_bias"],
            log_likelihood.numpy(),
            exposed.numpy(),
            any(wanted),
            *(gradient.numpy() for gradient in gradients),
        )
        if fault >= 0:
            raise IndexError(f"interaction {fault}: state, slate, item row or click out of range")
        if features is not None and wanted[3]:
            slopes, gradients[3] = gradients[3].numpy(), no_click.new_empty(row.size)
            into = loops("slate").feature_gradient_kernel(row.size)
            into(features, slopes, gradients[3].numpy())
        ctx.mark_non_differentiable(log_likelihood, exposed)
        ctx.gradients = [g if want else None for g, want in zip(gradients, wanted, strict=True)]
        return torch.tensor(total, dtype=torch.float32), log_likelihood, exposed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, factor: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        # Scaled in place and given away: with 100,000 item rows a copy adds a third to the whole.
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None:
            raise RuntimeError(
                "the gradients of slate_terms were handed out already: call it again, or use "
                "backend='torch' for more than one backward pass"
            )
        if factor.item() != 1:
            for gradient in gradients:
                if gradient is not None:
                    gradient.mul_(factor)
        return (*gradients, None)
