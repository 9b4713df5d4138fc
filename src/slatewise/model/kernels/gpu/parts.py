"""Pieces that several kernels share: gates, and gradients of rows that many want to add to."""

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.runtime import driver

from slatewise.compiled.gpu_noise import normal

POPULAR: Final = 1_024
"""Items whose gradients are summed in several copies, at most."""
COPIES: Final = 32
"""Copies of each. Exposure is skewed: one item may have a fifteenth of all cells, and half a
million additions to one row of memory take a millisecond, one after the other."""


@triton.jit
def tanh(x):
    """Return the hyperbolic tangent."""
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit
def gradient_row(slots, item, there, num_items, copy, COPIES: tl.constexpr):
    """Return which row of the gradient an item is added to by the copy that is asked for."""
    slot = tl.load(slots + item, mask=there, other=-1)
    return tl.where(slot >= 0, num_items + slot * COPIES + copy, item).to(tl.int64)


@triton.jit
def _normals_kernel(key, out, first, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, normal(tl.load(key), first + at), mask=at < count)


def normals(key: Tensor, first: int, shape: tuple[int, ...]) -> Tensor:
    """Return the normals of counters from `first` on, for a key [1] int64 on the device."""
    out = torch.empty(shape, device=key.device)
    count = out.numel()
    if count:
        _normals_kernel[(triton.cdiv(count, 1_024),)](key, out, first, count, BLOCK=1_024)
    return out


def shared_memory(device: torch.device) -> int:
    """Return the bytes of shared memory that a program may have on a device."""
    if device.type != "cuda":
        return 1 << 30  # the interpreter has no such limit
    index = torch.cuda.current_device() if device.index is None else device.index
    return int(driver.active.utils.get_device_properties(index)["max_shared_mem"])


def width(columns: int, least: int = 1) -> int:
    """Return the power of two that columns are filled up to."""
    return max(least, int(triton.next_power_of_2(columns)))


class RowGradient:
    """The gradient of all rows of a table, to which kernels add in any order."""

    def __init__(self, rows: int, columns: int, views: Tensor) -> None:
        self.rows = rows
        most = min(POPULAR, rows)
        self.popular = torch.topk(views, most).indices  # [H]
        self.slots = torch.full((rows,), -1, dtype=torch.int32, device=views.device)
        self.slots[self.popular] = torch.arange(most, dtype=torch.int32, device=views.device)
        self.buffer = torch.zeros(rows + most * COPIES, columns, device=views.device)

    @property
    def total(self) -> Tensor:
        """[I, C] what was added so far, once copies are `collect`ed."""
        return self.buffer[: self.rows]

    def collect(self) -> None:
        """Add the copies of popular rows up."""
        copies = self.buffer[self.rows :]
        summed = copies.view(len(self.popular), COPIES, -1).sum(1)
        self.total.index_add_(0, self.popular, summed)
        copies.zero_()
