"""Hidden units of items beside those of their slate: what the slate-aware network is made of.

Each is one pass over the units where torch takes seven, and one for the gradients.

Shapes: N slates, F items of all of them, G groups, U units.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from slatewise.model.kernels.backend import Backend, loops, plain, takes_numba


def pooled_units(
    items: Tensor,
    slates: Tensor,
    groups: Tensor,
    of_group: Tensor,
    offsets: Tensor,
    *,
    backend: Backend = "auto",
) -> tuple[Tensor, Tensor, Tensor]:
    """Add up what items, slates and groups say, cut off at 0, and pool it over each slate.

    Args:
        items: [F, U]
        slates: [N, U]
        groups: [G, U]
        of_group: [F] int64, the group of each item.
        offsets: [N + 1] int64, where slates begin and end.
        backend: `numba` is one loop in float32 on the CPU, and one for the gradients; `torch` is
            the reference, for any device and dtype; `auto` takes numba where it can.

    Returns the units [F, U], and their maximum and mean over each slate [N, U].

    """
    if takes_numba(backend, 1, [items, slates, groups]):
        found: tuple[Tensor, Tensor, Tensor] = _Pooled.apply(  # type: ignore[no-untyped-call]
            items, slates, groups, of_group, offsets
        )
        return found
    units = torch.relu(items + slates.index_select(0, _rows(offsets, items)) + groups[of_group])
    greatest, mean = (
        torch.segment_reduce(units, how, offsets=offsets, axis=0, initial=0.0)
        for how in ("max", "mean")
    )
    return units, greatest, mean


def spread_units(
    items: Tensor, slates: Tensor, offsets: Tensor, *, backend: Backend = "auto"
) -> Tensor:
    """Add what a slate says [N, U] to each of its items [F, U], cut off at 0: [F, U]."""
    if takes_numba(backend, 1, [items, slates]):
        found: Tensor = _Spread.apply(items, slates, offsets)  # type: ignore[no-untyped-call]
        return found
    return torch.relu(items + slates.index_select(0, _rows(offsets, items)))


def _rows(offsets: Tensor, items: Tensor) -> Tensor:
    return torch.repeat_interleave(offsets.diff(), output_size=len(items))


class _Pooled(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, items: Tensor, slates: Tensor, groups: Tensor, of_group: Tensor, offsets: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        given = [plain(items), plain(slates), plain(groups), of_group, offsets]
        found = (torch.empty_like(given[0]), torch.empty_like(slates), torch.empty_like(slates))
        loops("pooled").pool(*(part.detach().numpy() for part in (*given, *found)))
        ctx.save_for_backward(found[0], found[1], of_group, offsets)
        ctx.num_groups = len(groups)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        units, greatest, of_group, offsets = ctx.saved_tensors
        of_units, of_greatest, of_mean = slopes
        given = [plain(of_units), of_greatest.clone(), plain(of_mean)]
        found = (
            torch.empty_like(units),
            torch.zeros_like(greatest),
            units.new_zeros(ctx.num_groups, units.shape[1]),
        )
        parts = (units, greatest, of_group, offsets, *given, *found)
        loops("pooled").pool_back(*(part.numpy() for part in parts))
        return *found, None, None


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, items: Tensor, slates: Tensor, offsets: Tensor) -> Tensor:
        given = [plain(items), plain(slates), offsets]
        units = torch.empty_like(given[0])
        loops("pooled").spread(*(part.detach().numpy() for part in (*given, units)))
        ctx.save_for_backward(units, offsets)
        return units

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        units, offsets = ctx.saved_tensors
        found = (torch.empty_like(units), units.new_zeros(len(offsets) - 1, units.shape[1]))
        parts = (units, plain(slopes), offsets, *found)
        loops("pooled").spread_back(*(part.numpy() for part in parts))
        return *found, None
