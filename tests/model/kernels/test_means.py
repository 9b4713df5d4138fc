import pytest
import torch
from torch import Tensor

from slatewise.model.kernels.means import row_means
from tests.model.ragged import normals

CELLS = torch.tensor([4, 0, 0, 3, 1, 4, 2], dtype=torch.int32)
RANGES = [(0, 1), (1, 4), (6, 7), (0, 7), (3, 6)]
STARTS, ENDS = (torch.tensor(column) for column in zip(*RANGES, strict=True))
ROWS, D = 5, 3


def by_hand(table: Tensor) -> Tensor:
    rows = [table[..., CELLS[start:end].long(), :D].mean(-2) for start, end in RANGES]
    return torch.stack(rows, dim=-2)


@pytest.mark.parametrize("columns", [D, D + 1])
def test_means_are_those_of_each_range_and_so_is_the_gradient(columns: int) -> None:
    slopes = normals(1, len(RANGES), D).float()
    found, expected = [], []
    for means, results in ((row_means, found), (None, expected)):
        table = normals(0, ROWS, columns).float().requires_grad_()
        mean = (
            by_hand(table)
            if means is None
            else means(table, CELLS, STARTS, ENDS, D, backend="numba")
        )
        mean.backward(slopes)
        results += [mean.detach(), table.grad]
    torch.testing.assert_close(found, expected)


def test_the_reference_has_the_gradient_of_finite_differences() -> None:
    def means(table: Tensor) -> Tensor:
        return row_means(table, CELLS, STARTS, ENDS, D)

    table = normals(0, ROWS, D + 1).requires_grad_()
    torch.testing.assert_close(means(table), by_hand(table))
    assert torch.autograd.gradcheck(means, [table])


def test_draws_are_averaged_side_by_side() -> None:
    tables = normals(2, 4, ROWS, D).float()
    torch.testing.assert_close(row_means(tables, CELLS, STARTS, ENDS, D), by_hand(tables))


@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_a_cell_that_is_no_row_is_refused(backend: str) -> None:
    with pytest.raises(IndexError):
        row_means(normals(0, 4, D).float(), CELLS, STARTS, ENDS, D, backend=backend)  # type: ignore[arg-type]


def test_no_range_has_no_mean() -> None:
    nothing = torch.empty(0, dtype=torch.int64)
    for backend in ("numba", "torch"):
        means = row_means(normals(0, 4, D).float(), CELLS, nothing, nothing, D, backend=backend)  # type: ignore[arg-type]
        assert means.shape == (0, D)
