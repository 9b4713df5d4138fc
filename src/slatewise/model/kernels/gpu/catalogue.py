"""The sum over candidates in the exposure term, and its gradient, without the matrix in between.

As in attention, [M, K] scores live in registers, block by block, and are worked out again for the
gradient of candidates: written to memory, a step's would be two gigabytes. The gradient of a state
is its slope times a vector that does not depend on the slope, so the first pass finds that too.

Scores are in powers of two: states and candidates are multiplied by κ / log 2 before their product
(of a dot product, states alone), which saves a multiplication for each pair.

Shapes: M states, K candidates, D dimensions, DP columns of a packed row.
"""

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from slatewise.model.kernels.gpu.parts import shared_memory, width

_MANY = 512
"""Candidates from which on products are of half precision: a distance is then wrong by a
thousandth, which a sum over few notices; gradients of one over a thousand are wrong by 2 in 10,000
parts."""
_STATES, _CANDIDATES, _WARPS, _STAGES = 64, 64, 4, 3
_PARTS = 66
"""Parts that the states are taken in for the gradient of candidates: two waves of programs on a
device of 132 multiprocessors."""


@triton.jit
def _exponents(
    products, of_states, of_candidates, biases, DISTANCE: tl.constexpr, BIAS: tl.constexpr
):
    """Return log₂ of what each pair adds to its sum, and the inverse of its distance."""
    inverse = products
    exponents = products
    if DISTANCE:
        # Of candidates, −2 v is packed: the square is a sum.
        square = tl.maximum(products + (of_states + of_candidates), 1e-6)
        inverse = tl.rsqrt(square)
        exponents = -square * inverse
    if BIAS:
        exponents += biases
    return exponents, inverse


@triton.jit
def _sums_kernel(
    states, centre, rows, squares, biases, used, out, packed, again, of_packed, directions, count,
    scale, kappa, log_weight, D: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
    DP: tl.constexpr, DISTANCE: tl.constexpr, BIAS: tl.constexpr, HALF: tl.constexpr,
    GRADIENT: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    begin = tl.program_id(0) * BM
    last = tl.load(used)
    if begin < last:
        state = begin + tl.arange(0, BM)
        column = tl.arange(0, DP)
        inside = (state < last)[:, None] & (column < D)[None, :]
        at = state[:, None].to(tl.int64) * D + column[None, :]
        here = tl.load(states + at, mask=inside, other=0.0)
        here -= tl.load(centre + column, mask=column < D, other=0.0)[None, :]
        here = tl.where(inside, scale * here, 0.0)
        square = tl.sum(here * here, 1)
        # Column D of a packed state is 1, and so is D + 1 of a candidate: the products that add
        # vectors up add their weights up as well.
        row = tl.where((column == D)[None, :], 1.0, here)
        if HALF:
            row = row.to(tl.float16)
        if GRADIENT:
            to = state[:, None].to(tl.int64) * DP + column[None, :]
            tl.store(packed + to, row)
            if HALF:
                whole = tl.where((column == D)[None, :], 1.0, here)
                tl.store(again + to, whole.to(again.dtype.element_ty))
            tl.store(of_packed + state, square)
        top = tl.full([BM], -1e30, tl.float32)
        total = tl.zeros([BM], tl.float32)
        result = tl.zeros([BM, DP], tl.float32)
        for first in range(0, count, BK):
            candidate = first + tl.arange(0, BK)
            vectors = tl.load(rows + candidate[:, None] * DP + column[None, :])
            if HALF:
                products = tl.dot(row, tl.trans(vectors))
            else:
                products = tl.dot(row, tl.trans(vectors), input_precision="tf32x3")
            of_candidate = tl.load(squares + candidate)
            bias = tl.load(biases + candidate)
            exponents, inverse = _exponents(
                products, square[:, None], of_candidate[None, :], bias[None, :], DISTANCE, BIAS
            )
            if not EVEN:
                exponents = tl.where((candidate < count)[None, :], exponents, -1e30)
            higher = tl.maximum(top, tl.max(exponents, 1))
            part = tl.exp2(exponents - higher[:, None])
            rest = tl.exp2(top - higher)
            total = total * rest + tl.sum(part, 1)
            top = higher
            if GRADIENT:
                if DISTANCE:
                    part *= inverse
                result *= rest[:, None]
                if HALF:
                    result = tl.dot(part.to(tl.float16), vectors, result)
                else:
                    result = tl.dot(part, vectors, result, input_precision="tf32x3")
        log_sum = top + tl.log2(total)
        tl.store(out + state, log_weight + 0.6931471805599453 * log_sum, mask=state < last)
        if GRADIENT:
            if DISTANCE:
                mass = tl.sum(tl.where((column == D + 1)[None, :], result, 0.0), 1)
                result = -0.5 * result - mass[:, None] * here
            result *= (kappa / total)[:, None]
            tl.store(directions + at, result, mask=inside)


@triton.jit
def _candidate_gradient(
    packed, again, of_packed, rows, squares, biases, used, log_sums, slopes, sums, of_biases,
    count, kappa, log_weight, D: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
    DP: tl.constexpr, DISTANCE: tl.constexpr, BIAS: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    # Candidates stay, and states pass by: scores are [BK, BM] here, as the last product wants them.
    candidate = tl.program_id(0) * BK + tl.arange(0, BK)
    there = candidate < count
    last = tl.load(used)
    column = tl.arange(0, DP)
    to = candidate[:, None] * DP + column[None, :]
    vectors = tl.load(rows + to)
    of_candidate = tl.load(squares + candidate)
    bias = tl.load(biases + candidate)
    result = tl.zeros([BK, DP], tl.float32)
    of_bias = tl.zeros([BK], tl.float32)
    for begin in range(tl.program_id(1) * BM, last, tl.num_programs(1) * BM):
        state = begin + tl.arange(0, BM)
        at = state[:, None].to(tl.int64) * DP + column[None, :]
        here = tl.load(packed + at)
        square = tl.load(of_packed + state)
        log_sum = tl.load(log_sums + state, mask=state < last, other=0.0)
        log_sum = (log_sum - log_weight) * 1.4426950408889634
        slope = kappa * tl.load(slopes + state, mask=state < last, other=0.0)
        if HALF:
            products = tl.dot(vectors, tl.trans(here))
        else:
            products = tl.dot(vectors, tl.trans(here), input_precision="tf32x3")
        exponents, inverse = _exponents(
            products, square[None, :], of_candidate[:, None], bias[:, None], DISTANCE, BIAS
        )
        part = slope[None, :] * tl.exp2(exponents - log_sum[None, :])
        if BIAS and DISTANCE:
            of_bias += tl.sum(part, 1)
        if DISTANCE:
            part *= inverse
        if HALF:
            # Slopes of single choices are too small for the exponents of half precision.
            result = tl.dot(part.to(again.dtype.element_ty), tl.load(again + at), result)
        else:
            result = tl.dot(part, here, result, input_precision="tf32x3")
    tl.atomic_add(sums + to, result, mask=there[:, None], sem="relaxed")
    if BIAS and DISTANCE:
        tl.atomic_add(of_biases + candidate, of_bias, mask=there, sem="relaxed")


_SHARED = {32: 50_688, 64: 99_840, 128: 198_144}
"""Bytes of shared memory that these kernels take, by the columns of a packed row (at most)."""


def _columns(dims: int) -> int:
    """Return DP: the dimensions, two columns of ones, and what fills them up."""
    return width(dims + 2, 16)


def fits_candidates(dims: int, device: torch.device) -> bool:
    """Return whether blocks of states and candidates fit the shared memory of a device."""
    needed = _SHARED.get(max(32, _columns(dims)))
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
        wanted: bool = True,
    ) -> None:
        many, dims = states.shape
        rows = items.index_select(0, candidates)
        count, columns = len(rows), _columns(dims)
        half = count >= _MANY
        scale = kappa / math.log(2)
        # Around the centre of the candidates, a square expanded into products keeps its digits.
        centre = rows[:, :dims].mean(0) if distance else rows.new_zeros(dims)
        vectors = (rows[:, :dims] - centre) * (scale if distance else 1.0)
        biased = include_bias and rows.shape[1] > dims
        more = -count % _CANDIDATES
        filled = rows.new_zeros(count + more, columns)
        filled[:count, :dims] = -2 * vectors if distance else vectors
        filled[:, dims + 1] = 1
        squares = torch.nn.functional.pad(vectors.square().sum(1), (0, more))
        biases = torch.nn.functional.pad(scale * rows[:, -1], (0, more)) if biased else squares
        self.candidates, self.centre, self.vectors = candidates, centre, vectors
        self.used, self.scale = used, scale
        self.rows = filled.half() if half else filled, squares, biases
        self.shape: dict[str, Any] = {
            "D": dims,
            "BM": _STATES,
            "BK": _CANDIDATES,
            "DP": columns,
            "DISTANCE": distance,
            "BIAS": biased,
            "HALF": half,
            "num_warps": _WARPS,
            "num_stages": _STAGES,
        }
        self.numbers = kappa, log_weight
        blocks = triton.cdiv(many, _STATES)
        self.values = states.new_zeros(many)  # [M]
        self.directions = states.new_zeros(states.shape if wanted else 1)
        """[M, D] the gradient of each value in its state"""
        self.packed = self.rows[0].new_empty(blocks * _STATES if wanted else 1, columns)
        # The interpreter has no products of bfloat16.
        kind = torch.bfloat16 if states.is_cuda else torch.float32
        self.again = torch.empty_like(self.packed, dtype=kind) if half else self.packed
        self.of_packed = states.new_empty(len(self.packed))
        _sums_kernel[(blocks,)](
            states, centre, *self.rows, used, self.values, self.packed, self.again, self.of_packed,
            self.directions, count, scale, *self.numbers, **self.shape, GRADIENT=wanted,
            EVEN=more == 0,
        )  # fmt: skip

    def backward(self, slopes: Tensor, of_states: Tensor, of_items: Tensor | None) -> None:
        """Add the gradients for slopes [M] of the values, to those of states and of items."""
        of_states.addcmul_(slopes[:, None], self.directions)
        if of_items is None:
            return
        count, dims = self.vectors.shape
        sums = self.vectors.new_zeros(len(self.rows[0]), self.shape["DP"])
        of_biases = self.vectors.new_zeros(count)
        _candidate_gradient[(len(sums) // _CANDIDATES, _PARTS)](
            self.packed, self.again, self.of_packed, *self.rows, self.used, self.values, slopes,
            sums, of_biases, count, *self.numbers, **self.shape,
        )  # fmt: skip
        of_rows, mass = sums[:count, :dims], sums[:count, dims]
        if self.shape["DISTANCE"]:
            of_rows = of_rows - mass[:, None] * self.vectors
        else:
            of_rows, of_biases = of_rows / self.scale, mass
        if of_items.shape[1] > dims:
            of_bias = of_biases if self.shape["BIAS"] else torch.zeros_like(of_biases)
            of_rows = torch.cat([of_rows, of_bias[:, None]], 1)
        of_items.index_add_(0, self.candidates, of_rows)
