"""User states after clicks and slates without one, step after step, with gradients.

`model.dynamics` has the equations, in plain torch. There autograd keeps a dozen tensors a step;
here one compiled pass rolls out all users, and another goes back.

Shapes: B users, K steps, M = B + K states, d_h hidden units, D dimensions, E sources that count.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from slatewise.model.kernels.backend import loops, plain


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
        kinds: [K] −1 for a click, else an index into the fractions.
        active: users in each step, never more than in the one before; K in all.

    """
    result: Tensor = _Linear.apply(inputs, drift, initial, fractions, kinds, active)  # type: ignore[no-untyped-call]
    return result


def roll_gru(
    inputs: Tensor,
    weights: tuple[Tensor, Tensor, Tensor],
    initial: Tensor,
    fractions: Tensor,
    kinds: Tensor,
    active: Sequence[int],
) -> Tensor:
    """Return W_z h for the states h of a GRU: [M, D].

    As `roll_linear`, with first states [B, d_h] and the weights W_i [3 d_h, D], W_h [3 d_h, d_h]
    and W_z [D, d_h].
    """
    result: Tensor = _Gru.apply(inputs, *weights, initial, fractions, kinds, active)  # type: ignore[no-untyped-call]
    return result


def _by_user(active: Sequence[int]) -> tuple[Any, Any]:
    """Return where the events of each step begin, and how many there are."""
    counts = np.array(active, dtype=np.int64)
    return counts.cumsum() - counts, counts


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
        loops("linear").linear_kernel(inputs.shape[1])(
            *_arrays(states, inputs), ctx.drift, *_arrays(kinds, fractions), *ctx.steps
        )
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        states, inputs, kinds, fractions = ctx.saved_tensors
        slopes = slopes.clone(memory_format=torch.contiguous_format)
        of_inputs, of_fractions = slopes[ctx.users :], torch.zeros_like(fractions).double()
        of_drift = loops("linear").linear_gradient_kernel(inputs.shape[1])(
            *_arrays(slopes, states, inputs),
            ctx.drift,
            *_arrays(kinds, fractions),
            *ctx.steps,
            *_arrays(of_inputs, of_fractions),
        )
        of_initial = slopes[: ctx.users]
        return of_inputs, slopes.new_tensor(of_drift), of_initial, of_fractions.float(), None, None


class _Gru(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        from_item: Tensor,
        from_state: Tensor,
        output: Tensor,
        initial: Tensor,
        fractions: Tensor,
        kinds: Tensor,
        active: Sequence[int],
    ) -> Tensor:
        inputs, *weights, output, fractions = map(
            plain, (inputs, from_item, from_state, output, fractions)
        )
        units = initial.shape[1]
        states = torch.cat([plain(initial), inputs.new_empty(len(inputs), units)])
        across = [_widened(_across(part, units)) for part in weights]
        wide = [_widened(part) for part in weights]
        ctx.steps, ctx.users = _by_user(active), len(initial)
        ctx.save_for_backward(output, states, inputs, *across, *wide, kinds, fractions)
        loops("gru").gru_kernel(units, inputs.shape[1])(
            *_arrays(states, inputs, *across, kinds, fractions), *ctx.steps
        )
        return states @ output.T

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        output, *saved = ctx.saved_tensors
        states, inputs, *_, from_item, from_state, _, fractions = saved
        of_states, units = slopes @ output, states.shape[1]
        same = inputs.shape[1] == units
        of_inputs = of_states[ctx.users :] if same else torch.empty_like(inputs)
        of_fractions = torch.zeros_like(fractions).double()
        of_item, of_state = torch.zeros_like(from_item), torch.zeros_like(from_state)
        loops("gru").gru_gradient_kernel(units, inputs.shape[1])(
            *_arrays(of_states, *saved),
            *ctx.steps,
            *_arrays(of_inputs, of_item, of_state, of_fractions),
        )
        of_weights = of_item[:, : inputs.shape[1]], of_state[:, :units], slopes.T @ states
        of_initial = of_states[: ctx.users]
        return of_inputs, *of_weights, of_initial, of_fractions.float(), None, None


def _across(weights: Tensor, units: int) -> Tensor:
    """Transpose each of the three matrices of a GRU's gates, [3 d_h, n]: [3 n, d_h]."""
    return weights.view(3, units, -1).mT.reshape(-1, units)


def _widened(rows: Tensor) -> Tensor:
    """Put zeros at the end of rows, to the length that the loops want."""
    length = rows.shape[1]
    return torch.nn.functional.pad(rows, (0, loops("gru").wide(length) - length))
