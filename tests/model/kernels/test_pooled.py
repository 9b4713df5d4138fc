"""Units of the slate-aware network: one loop does what torch's operations do."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from slatewise.model.kernels.backend import Backend
from slatewise.model.kernels.pooled import pooled_units, spread_units

OFFSETS = torch.tensor([0, 3, 4, 4, 9])
"""Four slates, of which one is empty."""
GROUPS = torch.tensor([0, 2, 1, 1, 0, 0, 0, 2, 1])


def _drawn(*shapes: tuple[int, int]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator).requires_grad_() for shape in shapes]


def _pooled(backend: Backend) -> list[Tensor]:
    """Return units, maxima and means, and the gradients of a weighted sum of all."""
    given = _drawn((9, 21), (4, 21), (3, 21))
    found = pooled_units(*given, GROUPS, OFFSETS, backend=backend)
    weights = _drawn(*(tuple(one.shape) for one in found))
    sum((one * weight).sum() for one, weight in zip(found, weights, strict=True)).backward()
    return [*found, *(one.grad for one in given)]


def _spread(backend: Backend) -> list[Tensor]:
    given = _drawn((9, 21), (4, 21))
    found = spread_units(*given, OFFSETS, backend=backend)
    (found * _drawn((9, 21))[0]).sum().backward()
    return [found, *(one.grad for one in given)]


@pytest.mark.parametrize("of", [_pooled, _spread])
def test_the_loop_and_torch_agree(of: Callable[[Backend], list[Tensor]]) -> None:
    for loop, plain in zip(of("numba"), of("torch"), strict=True):
        there = torch.isfinite(plain)  # torch has no mean of an empty slate
        torch.testing.assert_close(loop[there], plain[there], rtol=1e-5, atol=1e-6)


def test_of_equal_units_one_takes_the_slope_of_the_greatest() -> None:
    items = torch.ones(2, 3, requires_grad=True)
    offsets, groups = torch.tensor([0, 2]), torch.zeros(2, dtype=torch.int64)
    _, greatest, _ = pooled_units(items, torch.zeros(1, 3), torch.zeros(1, 3), groups, offsets)
    greatest.sum().backward()
    assert items.grad is not None
    assert items.grad.sum() == 3


def test_double_precision_is_for_torch() -> None:
    given = [one.detach().double() for one in _drawn((9, 21), (4, 21), (3, 21))]
    assert pooled_units(*given, GROUPS, OFFSETS)[0].dtype == torch.float64
    with pytest.raises(ValueError, match="float32 on the CPU"):
        pooled_units(*given, GROUPS, OFFSETS, backend="numba")
