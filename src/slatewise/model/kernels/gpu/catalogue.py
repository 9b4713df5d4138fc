"""The sum over candidates in the exposure term, and its gradient, without the matrix in between.

As in attention, [M, K] scores live in registers, block by block, and are worked out again for the
gradient: written to memory, a step's would be two gigabytes.

Shapes: M states, K candidates, D dimensions.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from slatewise.model.kernels.gpu.parts import shared_memory, width

_STATES, _CANDIDATES, _WARPS = 64, 64, 4
_PARTS = 64
"""Parts that the states are taken in for the gradient of candidates."""


_MANY = 512
"""Candidates from which on products are of TF32: a distance is then wrong by a thousandth, which a
sum over many does not notice, and one over few does."""


@triton.jit
def _scores(
    here, squares, rows, norms, biases, first, count, kappa, log_weight, D: tl.constexpr,
    BK: tl.constexpr, DP: tl.constexpr, DISTANCE: tl.constexpr, BIAS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Return candidates [BK, DP], scores [BM, BK] and, of a distance, its inverse."""
    candidate = first + tl.arange(0, BK)
    there = candidate < count
    column = tl.arange(0, DP)
    inside = there[:, None] & (column < D)[None, :]
    vectors = tl.load(rows + candidate[:, None] * D + column[None, :], mask=inside, other=0.0)
    products = tl.dot(here, tl.trans(vectors), input_precision=PRECISION)
    if DISTANCE:
        norm = tl.load(norms + candidate, mask=there, other=0.0)
        square = tl.maximum(squares[:, None] + norm[None, :] - 2.0 * products, 1e-6)
        inverse = tl.rsqrt(square)
        utility = -square * inverse
    else:
        inverse = products
        utility = products
    if BIAS:
        utility += tl.load(biases + candidate, mask=there, other=0.0)[None, :]
    scores = tl.where(there[None, :], log_weight + kappa * utility, -1e30)
    return vectors, scores, inverse


@triton.jit
def _sums_kernel(
    states, centre, rows, norms, biases, used, out, count, kappa, log_weight, D: tl.constexpr,
    BM: tl.constexpr, BK: tl.constexpr, DP: tl.constexpr, DISTANCE: tl.constexpr,
    BIAS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    begin = tl.program_id(0) * BM
    last = tl.load(used)
    if begin < last:
        state = begin + tl.arange(0, BM)
        column = tl.arange(0, DP)
        inside = (state < last)[:, None] & (column < D)[None, :]
        at = state[:, None].to(tl.int64) * D + column[None, :]
        here = tl.load(states + at, mask=inside, other=0.0)
        here = tl.where(inside, here - tl.load(centre + column, mask=column < D, other=0.0), 0.0)
        squares = tl.sum(here * here, 1)
        top = tl.full([BM], -1e30, tl.float32)
        total = tl.zeros([BM], tl.float32)
        for first in range(0, count, BK):
            _, scores, _ = _scores(
                here, squares, rows, norms, biases, first, count, kappa, log_weight, D, BK, DP,
                DISTANCE, BIAS, PRECISION,
            )  # fmt: skip
            higher = tl.maximum(top, tl.max(scores, 1))
            total = total * tl.exp(top - higher) + tl.sum(tl.exp(scores - higher[:, None]), 1)
            top = higher
        tl.store(out + state, top + tl.log(total), mask=state < last)


@triton.jit
def _state_gradient(
    states, centre, rows, norms, biases, used, log_sums, slopes, of_states, count, kappa,
    log_weight, D: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr, DP: tl.constexpr,
    DISTANCE: tl.constexpr, BIAS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    begin = tl.program_id(0) * BM
    last = tl.load(used)
    if begin < last:
        state = begin + tl.arange(0, BM)
        column = tl.arange(0, DP)
        inside = (state < last)[:, None] & (column < D)[None, :]
        at = state[:, None].to(tl.int64) * D + column[None, :]
        here = tl.load(states + at, mask=inside, other=0.0)
        here = tl.where(inside, here - tl.load(centre + column, mask=column < D, other=0.0), 0.0)
        squares = tl.sum(here * here, 1)
        log_sum = tl.load(log_sums + state, mask=state < last, other=0.0)
        slope = kappa * tl.load(slopes + state, mask=state < last, other=0.0)
        result = tl.zeros([BM, DP], tl.float32)
        mass = tl.zeros([BM], tl.float32)
        for first in range(0, count, BK):
            vectors, scores, inverse = _scores(
                here, squares, rows, norms, biases, first, count, kappa, log_weight, D, BK, DP,
                DISTANCE, BIAS, PRECISION,
            )  # fmt: skip
            part = slope[:, None] * tl.exp(scores - log_sum[:, None])
            if DISTANCE:
                part *= inverse
                mass += tl.sum(part, 1)
            result = tl.dot(part, vectors, result, input_precision=PRECISION)
        if DISTANCE:
            result -= mass[:, None] * here
        # What choices add to the same states has been added before.
        result += tl.load(of_states + at, mask=inside, other=0.0)
        tl.store(of_states + at, result, mask=inside)


@triton.jit
def _candidate_gradient(
    states, centre, rows, norms, biases, used, log_sums, slopes, of_rows, of_biases, count, kappa,
    log_weight, D: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr, DP: tl.constexpr,
    DISTANCE: tl.constexpr, BIAS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    # Candidates stay, and states pass by: scores are [BK, BM] here, as the last product wants them.
    candidate = tl.program_id(0) * BK + tl.arange(0, BK)
    there = candidate < count
    last = tl.load(used)
    column = tl.arange(0, DP)
    middle = tl.load(centre + column, mask=column < D, other=0.0)
    to = candidate[:, None] * D + column[None, :]
    known = there[:, None] & (column < D)[None, :]
    vectors = tl.load(rows + to, mask=known, other=0.0)
    norm = tl.load(norms + candidate, mask=there, other=0.0)
    bias = tl.zeros([BK], tl.float32)
    if BIAS:
        bias = tl.load(biases + candidate, mask=there, other=0.0)
    result = tl.zeros([BK, DP], tl.float32)
    mass = tl.zeros([BK], tl.float32)
    of_bias = tl.zeros([BK], tl.float32)
    for begin in range(tl.program_id(1) * BM, last, tl.num_programs(1) * BM):
        state = begin + tl.arange(0, BM)
        inside = (state < last)[:, None] & (column < D)[None, :]
        at = state[:, None].to(tl.int64) * D + column[None, :]
        here = tl.where(inside, tl.load(states + at, mask=inside, other=0.0) - middle, 0.0)
        squares = tl.sum(here * here, 1)
        log_sum = tl.load(log_sums + state, mask=state < last, other=0.0)
        slope = kappa * tl.load(slopes + state, mask=state < last, other=0.0)
        products = tl.dot(vectors, tl.trans(here), input_precision=PRECISION)
        inverse = products
        utility = products
        if DISTANCE:
            square = tl.maximum(norm[:, None] + squares[None, :] - 2.0 * products, 1e-6)
            inverse = tl.rsqrt(square)
            utility = -square * inverse
        scores = log_weight + kappa * (utility + bias[:, None])
        part = slope[None, :] * tl.exp(scores - log_sum[None, :])
        part = tl.where(there[:, None], part, 0.0)
        if BIAS:
            of_bias += tl.sum(part, 1)
        if DISTANCE:
            part *= inverse
            mass += tl.sum(part, 1)
        result = tl.dot(part, here, result, input_precision=PRECISION)
    if DISTANCE:
        result -= mass[:, None] * vectors
    tl.atomic_add(of_rows + to, result, mask=known, sem="relaxed")
    if BIAS:
        tl.atomic_add(of_biases + candidate, of_bias, mask=there, sem="relaxed")


_SHARED = {32: 41_984, 64: 82_944, 128: 164_864}
"""Bytes of shared memory that the gradient of candidates takes, by dimensions (at most)."""


def fits_candidates(dims: int, device: torch.device) -> bool:
    """Return whether blocks of states and candidates fit the shared memory of a device."""
    needed = _SHARED.get(width(dims, 32))
    return needed is not None and needed <= shared_memory(device)


class CandidateSums:
    """Log Σ_k exp(log weight + κ r(z, v_k)) of all states, and its gradient."""

    def __init__(
        self,
        states: Tensor,
        items: Tensor,
        candidates: Tensor,
        used: Tensor,
        *,
        log_weight: float,
        kappa: float,
        include_bias: bool,
        distance: bool,
    ) -> None:
        dims = states.shape[1]
        rows = items.index_select(0, candidates)
        biases = rows[:, dims].contiguous() if include_bias and rows.shape[1] > dims else None
        rows = rows[:, :dims]
        # Around the centre of the candidates, a square expanded into products keeps its digits.
        centre = rows.mean(0) if distance else rows.new_zeros(dims)
        rows = (rows - centre).contiguous()
        self.candidates, self.biases = candidates, biases
        self.inputs = (
            states,
            centre,
            rows,
            rows.square().sum(1),
            rows if biases is None else biases,
            used,
        )
        self.numbers = len(rows), kappa, log_weight
        self.shape: dict[str, Any] = {
            "D": dims,
            "BM": _STATES,
            "BK": _CANDIDATES,
            "DP": width(dims, 16),
            "DISTANCE": distance,
            "BIAS": biases is not None,
            "PRECISION": "tf32" if len(rows) >= _MANY else "tf32x3",
            "num_warps": _WARPS,
        }
        self.grid = (triton.cdiv(len(states), _STATES),)
        self.values = states.new_zeros(len(states))  # [M]
        _sums_kernel[self.grid](*self.inputs, self.values, *self.numbers, **self.shape)

    def backward(self, slopes: Tensor, of_states: Tensor, of_items: Tensor | None) -> None:
        """Add the gradients for slopes [M] of the values, to those of states and of items."""
        both = self.values, slopes
        _state_gradient[self.grid](*self.inputs, *both, of_states, *self.numbers, **self.shape)
        if of_items is None:
            return
        rows = self.inputs[2]
        of_rows = torch.zeros_like(rows)
        of_biases = rows.new_zeros(len(rows))
        _candidate_gradient[(triton.cdiv(len(rows), _CANDIDATES), _PARTS)](
            *self.inputs, *both, of_rows, of_biases, *self.numbers, **self.shape
        )
        if self.biases is not None:
            of_rows = torch.cat([of_rows, of_biases[:, None]], 1)
        elif of_items.shape[1] > of_rows.shape[1]:
            of_rows = torch.nn.functional.pad(of_rows, (0, 1))
        of_items.index_add_(0, self.candidates, of_rows)
