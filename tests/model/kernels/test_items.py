import math
from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from slatewise.model.kernels import ItemDraw, draw_items
from tests.model.kernels.test_slate import BACKENDS, assert_close, run

FREE = ("mean", "raw", "centres", "offsets")
SUMS = ("squares", "log_scale", "mass")


@dataclass(frozen=True)
class Rows:
    """Items to draw, and how much each number drawn counts in a scalar made of them all."""

    mean: Tensor
    raw: Tensor
    noise: Tensor
    groups: Tensor
    weights: Tensor
    centres: Tensor
    offsets: Tensor | None
    slopes: tuple[Tensor, Tensor, float]
    sigma_max: float = 0.7

    def draw(self, backend: str = "auto") -> ItemDraw:
        given_fields = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "slopes"}
        return draw_items(**given_fields, backend=backend)

    def to(self, dtype: torch.dtype) -> "Rows":
        floats = (*FREE, "noise", "weights")
        slopes = (self.slopes[0].to(dtype), self.slopes[1].to(dtype), self.slopes[2])
        parts = {name: getattr(self, name) for name in floats}
        return replace(
            self,
            slopes=slopes,
            **{name: part.to(dtype) for name, part in parts.items() if part is not None},
        )

    def total(self, backend: str) -> Tensor:
        drawn = self.draw(backend)
        of_vectors, of_squares, of_log = self.slopes
        total = (of_vectors * drawn.vectors).sum() + (of_squares * drawn.squares).sum()
        return total + of_log * drawn.log_scale

    def gradients(self, backend: str) -> dict[str, Tensor]:
        free = {
            name: getattr(self, name).clone().requires_grad_()
            for name in FREE
            if getattr(self, name) is not None
        }
        replace(self, **free).total(backend).backward()
        return {name: tensor.grad for name, tensor in free.items()}


def random_rows(
    seed: int, count: int = 20, dims: int = 5, groups: int = 3, with_offsets: bool = True
) -> Rows:
    generator = torch.Generator().manual_seed(seed)

    def normals(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    return Rows(
        mean=normals(count, dims),
        raw=4 * normals(count, dims),
        noise=normals(count, dims),
        groups=torch.randint(groups, (count,), generator=generator),
        weights=torch.rand(count, generator=generator),
        centres=normals(groups, dims),
        offsets=normals(count, dims) if with_offsets else None,
        slopes=(normals(count, dims), normals(groups, dims), 1.3),
    )


many = st.sampled_from([(1, False), (5, True), (25, True), (33, False)]).flatmap(  # compiled once
    lambda one: st.builds(
        random_rows,
        st.integers(0, 2**32 - 1),
        count=st.integers(0, 150),  # up to three blocks
        dims=st.just(one[0]),
        groups=st.integers(1, 9),
        with_offsets=st.just(one[1]),
    )
)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_draw_is_that_of_the_equations(backend: str) -> None:
    rows = random_rows(0)
    drawn = rows.draw(backend)
    squares, mass, log_scale = np.zeros((3, 5)), np.zeros(3), 0.0
    for r in range(20):
        group, weight = int(rows.groups[r]), float(rows.weights[r])
        mass[group] += weight
        for d in range(5):
            scale = 0.7 / (1 + math.exp(-float(rows.raw[r, d])))
            mean, noise = float(rows.mean[r, d]), float(rows.noise[r, d])
            assert drawn.vectors[r, d].item() == pytest.approx(mean + scale * noise, abs=1e-6)
            offset = mean - float(rows.centres[group, d]) - float(rows.offsets[r, d])
            squares[group, d] += weight * (scale**2 + offset**2)
            log_scale += weight * math.log(scale)
    assert_close(drawn.squares, torch.tensor(squares))
    assert_close(drawn.mass, torch.tensor(mass))
    assert_close(drawn.log_scale, torch.tensor(log_scale))


@given(rows=many)
def test_the_fused_pass_agrees_with_the_reference_in_float64(rows: Rows) -> None:
    drawn, reference = rows.draw("numba"), rows.to(torch.float64).draw("torch")
    for name in ("vectors", *SUMS):
        assert_close(getattr(drawn, name), getattr(reference, name))
    expected = rows.to(torch.float64).gradients("torch")
    for name, gradient in rows.gradients("numba").items():
        assert_close(gradient, expected[name])


def test_the_reference_gradient_is_that_of_finite_differences() -> None:
    rows = random_rows(1, count=6).to(torch.float64)

    def total(*free: Tensor) -> Tensor:
        return replace(rows, **dict(zip(FREE, free, strict=True))).total("torch")

    inputs = [getattr(rows, name).requires_grad_() for name in FREE]
    assert torch.autograd.gradcheck(total, inputs)


def test_the_fused_gradient_is_that_of_finite_differences() -> None:
    rows = random_rows(2, count=6, dims=2)
    exact = rows.to(torch.float64)
    for name, gradient in rows.gradients("numba").items():
        differences = torch.zeros_like(getattr(exact, name))
        for index in range(differences.numel()):
            ends = []
            for shift in (1e-6, -1e-6):
                moved = getattr(exact, name).clone()
                moved.view(-1)[index] += shift
                ends.append(replace(exact, **{name: moved}).total("torch").item())
            differences.view(-1)[index] = (ends[0] - ends[1]) / 2e-6
        assert_close(gradient, differences, 1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_items_no_sums(backend: str) -> None:
    drawn = random_rows(3, count=0).draw(backend)
    assert drawn.vectors.shape == (0, 5)
    for name in SUMS:
        assert (getattr(drawn, name) == 0).all()
    assert (random_rows(3, count=0).gradients(backend)["centres"] == 0).all()


@pytest.mark.parametrize("raw", [-70.0, -20.0, 0.0, 20.0, 100.0])
def test_scales_from_nothing_to_the_largest(raw: float) -> None:
    rows = replace(random_rows(4), raw=torch.full((20, 5), raw))
    drawn, reference = rows.draw("numba"), rows.to(torch.float64).draw("torch")
    torch.testing.assert_close(drawn.log_scale.double(), reference.log_scale, rtol=1e-6, atol=0)
    expected = rows.to(torch.float64).gradients("torch")
    assert_close(rows.gradients("numba")["raw"], expected["raw"])


@pytest.mark.parametrize(("name", "value"), [("mean", torch.nan), ("raw", torch.nan)])
def test_nan_stays_nan(name: str, value: float) -> None:
    rows = random_rows(5)
    broken = getattr(rows, name).clone()
    broken[7, 2] = value
    rows = replace(rows, **{name: broken})
    assert rows.total("numba").isnan()
    assert rows.gradients("numba")[name][7, 2].isnan()


def test_a_scale_of_zero_is_infinitely_unlikely() -> None:
    rows = random_rows(6)
    assert replace(rows, raw=torch.full_like(rows.raw, -torch.inf)).draw().log_scale == -torch.inf


def test_same_bits_every_time() -> None:
    rows = random_rows(7, count=500, dims=25)
    first, again = rows.gradients("numba"), rows.gradients("numba")
    assert all(torch.equal(first[name], again[name]) for name in FREE)
    assert torch.equal(rows.draw("numba").squares, rows.draw("numba").squares)


def test_gradients_only_of_what_needs_them() -> None:
    rows = random_rows(8)
    expected = rows.gradients("numba")
    for name in FREE:
        value = getattr(rows, name).clone().requires_grad_()
        replace(rows, **{name: value}).total("numba").backward()
        assert torch.equal(value.grad, expected[name])
    assert not rows.draw("numba").vectors.requires_grad
    with torch.no_grad():
        needing = replace(rows, mean=rows.mean.clone().requires_grad_())
        assert not needing.draw("numba").vectors.requires_grad


def test_gradients_are_handed_out_once() -> None:
    rows = random_rows(14)
    total = replace(rows, raw=rows.raw.clone().requires_grad_()).total("numba")
    total.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="handed out already"):
        total.backward()


def test_a_part_alone_has_its_gradient_too() -> None:
    rows = random_rows(9)
    mean = rows.mean.clone().requires_grad_()
    replace(rows, mean=mean).draw("numba").vectors.sum().backward()
    assert torch.equal(mean.grad, torch.ones_like(mean))


@pytest.mark.parametrize("group", [-1, 3])
def test_a_group_out_of_range_is_an_error_not_a_crash(group: int) -> None:
    rows = random_rows(10)
    rows.groups[5] = group
    with pytest.raises(IndexError, match="item 5"):
        rows.draw("numba")


def test_wrong_shapes_are_refused() -> None:
    rows = random_rows(11)
    with pytest.raises(ValueError, match="one shape"):
        replace(rows, noise=rows.noise[1:]).draw()
    with pytest.raises(ValueError, match="19 weights for 20"):
        replace(rows, weights=rows.weights[1:]).draw()
    with pytest.raises(ValueError, match="must have D = 5"):
        replace(rows, centres=rows.centres[:, 1:]).draw()
    with pytest.raises(ValueError, match="shape of the mean"):
        replace(rows, offsets=rows.offsets[1:]).draw()
    with pytest.raises(ValueError, match="float32 on the CPU"):
        rows.to(torch.float64).draw("numba")


def test_narrower_integers_and_strided_tables_are_taken() -> None:
    rows = random_rows(12)
    other = replace(rows, groups=rows.groups.int(), mean=rows.mean.repeat(1, 2)[:, :5])
    assert torch.equal(other.draw("numba").squares, rows.draw("numba").squares)


WITHOUT_CACHE = """
from numba.core import caching
caching.CacheImpl._locator_classes = []
from tests.model.kernels.test_items import random_rows
print(random_rows(18).draw("numba").squares.sum().item())
"""


def test_without_a_place_for_the_cache_kernels_still_compile() -> None:
    assert float(run(WITHOUT_CACHE)) == random_rows(18).draw("numba").squares.sum().item()
