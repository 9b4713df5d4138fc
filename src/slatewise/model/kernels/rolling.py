"""User states after clicks and slates without one, step after step, with gradients.

`model.dynamics` has the equations, in plain torch. There autograd keeps a dozen tensors a step;
here a step is a product of matrices and a loop or two, which takes a third of the time.

Shapes: B users, K steps, M = B + K states, d_h hidden units, D dimensions, E sources that count.
"""

import importlib
from collections.abc import Iterator, Sequence
from typing import Any

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


def _blocks(users: int, active: Sequence[int]) -> Iterator[tuple[slice, slice, slice]]:
    """Go through the steps: states before, rows among all K, states after."""
    before = start = 0
    for count in active:
        after = users + start
        yield (
            slice(before, before + count),
            slice(start, start + count),
            slice(after, after + count),
        )
        before, start = after, start + count


def _loops() -> Any:
    return importlib.import_module("slatewise.model.kernels._rolling_numba")


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
        kept = plain(drift).expand_as(initial).contiguous()
        states = torch.cat([initial, torch.empty_like(inputs)])
        for before, row, after in _blocks(len(initial), active):
            parts = states[before], inputs[row], kept, kinds[row], fractions, states[after]
            _loops().move(*(part.numpy() for part in parts))
        ctx.save_for_backward(inputs, kept, fractions, kinds, states)
        ctx.active = active
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        inputs, kept, fractions, kinds, states = ctx.saved_tensors
        slopes = slopes.clone(memory_format=torch.contiguous_format)
        of_inputs, of_fractions = torch.empty_like(inputs), torch.zeros_like(fractions)
        of_kept, of_drift = torch.empty_like(kept), kept.new_zeros(())
        for before, row, after in reversed(list(_blocks(len(kept), ctx.active))):
            parts = slopes[after], states[before], inputs[row], kept, kinds[row], fractions
            found = slopes[before], of_inputs[row], of_kept, of_fractions
            _loops().move_slopes(*(part.numpy() for part in (*parts, *found)))
            of_drift += of_kept[: row.stop - row.start].sum()
        return of_inputs, of_drift, slopes[: len(kept)], of_fractions, None, None


class _Gru(torch.autograd.Function):
    # What a step alone needs is overwritten by the next: fresh memory costs more than arithmetic.

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
        of_item, of_state = (initial.new_empty(len(initial), 3 * units) for _ in range(2))
        gates = inputs.new_empty(len(inputs), 2 * units)  # reset and update
        inner, new = (inputs.new_empty(len(inputs), units) for _ in range(2))
        states = torch.cat([initial, torch.empty_like(new)])
        for before, row, after in _blocks(len(initial), active):
            item, own = (part[: row.stop - row.start] for part in (of_item, of_state))
            torch.mm(inputs[row], from_item.T, out=item)
            torch.mm(states[before], from_state.T, out=own)
            torch.add(item[:, : 2 * units], own[:, : 2 * units], out=gates[row]).sigmoid_()
            inner[row] = own[:, 2 * units :]
            reset = gates[row, :units]
            torch.addcmul(item[:, 2 * units :], reset, inner[row], out=new[row]).tanh_()
            parts = states[before], new[row], gates[row], kinds[row], fractions, states[after]
            _loops().move(*(part.numpy() for part in parts))
        weights = from_item, from_state
        ctx.save_for_backward(inputs, *weights, fractions, kinds, gates, inner, new, states)
        ctx.users, ctx.active = len(initial), active
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        inputs, from_item, from_state, fractions, kinds, gates, inner, new, states = (
            ctx.saved_tensors
        )
        slopes = slopes.clone(memory_format=torch.contiguous_format)
        of_weights = torch.zeros_like(from_item), torch.zeros_like(from_state)
        of_inputs, of_fractions = torch.empty_like(inputs), torch.zeros_like(fractions)
        of_new, of_kept = (slopes.new_empty(ctx.users, new.shape[1]) for _ in range(2))
        of_item, of_state = (slopes.new_empty(ctx.users, 3 * new.shape[1]) for _ in range(2))
        for before, row, after in reversed(list(_blocks(ctx.users, ctx.active))):
            parts = slopes[after], states[before], new[row], gates[row], kinds[row], fractions
            found = slopes[before], of_new, of_kept, of_fractions
            _loops().move_slopes(*(part.numpy() for part in (*parts, *found)))
            units = of_new, of_kept, gates[row], new[row], inner[row], of_item, of_state
            _loops().gate_slopes(*(part.numpy() for part in units))
            item, own = (part[: row.stop - row.start] for part in (of_item, of_state))
            torch.mm(item, from_item, out=of_inputs[row])
            slopes[before].addmm_(own, from_state)
            of_weights[0].addmm_(item.T, inputs[row])
            of_weights[1].addmm_(own.T, states[before])
        return of_inputs, *of_weights, slopes[: ctx.users], of_fractions, None, None
