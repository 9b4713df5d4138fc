"""The gradient that a GPU takes of a table looked up, here on a CPU."""

import torch

from slatewise.model.kernels.lookup import _Lookup, lookup


def test_values_and_gradient_are_those_of_an_index() -> None:
    table = torch.randn(7, dtype=torch.float64, requires_grad=True)
    index = torch.randint(7, (5, 400), generator=torch.Generator().manual_seed(0))
    slopes = torch.randn(5, 400, dtype=torch.float64)
    (wanted,) = torch.autograd.grad((table[index] * slopes).sum(), table)
    for found in (_Lookup.apply(table, index), lookup(table, index)):  # type: ignore[no-untyped-call]
        assert torch.equal(found, table[index])
        (gradient,) = torch.autograd.grad((found * slopes).sum(), table)
        torch.testing.assert_close(gradient, wanted)
