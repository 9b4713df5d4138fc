"""User states after clicks and slates without one, step after step, with gradients.

`model.dynamics` has the equations, in plain torch. There autograd keeps a dozen tensors a step;
here one compiled pass rolls out all users, and another goes back.

Shapes: B users, K steps, M = B + K states, d_h hidden units, D dimensions, E sources that count.
"""

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from slatewise.model.kernels._loading import plain


def roll_linear(
    inputs: Tensor,
    drift: Tensor,
    initial: Tensor,
    fractions: Tensor,
    kinds: Tensor,
    active: Sequence[int],
) -> Tensor:
    """Return the states of linear dynamics: [M, D].

    Args:
        inputs: [K, D] vectors of clicked items, or means of slates, by step.
        drift: [] γ.
        initial: [B, D] first states.
        fractions: [E] ρ.
        kinds: [K] −1 for a click, else a place in the fractions.
        active: users in each step, never more than in the one before; K in all.

    """
    result: Tensor = _Linear.apply(inputs, drift, initial, fractions, kinds, active)  # type: ignore[no-untyped-call]
    return result


def roll_gru(
    inputs: Tensor,
    weights: tuple[Tensor, Tensor],
    initial: Tensor,
    fractions: Tensor,
    kinds: Tensor,
    active: Sequence[int],
) -> Tensor:
    """Return the states of a GRU: [M, d_h].

    As `roll_linear`, with first states [B, d_h] and the weights W_i [3 d_h, D], W_h [3 d_h, d_h].
    """
    result: Tensor = _Gru.apply(inputs, *weights, initial, fractions, kinds, active)  # type: ignore[no-untyped-call]
    return result


def _by_user(active: Sequence[int]) -> tuple[Any, Any]:
    """Return where the events of each step begin, and how many there are."""
    counts = np.array(active, dtype=np.int64)
    return counts.cumsum() - counts, counts


def _loops() -> Any:
    return importlib.import_module("slatewise.model.kernels._rolling_numba")


def _arrays(*tensors: Tensor) -> list[Any]:
    return [tensor.numpy() for tensor in tensors]


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        drift: Tensor,
        initial: Tensor,
        fractions: Tensor,
        kinds: Tensor,
        active: Sequence[int],
    ) -> Tensor:
        inputs, fractions = plain(inputs), plain(fractions)
        states = torch.cat([plain(initial), torch.empty_like(inputs)])
        ctx.drift, ctx.steps, ctx.users = np.float32(drift.item()), _by_user(active), len(initial)
        ctx.save_for_backward(states, inputs, kinds, fractions)
        _loops().linear_kernel(inputs.shape[1])(
            *_arrays(states, inputs), ctx.drift, *_arrays(kinds, fractions), *ctx.steps
        )
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        states, inputs, kinds, fractions = ctx.saved_tensors
        slopes = slopes.clone(memory_format=torch.contiguous_format)
        of_inputs, of_fractions = torch.empty_like(inputs), torch.zeros_like(fractions).double()
        of_drift = _loops().linear_gradient_kernel(inputs.shape[1])(
            *_arrays(slopes, states, inputs),
            ctx.drift,
            *_arrays(kinds, fractions),
            *ctx.steps,
            *_arrays(of_inputs, of_fractions),
        )
        of_initial = slopes[: ctx.users]
        return of_inputs, slopes.new_tensor(of_drift), of_initial, of_fractions.float(), None, None


class _Gru(torch.autograd.Function):
    # Products with W_i and the gradients of weights are taken for all events at once, by torch.

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        from_item: Tensor,
        from_state: Tensor,
        initial: Tensor,
        fractions: Tensor,
        kinds: Tensor,
        active: Sequence[int],
    ) -> Tensor:
        inputs, from_item, from_state, fractions = map(
            plain, (inputs, from_item, from_state, fractions)
        )
        units = initial.shape[1]
        is_click = kinds < 0
        clicks, slates = (torch.nonzero(part).squeeze(1) for part in (is_click, ~is_click))
        slots = torch.empty_like(kinds)
        slots[clicks] = torch.arange(len(clicks))
        slots[slates] = torch.arange(len(slates))
        clicked, seen = inputs.index_select(0, clicks), inputs.index_select(0, slates)
        targets = (seen @ from_item[2 * units :].T).tanh_()  # [Ks, d_h]
        states = torch.cat([plain(initial), inputs.new_empty(len(inputs), units)])
        gates, met = inputs.new_empty(4 * len(clicks), units), inputs.new_empty(len(clicks), units)
        ctx.steps, ctx.users = _by_user(active), len(initial)
        _loops().gru_kernel(units)(
            *_arrays(states, (clicked @ from_item.T).view(-1, units), targets),
            from_state.view(3, units, units).mT.reshape(-1, units).numpy(),
            *_arrays(kinds, slots, fractions),
            *ctx.steps,
            *_arrays(gates, met),
        )
        kept = clicked, seen, clicks, slates, gates, met, targets, kinds, slots, fractions, states
        ctx.save_for_backward(from_item, from_state, *kept)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        from_item, from_state, clicked, seen, clicks, slates, *kept = ctx.saved_tensors
        gates, met, targets, kinds, slots, fractions, states = kept
        units = targets.shape[1]
        slopes = slopes.clone(memory_format=torch.contiguous_format)
        of_targets, found = torch.empty_like(targets), torch.empty_like(gates)
        of_fractions = torch.zeros_like(fractions).double()
        _loops().gru_gradient_kernel(units)(
            *_arrays(slopes, states, targets, from_state, kinds, slots, fractions),
            *ctx.steps,
            *_arrays(gates, of_targets, found, of_fractions),
        )
        found = found.view(-1, 4 * units)  # new, reset and update gate, W_hn h
        of_item, of_state = found[:, : 3 * units], found[:, units:]
        of_seen = of_targets.mul_(1 - targets.square())
        new, others = from_item[2 * units :], from_item[: 2 * units]
        of_inputs = seen.new_empty(len(kinds), seen.shape[1])
        of_inputs.index_copy_(0, clicks, of_item @ torch.cat([new, others]))
        of_inputs.index_copy_(0, slates, of_seen @ new)
        of_new, of_others = (of_item.T @ clicked).split([units, 2 * units])
        of_from_item = torch.cat([of_others, of_new.addmm(of_seen.T, seen)])
        weights = of_from_item, of_state.T @ met
        return of_inputs, *weights, slopes[: ctx.users], of_fractions.float(), None, None
