"""A draw of item vectors, with the sums over each group of items that its prior depends on.

Shapes: R items, G groups, D dimensions.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from slatewise.model.kernels.backend import Backend, loops, plain, takes_numba


@dataclass(frozen=True)
class ItemDraw:
    """Vectors of items, and sums over the items of each group by which they are judged."""

    vectors: Tensor
    """[R, D] mean + scale · noise, differentiable"""
    squares: Tensor
    """[G, D] Σ weights · (scale² + (mean − centre − offset)²), differentiable"""
    log_scale: Tensor
    """[] Σ weights · log scale over all items and dimensions, differentiable"""
    mass: Tensor
    """[G] Σ weights, without gradient"""


def draw_items(
    mean: Tensor,
    raw: Tensor,
    noise: Tensor,
    *,
    sigma_max: float,
    groups: Tensor,
    weights: Tensor,
    centres: Tensor,
    offsets: Tensor | None = None,
    backend: Backend = "auto",
) -> ItemDraw:
    """Draw items of which the scale is σ_max · sigmoid(raw).

    Args:
        mean: [R, D].
        raw: [R, D].
        noise: [R, D] standard normals; a constant, no gradient flows to it.
        sigma_max: the largest scale.
        groups: [R] int64, a row of `centres` each.
        weights: [R] how much each item counts in the sums; a constant.
        centres: [G, D] where the items of a group are expected.
        offsets: [R, D] by how much each is expected elsewhere.
        backend: `numba` is one pass in float32 on the CPU, and one for the gradient (a second
            backward pass raises); `torch` is the reference, for any device and dtype; `auto`
            takes numba where it can.

    """
    if mean.ndim != 2 or not mean.shape == raw.shape == noise.shape:
        raise ValueError(
            f"mean {list(mean.shape)}, raw {list(raw.shape)} and noise {list(noise.shape)} "
            "must be matrices of one shape"
        )
    if not len(mean) == len(groups) == len(weights):
        raise ValueError(f"{len(groups)} groups and {len(weights)} weights for {len(mean)} items")
    if centres.ndim != 2 or centres.shape[1] != mean.shape[1]:
        raise ValueError(f"centres {list(centres.shape)} must have D = {mean.shape[1]}")
    if offsets is not None and offsets.shape != mean.shape:
        raise ValueError(f"offsets {list(offsets.shape)} must have the shape of the mean")
    noise, weights = noise.detach(), weights.detach()
    inputs = [mean, raw, centres, offsets]
    floats = [tensor for tensor in (*inputs, noise, weights) if tensor is not None]
    if takes_numba(backend, mean.shape[1], floats):
        if not torch.is_grad_enabled():  # autograd would still keep what the gradient needs
            inputs = [None if tensor is None else tensor.detach() for tensor in inputs]
        parts = _Fused.apply(*inputs, noise, groups, weights, sigma_max)  # type: ignore[no-untyped-call]
    else:
        weights = weights.to(mean.dtype)
        parts = _reference(mean, raw, centres, offsets, noise, groups, weights, sigma_max)
    return ItemDraw(*parts)


def _reference(
    mean: Tensor,
    raw: Tensor,
    centres: Tensor,
    offsets: Tensor | None,
    noise: Tensor,
    groups: Tensor,
    weights: Tensor,
    sigma_max: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    scale = sigma_max * torch.sigmoid(raw)
    expected = centres.index_select(0, groups)  # [R, D]
    if offsets is not None:
        expected = expected + offsets
    square = scale.square() + (mean - expected).square()  # [R, D]
    squares = torch.zeros_like(centres).index_add(0, groups, weights[:, None] * square)
    log_scale = (weights[:, None] * scale.log()).sum()
    mass = weights.new_zeros(len(centres)).index_add(0, groups, weights)
    return mean + scale * noise, squares, log_scale, mass


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        mean: Tensor,
        raw: Tensor,
        centres: Tensor,
        offsets: Tensor | None,
        noise: Tensor,
        groups: Tensor,
        weights: Tensor,
        sigma_max: float,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        ctx.has_offsets = offsets is not None
        offsets = mean[:0] if offsets is None else offsets
        floats = mean, raw, centres, offsets, noise, weights
        mean, raw, centres, offsets, noise, weights = map(plain, floats)
        groups = plain(groups, torch.int64)
        vectors, shares = torch.empty_like(mean), torch.empty_like(mean)
        squares, mass = torch.zeros_like(centres), centres.new_zeros(len(centres))
        inputs = (mean, raw, noise, groups, weights, centres, offsets)
        log_scale, fault = loops("items").draw_kernel(mean.shape[1], ctx.has_offsets)(
            *(tensor.numpy() for tensor in inputs),
            np.float32(sigma_max),
            *(tensor.numpy() for tensor in (vectors, shares, squares, mass)),
        )
        if fault >= 0:
            raise IndexError(f"item {fault}: its group is not one of {len(centres):,}")
        ctx.save_for_backward(mean, noise, groups, weights, centres, offsets)
        ctx.shares, ctx.sigma_max = shares, sigma_max
        ctx.mark_non_differentiable(mass)
        return vectors, squares, torch.tensor(log_scale, dtype=torch.float32), mass

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, vectors_slope: Tensor, squares_slope: Tensor, log_slope: Tensor, _: Tensor
    ) -> tuple[Tensor | None, ...]:
        mean, *_, centres, offsets = saved = ctx.saved_tensors
        # The shares turn into the gradient of raw: fresh memory costs more than the arithmetic.
        shares, ctx.shares = ctx.shares, None
        if shares is None:
            raise RuntimeError(
                "the gradients of draw_items were handed out already: call it again, or use "
                "backend='torch' for more than one backward pass"
            )
        gradients = [torch.empty_like(mean), shares, torch.zeros_like(centres)]
        gradients.append(torch.empty_like(offsets))
        loops("items").draw_gradient_kernel(mean.shape[1], ctx.has_offsets)(
            *(tensor.numpy() for tensor in saved),
            np.float32(ctx.sigma_max),
            plain(vectors_slope).numpy(),
            plain(squares_slope).numpy(),
            np.float32(log_slope.item()),
            *(gradient.numpy() for gradient in gradients),
        )
        of_offsets = gradients.pop() if ctx.has_offsets else None
        return (*gradients[:3], of_offsets, None, None, None, None)
