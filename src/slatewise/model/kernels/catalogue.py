"""The sum over the catalogue in the exposure term, estimated from candidates, with its gradient.

Shapes: M states, N interactions, R item rows, K candidates, D dimensions.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from slatewise.model.kernels.backend import (
    Backend,
    RelevanceFunction,
    is_distance,
    loops,
    plain,
    takes_numba,
)
from slatewise.model.kernels.checks import check_items
from slatewise.model.kernels.slate import segment_log_sums, split_bias
from slatewise.model.relevance.distance import DISTANCE

_NEVER = -1e30
"""A score that no sum notices; of infinity, gradients would not be finite where nothing is left."""


class ItemLists(NamedTuple):
    """Some items of each interaction."""

    offsets: Tensor
    """[N + 1] int64: those of interaction n are `rows[offsets[n] : offsets[n + 1]]`"""
    rows: Tensor
    """[G] rows of `items`, -1 for none"""

    @property
    def there(self) -> tuple[Tensor, Tensor]:
        """The interaction and the row of each item that is one: [G'] int64."""
        owner = torch.repeat_interleave(self.offsets.diff(), output_size=len(self.rows))
        is_item = self.rows >= 0
        return owner[is_item], self.rows[is_item].long()


def catalogue_terms(
    states: Tensor,
    items: Tensor,
    no_click: Tensor | None,
    *,
    candidates: Tensor,
    catalogue: int,
    state_of: Tensor,
    own: ItemLists,
    weights: Tensor,
    sharpness: float = 1.0,
    include_bias: bool = False,
    taken: ItemLists | None = None,
    relevance: RelevanceFunction = DISTANCE,
    backend: Backend = "auto",
) -> Tensor:
    """Return sum_n weights_n log(Σ_I exp(κ r) + β_n^κ), the sum over the catalogue estimated: [].

    r is -||z - v|| or another relevance, plus b with `include_bias`. Candidates stand for
    the catalogue, each for I / K items; an interaction's `own` items are counted themselves, and
    not among them. So the sum inside the logarithm is unbiased, also without what is `taken`: every
    item that is left is a candidate as often as any other. It is never less than the sum over the
    own items, with which it is compared. Were they left to chance as well, vectors could gather
    where candidates are missed, and the likelihood would rise without end.

    Args:
        states: [M, D] user states z.
        items: [R, D] item vectors v, or [R, D + 1] with the bias b in the last column.
        no_click: [N] utility log β of clicking nothing; None leaves it out of the sum.
        candidates: [K] distinct rows of `items`, drawn uniformly or all there are.
        catalogue: I, the number of items they stand for.
        state_of: [N] int64, the state before each interaction.
        own: items that are counted themselves.
        weights: [N] a constant: no gradient flows to it.
        sharpness: positive exponent κ of the relevance.
        include_bias: whether b counts.
        taken: items left out of the sum of an interaction, none of its own among them; none by
            default.
        relevance: r, of a state and a vector.
        backend: `numba` is a fused pass between two matrix products, in float32 on the CPU, whose
            gradients are worked out on the way and handed out by one backward pass (a second one
            raises); `torch` is the reference, for any device, dtype and relevance; `auto` takes
            numba where it can.

    """
    if not sharpness > 0:
        raise ValueError(f"sharpness must be positive, not {sharpness}")
    if not 1 <= len(candidates) <= catalogue:
        raise ValueError(f"{len(candidates)} candidates cannot stand for {catalogue} items")
    check_items(states, items)
    count, weights = len(own.offsets) - 1, weights.detach()
    for name, tensor in (("no_click", no_click), ("state_of", state_of), ("weights", weights)):
        if tensor is not None and tensor.shape != (count,):
            raise ValueError(f"{name} must be [{count}], not {list(tensor.shape)}")
    floats = [states, items, weights] + ([] if no_click is None else [no_click])
    if takes_numba(backend, states.shape[1], floats, relevance):
        inputs = [states, items, no_click]
        if not torch.is_grad_enabled():  # autograd would still ask for gradients
            inputs = [None if tensor is None else tensor.detach() for tensor in inputs]
        constants = (candidates, catalogue, state_of, own, weights, sharpness, include_bias)
        return _Fused.apply(*inputs, *constants, taken, relevance.name)  # type: ignore[no-any-return,no-untyped-call]
    log_sum = catalogue_log_sum(
        states,
        items,
        candidates=candidates,
        catalogue=catalogue,
        state_of=state_of,
        own=own,
        sharpness=sharpness,
        include_bias=include_bias,
        taken=taken,
        relevance=relevance,
    )
    if no_click is not None:
        log_sum = torch.logaddexp(log_sum, sharpness * no_click)
    return (weights * log_sum).sum()


# Reference.


def catalogue_log_sum(
    states: Tensor,
    items: Tensor,
    *,
    candidates: Tensor,
    catalogue: int,
    state_of: Tensor,
    own: ItemLists,
    sharpness: float,
    include_bias: bool = False,
    taken: ItemLists | None = None,
    relevance: RelevanceFunction = DISTANCE,
) -> Tensor:
    """Estimate log Σ_I exp(κ r) for each interaction; arguments as in `catalogue_terms`: [N]."""
    dims = states.shape[1]
    vectors, biases = split_bias(items.index_select(0, candidates), dims)
    utility = relevance.many(states, vectors)  # [M, K]
    if biases is not None and include_bias:
        utility = utility + biases
    scores = math.log(catalogue / len(candidates)) + sharpness * utility  # [M, K]
    column_of = _columns_of(candidates, len(items))
    if taken is not None:  # of one state, interactions differ in what is left
        count = len(state_of)
        scores, state_of, states = (
            scores.index_select(0, state_of),
            torch.arange(count, device=state_of.device),
            states.index_select(0, state_of),
        )
        owner, rows = taken.there
        column = column_of[rows].long()
        gone = torch.zeros_like(scores, dtype=torch.bool)
        gone[owner[column >= 0], column[column >= 0]] = True
        scores = scores.masked_fill(gone, _NEVER)
    log_sum = torch.logsumexp(scores, dim=1).index_select(0, state_of)  # [N]
    if len(candidates) == catalogue:
        return log_sum
    # Where an own item is also a candidate, it must not be counted twice.
    owner, rows = own.there
    column = column_of[rows].long()
    both, number = torch.unique(owner[column >= 0], return_inverse=True)
    again = scores.index_select(0, state_of[both])
    twice = torch.zeros_like(again, dtype=torch.bool)
    twice[number, column[column >= 0]] = True
    rest = torch.logsumexp(again.masked_fill(twice, _NEVER), dim=1)
    log_sum = log_sum.index_copy(0, both, rest)
    vectors, bias = split_bias(items.index_select(0, rows), dims)
    found = relevance.pairs(states.index_select(0, state_of[owner]), vectors)
    if bias is not None and include_bias:
        found = found + bias
    return torch.logaddexp(segment_log_sums(sharpness * found, owner, len(log_sum)), log_sum)


def _columns_of(candidates: Tensor, rows: int) -> Tensor:
    """Return the column of each item row among the candidates, -1 for none: [R] int32."""
    column_of = torch.full((rows,), -1, dtype=torch.int32, device=candidates.device)
    column_of[candidates] = torch.arange(
        len(candidates), dtype=torch.int32, device=candidates.device
    )
    return column_of


def _columns_taken(taken: ItemLists | None, column_of: Tensor) -> tuple[Tensor, Tensor]:
    """Return the candidates that are no choice by interaction; nothing at all where all are."""
    if taken is None:
        return torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int32)
    gone = torch.where(taken.rows >= 0, column_of[taken.rows.long()], -1).int()
    return plain(taken.offsets, torch.int64), gone


# Two matrix products, and a fused pass between them.

_BLOCK = 256
"""States whose products with the candidates are in memory, and nearly in cache, at a time."""


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        items: Tensor,
        no_click: Tensor | None,
        candidates: Tensor,
        catalogue: int,
        state_of: Tensor,
        own: ItemLists,
        weights: Tensor,
        sharpness: float,
        include_bias: bool,
        taken: ItemLists | None,
        relevance: str,
    ) -> Tensor:
        states, items = plain(states), plain(items)
        nothing = states.new_empty(0)
        no_click = nothing if no_click is None else plain(no_click)
        columns = _columns_of(candidates, len(items))
        column_of = columns if len(candidates) < catalogue else nothing.int()
        starts, gone = _columns_taken(taken, columns)
        weights = plain(weights)
        apart = plain(own.offsets, torch.int64), plain(own.rows, torch.int32)
        # Interactions of a state share its relevances, which are most of the work; states of which
        # none counts, such as the last of every user, cost nothing.
        first, following = torch.full((len(states),), -1), torch.empty_like(state_of)
        chain = (plain(state_of, torch.int64), *apart, weights, first, following)
        fault = loops("catalogue").chain_by_state(*(part.numpy() for part in chain), len(items))
        if fault >= 0:
            raise IndexError(f"interaction {fault}: state or own item out of range")
        room = torch.empty(3, int(own.offsets.diff().max()) if len(weights) else 0)
        counted = torch.nonzero(first >= 0).squeeze(1)
        dims = states.shape[1]
        has_bias = include_bias and items.shape[1] > dims
        rows = items.index_select(0, candidates)  # [K, C]
        vectors = rows[:, :dims].contiguous()
        by_distance = is_distance(relevance)
        norms = vectors.square().sum(1) if by_distance else nothing
        biases = rows[:, dims].contiguous() if has_bias else nothing
        # All or none: what one of them costs is small beside the relevances.
        wanted = any(ctx.needs_input_grad[:3])
        gradients = [torch.zeros_like(part) for part in (states, items, no_click) if wanted]
        of_rows, column_mass = torch.zeros_like(rows), torch.zeros(len(rows))
        of_biases = torch.zeros_like(biases)
        products = torch.empty(min(_BLOCK, len(counted)), len(rows))
        kernel = loops("catalogue").catalogue_kernel(has_bias, relevance)
        total = 0.0
        for block in torch.split(counted, _BLOCK):
            here = states.index_select(0, block)  # [B, D]
            slopes = torch.mm(here, vectors.T, out=products[: len(block)])
            mass, of_here = torch.empty(len(block)), torch.zeros_like(here)
            inputs = [slopes, here, vectors, norms, biases, items, no_click, column_of]
            inputs += [first.index_select(0, block), following, *apart, weights, starts, gone]
            outputs = [room, mass, column_mass, of_biases, of_here]
            outputs += gradients[1:] if wanted else [items, no_click]
            total += kernel(
                *(part.numpy() for part in inputs),
                np.float32(math.log(catalogue / len(candidates))),
                np.float32(sharpness),
                wanted,
                *(part.numpy() for part in outputs),
            )
            if wanted:
                # Of a distance, slope · (v − z) for the state and slope · (z − v) for candidates.
                of_here.addmm_(slopes, vectors)
                if by_distance:
                    of_here.addcmul_(mass[:, None], here, value=-1)
                gradients[0].index_copy_(0, block, of_here)
                of_rows[:, :dims].addmm_(slopes.T, here)
        if wanted:
            if by_distance:
                of_rows[:, :dims].addcmul_(column_mass[:, None], vectors, value=-1)
            if has_bias:
                of_rows[:, dims] = of_biases
            gradients[1].index_add_(0, candidates, of_rows)
            ctx.gradients = gradients
        return torch.tensor(total, dtype=torch.float32)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, factor: Tensor) -> tuple[Tensor | None, ...]:
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None:
            raise RuntimeError(
                "the gradients of catalogue_terms were handed out already: call it again, or use "
                "backend='torch' for more than one backward pass"
            )
        wanted = ctx.needs_input_grad[:3]
        scaled = (
            gradient.mul_(factor) if want else None
            for gradient, want in zip(gradients, wanted, strict=True)
        )
        return (*scaled, *[None] * 9)
