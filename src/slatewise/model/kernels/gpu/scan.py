"""The roll-out of linear and GRU dynamics, users side by side and events one after the other.

The events of a user lie together: user b has those from `offsets[b]` to the next, and event e leads
from state e + b to state e + b + 1.

Shapes: B users, K events, M = B + K states, H hidden units.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from slatewise.model.kernels.gpu.parts import shared_memory, tanh, width

_LINEAR_USERS, _LINEAR_WARPS = 8, 2
_GRU_USERS, _GRU_WARPS = 16, 4
_FEW_UNITS = 32
_SHARED = {32: 69_632, 64: 204_800}
"""Bytes of shared memory that the gradient takes by the largest number of hidden units."""
_PRECISION = "tf32x3"
"""Of the products with the state: three products of TF32, which are as good as one of float32."""


@triton.jit
def _linear_kernel(
    moving, initial, drift, offsets, states, users, D: tl.constexpr, TILE: tl.constexpr,
    DP: tl.constexpr,
):  # fmt: skip
    user = tl.program_id(0) * TILE + tl.arange(0, TILE)
    there = user < users
    first = tl.load(offsets + user, mask=there, other=0)
    count = tl.load(offsets + user + 1, mask=there, other=0) - first
    column = tl.arange(0, DP)
    inside = there[:, None] & (column < D)[None, :]
    kept = tl.load(drift)
    state = tl.load(initial + user[:, None] * D + column[None, :], mask=inside, other=0.0)
    event = first[:, None] * D + column[None, :]
    at = (first + user)[:, None] * D + column[None, :]
    tl.store(states + at, state, mask=inside)
    for number in range(tl.max(count, 0)):
        here = inside & (number < count)[:, None]
        target = tl.load(moving + event + number * D, mask=here, other=0.0)
        state = tl.where(here, kept * state + (1.0 - kept) * target, state)
        tl.store(states + at + (number + 1) * D, state, mask=here)


@triton.jit
def _linear_gradient(
    moving, drift, offsets, states, slopes, of_moving, of_initial, of_drift, users,
    D: tl.constexpr, TILE: tl.constexpr, DP: tl.constexpr,
):  # fmt: skip
    user = tl.program_id(0) * TILE + tl.arange(0, TILE)
    there = user < users
    first = tl.load(offsets + user, mask=there, other=0)
    count = tl.load(offsets + user + 1, mask=there, other=0) - first
    column = tl.arange(0, DP)
    inside = there[:, None] & (column < D)[None, :]
    kept = tl.load(drift)
    event = first[:, None] * D + column[None, :]
    at = (first + user)[:, None] * D + column[None, :]
    slope = tl.zeros([TILE, DP], tl.float32)
    along = tl.zeros([TILE, DP], tl.float32)
    longest = tl.max(count, 0)
    for back in range(longest):
        number = longest - 1 - back
        here = inside & (number < count)[:, None]
        slope += tl.load(slopes + at + (number + 1) * D, mask=here, other=0.0)
        target = tl.load(moving + event + number * D, mask=here, other=0.0)
        before = tl.load(states + at + number * D, mask=here, other=0.0)
        along += slope * (before - target)
        tl.store(of_moving + event + number * D, (1.0 - kept) * slope, mask=here)
        slope *= kept
    slope += tl.load(slopes + at, mask=inside, other=0.0)
    tl.store(of_initial + user[:, None] * D + column[None, :], slope, mask=inside)
    tl.store(of_drift + user, tl.sum(along, 1), mask=there)


@triton.jit
def _recurrent(weights, gate: tl.constexpr, H: tl.constexpr, HP: tl.constexpr):
    """Return the transposed matrix of a gate: [HP, HP], from state to gate."""
    source, unit = tl.arange(0, HP)[:, None], tl.arange(0, HP)[None, :]
    inside = (source < H) & (unit < H)
    return tl.load(weights + (gate * H + unit) * H + source, mask=inside, other=0.0)


@triton.jit
def _gru_kernel(
    inputs, initial, weights, offsets, states, users, H: tl.constexpr, TILE: tl.constexpr,
    HP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    user = tl.program_id(0) * TILE + tl.arange(0, TILE)
    there = user < users
    first = tl.load(offsets + user, mask=there, other=0)
    count = tl.load(offsets + user + 1, mask=there, other=0) - first
    column = tl.arange(0, HP)
    inside = there[:, None] & (column < H)[None, :]
    to_reset = _recurrent(weights, 0, H, HP)
    to_update = _recurrent(weights, 1, H, HP)
    to_new = _recurrent(weights, 2, H, HP)
    state = tl.load(initial + user[:, None] * H + column[None, :], mask=inside, other=0.0)
    event = first[:, None] * (3 * H) + column[None, :]
    at = (first + user)[:, None] * H + column[None, :]
    tl.store(states + at, state, mask=inside)
    for number in range(tl.max(count, 0)):
        here = inside & (number < count)[:, None]
        given = inputs + event + number * (3 * H)
        reset = tl.load(given, mask=here, other=0.0)
        update = tl.load(given + H, mask=here, other=0.0)
        new = tl.load(given + 2 * H, mask=here, other=0.0)
        reset = tl.sigmoid(reset + tl.dot(state, to_reset, input_precision=PRECISION))
        update = tl.sigmoid(update + tl.dot(state, to_update, input_precision=PRECISION))
        new = tanh(new + reset * tl.dot(state, to_new, input_precision=PRECISION))
        state = tl.where(here, new + update * (state - new), state)
        tl.store(states + at + (number + 1) * H, state, mask=here)


@triton.jit
def _gru_gradient(
    inputs, weights, offsets, states, slopes, of_inputs, of_gates, of_initial, users,
    H: tl.constexpr, TILE: tl.constexpr, HP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    user = tl.program_id(0) * TILE + tl.arange(0, TILE)
    there = user < users
    first = tl.load(offsets + user, mask=there, other=0)
    count = tl.load(offsets + user + 1, mask=there, other=0) - first
    column = tl.arange(0, HP)
    inside = there[:, None] & (column < H)[None, :]
    to_reset = _recurrent(weights, 0, H, HP)
    to_update = _recurrent(weights, 1, H, HP)
    to_new = _recurrent(weights, 2, H, HP)
    event = first[:, None] * (3 * H) + column[None, :]
    at = (first + user)[:, None] * H + column[None, :]
    slope = tl.zeros([TILE, HP], tl.float32)
    longest = tl.max(count, 0)
    for back in range(longest):
        number = longest - 1 - back
        here = inside & (number < count)[:, None]
        slope += tl.load(slopes + at + (number + 1) * H, mask=here, other=0.0)
        state = tl.load(states + at + number * H, mask=here, other=0.0)
        given = inputs + event + number * (3 * H)
        reset = tl.load(given, mask=here, other=0.0)
        update = tl.load(given + H, mask=here, other=0.0)
        new = tl.load(given + 2 * H, mask=here, other=0.0)
        reset = tl.sigmoid(reset + tl.dot(state, to_reset, input_precision=PRECISION))
        update = tl.sigmoid(update + tl.dot(state, to_update, input_precision=PRECISION))
        inner = tl.dot(state, to_new, input_precision=PRECISION)
        new = tanh(new + reset * inner)
        of_new = tl.where(here, slope * (1.0 - update) * (1.0 - new * new), 0.0)
        of_update = tl.where(here, slope * (state - new) * update * (1.0 - update), 0.0)
        of_reset = of_new * inner * reset * (1.0 - reset)
        through = of_new * reset
        to = of_inputs + event + number * (3 * H)
        tl.store(to, of_reset, mask=here)
        tl.store(to + H, of_update, mask=here)
        tl.store(to + 2 * H, of_new, mask=here)
        tl.store(of_gates + first[:, None] * H + column[None, :] + number * H, through, mask=here)
        before = tl.where(here, slope * update, slope)
        before += tl.dot(of_reset, tl.trans(to_reset), input_precision=PRECISION)
        before += tl.dot(of_update, tl.trans(to_update), input_precision=PRECISION)
        slope = before + tl.dot(through, tl.trans(to_new), input_precision=PRECISION)
    slope += tl.load(slopes + at, mask=inside, other=0.0)
    tl.store(of_initial + user[:, None] * H + column[None, :], slope, mask=inside)


def fits_gru(hidden: int, device: torch.device) -> bool:
    """Return whether the matrices of a GRU fit the shared memory of a device."""
    needed = _SHARED.get(width(hidden, _FEW_UNITS))
    return needed is not None and needed <= shared_memory(device)


def scan_linear(moving: Tensor, initial: Tensor, drift: Tensor, offsets: Tensor) -> Tensor:
    """Return all states of linear dynamics: [M, D]."""
    result: Tensor = _Linear.apply(moving, initial, drift, offsets)
    return result


def scan_gru(
    inputs: Tensor,
    initial: Tensor,
    from_state: Tensor,
    offsets: Tensor,
    state_before: Tensor,
) -> Tensor:
    """Return all states of GRU dynamics, from W_i v of all events [K, 3 H]: [M, H].

    `state_before` [K] is the state that each event finds.
    """
    result: Tensor = _Gru.apply(inputs, initial, from_state, offsets, state_before)
    return result


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, moving: Tensor, initial: Tensor, drift: Tensor, offsets: Tensor
    ) -> Tensor:
        moving, initial, drift = moving.contiguous(), initial.contiguous(), drift.contiguous()
        users, dims = initial.shape
        states = moving.new_zeros(len(moving) + users, dims)
        ctx.grid = (triton.cdiv(users, _LINEAR_USERS),)
        ctx.shape = {"D": dims, "TILE": _LINEAR_USERS, "DP": width(dims)}
        ctx.users = users
        _linear_kernel[ctx.grid](
            moving, initial, drift, offsets, states, users, **ctx.shape, num_warps=_LINEAR_WARPS
        )
        ctx.save_for_backward(moving, drift, offsets, states)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        moving, drift, offsets, states = ctx.saved_tensors
        of_moving = torch.zeros_like(moving)
        of_initial = moving.new_empty(ctx.users, moving.shape[1])
        of_drift = moving.new_empty(ctx.users)
        _linear_gradient[ctx.grid](
            moving, drift, offsets, states, slopes.contiguous(), of_moving, of_initial, of_drift,
            ctx.users, **ctx.shape, num_warps=_LINEAR_WARPS,
        )  # fmt: skip
        return of_moving, of_initial, of_drift.sum(), None


class _Gru(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        initial: Tensor,
        from_state: Tensor,
        offsets: Tensor,
        state_before: Tensor,
    ) -> Tensor:
        inputs, initial, weights = (t.contiguous() for t in (inputs, initial, from_state))
        users, hidden = initial.shape
        states = inputs.new_zeros(len(inputs) + users, hidden)
        ctx.grid = (triton.cdiv(users, _GRU_USERS),)
        ctx.shape = {
            "H": hidden,
            "TILE": _GRU_USERS,
            "HP": width(hidden, 16),
            "PRECISION": _PRECISION,
            "num_warps": _GRU_WARPS,
            # Matrices of more units leave no room for the inputs of three steps at a time.
            "num_stages": 3 if hidden <= _FEW_UNITS else 1,
        }
        ctx.users = users
        _gru_kernel[ctx.grid](inputs, initial, weights, offsets, states, users, **ctx.shape)
        ctx.save_for_backward(inputs, weights, offsets, states, state_before)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weights, offsets, states, state_before = ctx.saved_tensors
        hidden = states.shape[1]
        of_inputs = torch.zeros_like(inputs)
        of_gates = inputs.new_zeros(len(inputs), hidden)
        of_initial = inputs.new_empty(ctx.users, hidden)
        _gru_gradient[ctx.grid](
            inputs, weights, offsets, states, slopes.contiguous(), of_inputs, of_gates, of_initial,
            ctx.users, **ctx.shape,
        )  # fmt: skip
        before = states.index_select(0, state_before)  # [K, H]
        of_weights = torch.cat([of_inputs[:, : 2 * hidden].T @ before, of_gates.T @ before])
        return of_inputs, of_initial, of_weights, None, None
