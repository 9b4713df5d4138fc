import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from slatewise.model.kernels import RowAdam, unique_rows
from slatewise.model.kernels import rows as rows_module


@pytest.fixture(params=["numba", "torch"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "torch":
        monkeypatch.setattr(rows_module, "has_numba", lambda: False)
    return str(request.param)


def random_steps(seed: int, steps: int, size: int, dims: int) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    result = []
    for _ in range(steps):
        count = int(torch.randint(0, size + 1, (), generator=generator))
        rows = torch.randperm(size, generator=generator)[:count]
        result.append((rows, torch.randn(count, dims, generator=generator)))
    return result


@pytest.mark.parametrize("dims", [1, 5, 25])
def test_touching_every_row_is_plain_adam(backend: str, dims: int) -> None:
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(7, dims, generator=generator)
    dense = table.double()
    momentum, second = torch.zeros(7, dims).double(), torch.zeros(7, 1).double()
    adam = RowAdam(table, lr=0.03, betas=(0.8, 0.99))
    for step in range(1, 51):
        gradient = torch.randn(7, dims, generator=generator)
        order = torch.randperm(7, generator=generator)
        adam.step(order, gradient[order], lr=0.03 / step)
        momentum = 0.8 * momentum + 0.2 * gradient.double()
        second = 0.99 * second + 0.01 * gradient.double().square().mean(1, keepdim=True)
        root = (second / (1 - 0.99**step)).sqrt()
        dense -= 0.03 / step * (momentum / (1 - 0.8**step)) / (root + 1e-8)
    torch.testing.assert_close(table.double(), dense, rtol=0, atol=1e-5)


def test_the_first_step_of_a_late_row_is_as_long_as_anyones(backend: str) -> None:
    table = torch.zeros(2, 3)
    adam = RowAdam(table, lr=0.1)
    for _ in range(30):
        adam.step(torch.tensor([0]), torch.ones(1, 3))
    adam.step(torch.tensor([1]), torch.full((1, 3), 5.0))
    torch.testing.assert_close(table[1], torch.full((3,), -0.1))


def test_other_rows_keep_their_bits(backend: str) -> None:
    table = torch.randn(10, 4)
    adam = RowAdam(table, lr=0.1)
    for rows, gradient in random_steps(1, 5, 10, 4):
        adam.step(rows, gradient)
    before = {name: value.clone() for name, value in {"table": table, **adam.state()}.items()}
    touched = torch.tensor([8, 2, 5])
    adam.step(touched, torch.randn(3, 4))
    others = torch.ones(10, dtype=torch.bool)
    others[touched] = False
    for name, value in {"table": table, **adam.state()}.items():
        assert torch.equal(value[others], before[name][others]), name
        assert not torch.equal(value[touched], before[name][touched]), name


def test_resumes_bit_for_bit(backend: str) -> None:
    steps = random_steps(2, 2200, 6, 3)  # beyond the first table of bias corrections
    table = torch.randn(6, 3)
    adam = RowAdam(table, lr=0.01)
    for rows, gradient in steps[:1500]:
        adam.step(rows, gradient)
    copy = table.clone()
    resumed = RowAdam(copy, lr=0.01)
    resumed.load_state({name: value.clone() for name, value in adam.state().items()})
    for rows, gradient in steps[1500:]:
        adam.step(rows, gradient)
        resumed.step(rows, gradient)
    assert torch.equal(table, copy)
    for name, value in adam.state().items():
        assert torch.equal(value, resumed.state()[name])


def test_both_backends_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [torch.ones(8, 5), torch.ones(8, 5)]
    fast, plain = (RowAdam(table, lr=0.05) for table in tables)
    for rows, gradient in random_steps(3, 40, 8, 5):
        fast.step(rows, gradient)
        with monkeypatch.context() as patch:
            patch.setattr(rows_module, "has_numba", lambda: False)
            plain.step(rows, gradient)
    torch.testing.assert_close(tables[0], tables[1], rtol=0, atol=2e-6)


def test_a_parameter_is_updated_in_place(backend: str) -> None:
    parameter = torch.nn.Parameter(torch.zeros(4, 2))
    RowAdam(parameter, lr=0.1).step(torch.tensor([3]), torch.ones(1, 2))
    assert (parameter[3] < 0).all()
    assert (parameter[:3] == 0).all()


def test_wrong_input_changes_nothing(backend: str) -> None:
    table = torch.zeros(4, 2)
    adam = RowAdam(table, lr=0.1)
    with pytest.raises(IndexError):
        adam.step(torch.tensor([0, 4]), torch.ones(2, 2))
    with pytest.raises(ValueError, match="gradient"):
        adam.step(torch.tensor([0, 1]), torch.ones(2, 3))
    assert (table == 0).all()
    assert (adam.state()["steps"] == 0).all()
    with pytest.raises(ValueError, match="betas"):
        RowAdam(table, lr=0.1, betas=(0.9, 1.0))
    with pytest.raises(ValueError, match="contiguous"):
        RowAdam(table.T, lr=0.1)
    with pytest.raises(ValueError, match="momentum"):
        adam.load_state(RowAdam(torch.zeros(5, 2), lr=0.1).state())


@given(cells=st.lists(st.integers(0, 30)), wide=st.booleans())
def test_unique_rows_are_those_of_numpy(cells: list[int], wide: bool) -> None:
    values = torch.tensor(cells, dtype=torch.int64 if wide else torch.int32)
    scratch = torch.full((31,), -1, dtype=torch.int32)
    expected, first, counts = np.unique(
        np.array(cells, dtype=np.int64), return_index=True, return_counts=True
    )
    rows, local, times = unique_rows(values, scratch)
    assert (rows.dtype, local.dtype, times.dtype) == (torch.int64, torch.int32, torch.int32)
    order = first.argsort()
    assert rows.tolist() == expected[order].tolist()
    assert times.tolist() == counts[order].tolist()
    assert rows[local.long()].tolist() == cells
    assert (scratch == -1).all()
    rows, local, times = unique_rows(values)
    assert rows.tolist() == expected.tolist()
    assert times.tolist() == counts.tolist()
    assert rows[local.long()].tolist() == cells


@pytest.mark.parametrize("wrong", [-1, 5])
def test_a_cell_out_of_range_leaves_the_scratch_clean(wrong: int) -> None:
    scratch = torch.full((5,), -1, dtype=torch.int32)
    with pytest.raises(IndexError):
        unique_rows(torch.tensor([1, 2, wrong, 3]), scratch)
    assert (scratch == -1).all()
    with pytest.raises(ValueError, match="int32"):
        unique_rows(torch.tensor([1]), scratch.long())
