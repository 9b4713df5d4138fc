import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from slatewise.data.ragged import Int64Array
from slatewise.model.kernels.backend import RelevanceFunction, is_distance
from slatewise.model.kernels.catalogue import ItemLists, catalogue_log_sum, catalogue_terms
from slatewise.model.relevance.distance import DISTANCE, many_distances
from slatewise.model.relevance.dot import Dot
from tests.model.kernels.batches import Cosine
from tests.model.kernels.test_slate import run

BACKENDS = ["numba", "torch"]
BOTH = pytest.mark.parametrize("relevance", [DISTANCE, Dot()], ids=lambda one: one.name)
DIFFERENTIABLE = ("states", "items", "no_click")


@dataclass(frozen=True)
class Case:
    """The arguments of `catalogue_terms`."""

    states: Tensor
    items: Tensor
    no_click: Tensor | None
    candidates: Tensor
    catalogue: int
    state_of: Tensor
    own: ItemLists
    weights: Tensor
    sharpness: float
    include_bias: bool = False
    taken: ItemLists | None = None
    relevance: RelevanceFunction = DISTANCE

    def total(self, backend: Any = "auto") -> Tensor:
        """Evaluate it."""
        arguments = dict(vars(self))
        inputs = [arguments.pop(name) for name in DIFFERENTIABLE]
        return catalogue_terms(*inputs, **arguments, backend=backend)

    def double(self) -> "Case":
        """The same in float64."""
        floats = {
            name: value.double()
            for name, value in vars(self).items()
            if isinstance(value, Tensor) and value.is_floating_point()
        }
        return replace(self, **floats)

    def gradients(self, backend: str) -> tuple[Tensor, dict[str, Tensor]]:
        """Evaluate it and the gradient of 3 * total."""
        inputs = {
            name: getattr(self, name).clone().requires_grad_()
            for name in DIFFERENTIABLE
            if getattr(self, name) is not None
        }
        total = replace(self, **inputs).total(backend)
        (3 * total).backward()
        return total.detach(), {name: tensor.grad for name, tensor in inputs.items()}


def random_case(
    seed: int,
    *,
    count: int = 14,
    dims: int = 5,
    rows: int = 12,
    drawn: int = 4,
    whole: bool = False,
    with_no_click: bool = True,
    with_bias: bool = False,
    include_bias: bool = False,
    sharpness: float = 2.0,
    with_taken: bool = False,
    most_own: int = 1,
    relevance: RelevanceFunction = DISTANCE,
) -> Case:
    """Draw a case, some of whose own items are candidates and some of whose weights are 0.

    An interaction has up to `most_own` of them: one is an item that was clicked, many are a slate.
    """
    rng = np.random.default_rng(seed)
    states = max(1, count // 3)

    def normal(*shape: int) -> Tensor:
        return torch.from_numpy(rng.normal(size=shape)).float()

    weights = rng.exponential(size=count) * (rng.random(count) > 0.2)
    candidates = rng.permutation(rows)[: rows if whole else drawn]
    own = [rng.integers(-1, rows, rng.integers(0, most_own + 1)) for _ in range(count)]
    taken = None
    if with_taken:  # none for some, twice the same for others, one candidate left for all
        of_each = [rng.choice(candidates[1:], rng.integers(0, 4)) for _ in range(count)]
        of_each = [np.where(np.isin(one, own[n]), -1, one) for n, one in enumerate(of_each)]
        taken = lists(of_each)
    return Case(
        states=normal(states, dims),
        items=normal(rows, dims + with_bias),
        no_click=normal(count) if with_no_click else None,
        candidates=torch.from_numpy(candidates),
        catalogue=rows if whole else 3 * rows,
        state_of=torch.from_numpy(rng.integers(0, states, count)),
        own=lists(own),
        weights=torch.from_numpy(weights).float(),
        sharpness=sharpness,
        include_bias=include_bias,
        taken=taken,
        relevance=relevance,
    )


def lists(of_each: Sequence[Sequence[int] | Int64Array]) -> ItemLists:
    """Put items of each interaction side by side."""
    offsets = np.cumsum([0, *map(len, of_each)])
    rows = np.concatenate([np.empty(0, np.int64), *map(np.asarray, of_each)]).astype(np.int32)
    return ItemLists(torch.from_numpy(offsets), torch.from_numpy(rows))


def of_each(found: ItemLists) -> list[list[int]]:
    """Return the items of each interaction, without those that are none."""
    parts = torch.split(found.rows, found.offsets.diff().tolist())
    return [[item for item in part.tolist() if item >= 0] for part in parts]


def _relevant(case: Case, state: list[float], row: list[float]) -> float:
    """Work out the relevance of an item, whose row may end with its bias."""
    vector = row[: len(state)]
    if case.relevance.name == "dot":
        return sum(z * v for z, v in zip(state, vector, strict=True))
    return -math.dist(state, vector)


def by_hand(case: Case) -> float:
    """Transcribe the estimate, one number at a time."""
    total, chosen = 0.0, case.candidates.tolist()
    stands_for = case.catalogue / len(chosen)
    for n, own in enumerate(of_each(case.own)):
        state = case.states[case.state_of[n]].tolist()
        relevance = [
            math.exp(case.include_bias * sum(v[len(state) :]) + _relevant(case, state, v))
            ** case.sharpness
            for v in case.items.tolist()
        ]
        apart = own if len(chosen) < case.catalogue else []
        gone = {*apart}
        if case.taken is not None:
            gone |= {*of_each(case.taken)[n]}
        inside = stands_for * sum(relevance[i] for i in chosen if i not in gone)
        inside += sum(relevance[i] for i in apart)
        if case.no_click is not None:
            inside += math.exp(case.sharpness * float(case.no_click[n]))
        total += float(case.weights[n]) * math.log(inside)
    return total


cases = st.builds(
    random_case,
    st.integers(0, 2**32 - 1),
    count=st.integers(0, 40),
    dims=st.sampled_from([2, 5, 10]),  # each is compiled once
    rows=st.integers(5, 60),
    drawn=st.integers(2, 5),
    whole=st.booleans(),
    with_no_click=st.booleans(),
    with_bias=st.booleans(),
    include_bias=st.booleans(),
    sharpness=st.sampled_from([0.5, 1.0, 2.0]),
    with_taken=st.booleans(),
    most_own=st.sampled_from([1, 6]),
    relevance=st.sampled_from([DISTANCE, Dot()]),
)


def assert_close(actual: Tensor, expected: Tensor, tolerance: float = 1e-5) -> None:
    """Relative to the largest number of the kind; 2e-6 was the worst when this was written."""
    assert actual.shape == expected.shape
    largest = expected.abs().max().item() if expected.numel() else 0.0
    torch.testing.assert_close(
        actual.double(), expected.double(), rtol=0, atol=tolerance * (1 + largest)
    )


@given(case=cases)
def test_the_fused_total_is_that_of_the_equations(case: Case) -> None:
    assert_close(case.total("numba"), torch.tensor(by_hand(case)))


@given(case=cases)
def test_the_reference_total_is_that_of_the_equations(case: Case) -> None:
    assert float(case.double().total("torch")) == pytest.approx(by_hand(case), rel=1e-9, abs=1e-9)


@given(case=cases)
def test_the_fused_pass_agrees_with_the_reference_in_float64(case: Case) -> None:
    total, gradients = case.gradients("numba")
    reference, expected = case.double().gradients("torch")
    assert_close(total, reference)
    for name, gradient in gradients.items():
        assert_close(gradient, expected[name])


@BOTH
@pytest.mark.parametrize("include_bias", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_the_reference_gradient_is_that_of_finite_differences(
    whole: bool, include_bias: bool, relevance: RelevanceFunction
) -> None:
    bias = {"with_bias": True, "include_bias": include_bias}
    case = random_case(1, whole=whole, relevance=relevance, most_own=3, **bias).double()
    on_candidate = torch.isin(case.own.rows, case.candidates)
    assert on_candidate.any()
    assert whole or not on_candidate[case.own.rows >= 0].all()

    def total(*inputs: Tensor) -> Tensor:
        return replace(case, **dict(zip(DIFFERENTIABLE, inputs, strict=True))).total("torch")

    inputs = [getattr(case, name).requires_grad_() for name in DIFFERENTIABLE]
    assert torch.autograd.gradcheck(total, inputs)


@BOTH
@pytest.mark.parametrize("include_bias", [False, True])
@pytest.mark.parametrize("with_taken", [False, True])
def test_the_fused_gradient_is_that_of_finite_differences(
    with_taken: bool, include_bias: bool, relevance: RelevanceFunction
) -> None:
    bias = {"with_bias": True, "include_bias": include_bias, "with_taken": with_taken}
    case = random_case(2, dims=2, rows=6, relevance=relevance, most_own=3, **bias)
    _, gradients = case.gradients("numba")
    exact = case.double()
    for name, gradient in gradients.items():
        differences = torch.zeros_like(getattr(exact, name))
        for index in range(differences.numel()):
            ends = []
            for shift in (1e-6, -1e-6):
                moved = getattr(exact, name).clone()
                moved.view(-1)[index] += shift
                ends.append(by_hand(replace(exact, **{name: moved})))
            differences.view(-1)[index] = 3 * (ends[0] - ends[1]) / 2e-6
        assert_close(gradient, differences)


@pytest.mark.parametrize("backend", BACKENDS)
def test_own_candidates_of_one_state_are_each_left_out_once(backend: str) -> None:
    """Also where an own item is nearly all of the sum, and stands for many, or comes twice."""
    case = random_case(3, count=9)
    near = case.items.clone()
    near[case.candidates[0]] = case.states[0] + 0.01
    numbers = [[0], [0, 1], [1], [1, 2, 3], [0, 0], [2], [3], [], [1]]
    own = lists([case.candidates[one].numpy() for one in numbers])
    case = replace(
        case,
        items=near,
        no_click=None,
        catalogue=1_000_000,
        state_of=torch.zeros(9, dtype=torch.int64),
        own=own,
        weights=torch.ones(9),
    )
    total, gradients = case.gradients(backend)
    assert float(total) == pytest.approx(by_hand(case), rel=1e-5)
    _, expected = case.double().gradients("torch")
    for name, gradient in gradients.items():
        # Products lose digits of a distance this small in float32, those of the reference more.
        assert_close(gradient, expected[name], 1e-4 if backend == "numba" else 1e-2)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("far", [-200.0, 200.0])
def test_utilities_far_apart_do_not_overflow(backend: str, far: float) -> None:
    case = random_case(4)
    case = replace(case, no_click=torch.full_like(case.weights, far), weights=case.weights + 1)
    total, gradients = case.gradients(backend)
    reference, expected = case.double().gradients("torch")
    assert_close(total, reference)
    for name, gradient in gradients.items():
        assert_close(gradient, expected[name])


@pytest.mark.parametrize("backend", BACKENDS)
def test_distances_that_hide_the_rest_do_not_underflow(backend: str) -> None:
    """The nearest candidate is clicked, and all others are 300 away: only itself is left."""
    items = torch.zeros(3, 2)
    items[1:] = 300.0
    case = replace(
        random_case(5, count=1, dims=2, rows=3, drawn=2, with_no_click=False, sharpness=1.0),
        states=torch.full((1, 2), 0.5),
        items=items,
        candidates=torch.tensor([0, 1]),
        own=lists([[0]]),
        weights=torch.ones(1),
    )
    total, gradients = case.gradients(backend)
    assert float(total) == pytest.approx(-math.hypot(0.5, 0.5), rel=1e-6)
    expected = torch.tensor([[3.0, 3.0], [0.0, 0.0], [0.0, 0.0]]) / math.sqrt(2)
    assert_close(gradients["items"], expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_in_nothing_out(backend: str) -> None:
    total, gradients = random_case(6, count=0).gradients(backend)
    assert float(total) == 0
    assert all((gradient == 0).all() for gradient in gradients.values())


def test_a_state_upon_a_candidate_has_a_finite_gradient() -> None:
    case = random_case(7)
    states = case.states.clone()
    states[:] = case.items[case.candidates[0]]
    _, gradients = replace(case, states=states).gradients("numba")
    assert all(torch.isfinite(gradient).all() for gradient in gradients.values())


@pytest.mark.parametrize("backend", BACKENDS)
def test_large_products_neither_overflow_nor_vanish(backend: str) -> None:
    case = random_case(4, relevance=Dot())
    case = replace(case, items=case.items * 300)
    total, gradients = case.gradients(backend)
    reference, expected = case.double().gradients("torch")
    assert abs(reference) > 1000
    assert_close(total, reference)
    for name, gradient in gradients.items():
        assert_close(gradient, expected[name], 1e-3)  # utilities near 1000 are rounded at 6e-5


@BOTH
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_nan_stays_nan(name: str, relevance: RelevanceFunction) -> None:
    case = random_case(8, relevance=relevance)
    broken = torch.full_like(getattr(case, name), torch.nan)
    assert math.isnan(replace(case, **{name: broken}).total("numba"))


def test_same_bits_every_time() -> None:
    case = random_case(9, count=300, rows=100, drawn=40, dims=10)
    (total, first), (again, second) = case.gradients("numba"), case.gradients("numba")
    assert torch.equal(total, again)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_gradients_only_of_what_needs_them() -> None:
    case = random_case(10)
    _, expected = case.gradients("numba")
    for name in DIFFERENTIABLE:
        value = getattr(case, name).clone().requires_grad_()
        (3 * replace(case, **{name: value}).total("numba")).backward()
        assert torch.equal(value.grad, expected[name])
    with torch.no_grad():
        needing = replace(case, items=case.items.clone().requires_grad_())
        assert not needing.total("numba").requires_grad


def test_gradients_are_handed_out_once() -> None:
    case = random_case(11)
    total = replace(case, items=case.items.clone().requires_grad_()).total("numba")
    total.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="handed out already"):
        total.backward()


@pytest.mark.parametrize("value", [99, -1])
def test_a_state_out_of_range_is_an_error_not_a_crash(value: int) -> None:
    case = random_case(12)
    wrong = case.state_of.clone()
    wrong[5] = value
    with pytest.raises(IndexError, match="interaction 5"):
        replace(case, state_of=wrong).total("numba")


@pytest.mark.parametrize("wrong", [[12], [3, -2]])
def test_an_item_out_of_range_is_an_error_not_a_crash(wrong: list[int]) -> None:
    case = random_case(12)
    own = [[0]] * 5 + [wrong] + [[1]] * 8
    with pytest.raises(IndexError, match="interaction 5"):
        replace(case, own=lists(own)).total("numba")
    short = ItemLists(lists(own).offsets, lists(own).rows[:5])
    with pytest.raises(IndexError, match="interaction 5"):
        replace(case, own=short).total("numba")


def test_wrong_shapes_and_settings_are_refused() -> None:
    case = random_case(13)
    with pytest.raises(ValueError, match="weights must be"):
        replace(case, weights=case.weights[1:]).total()
    with pytest.raises(ValueError, match="sharpness"):
        replace(case, sharpness=0.0).total()
    with pytest.raises(ValueError, match="cannot stand for"):
        replace(case, catalogue=3).total()
    with pytest.raises(ValueError, match="share D"):
        replace(case, states=case.states[:, 2:]).total()
    with pytest.raises(ValueError, match="float32 on the CPU"):
        case.double().total("numba")


@pytest.mark.parametrize("sharpness", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("drawn", [1, 3, 5])
def test_the_sum_over_the_catalogue_is_unbiased(drawn: int, sharpness: float) -> None:
    """Over every set of candidates there is, each as likely: no sampling error is left.

    Interactions with no own items, with each alone, and with half: inside the candidates or not.
    """
    case = random_case(14, count=8, rows=6).double()
    items = len(case.items)
    own = lists([[], *([n] for n in range(items)), [0, 2, 5]])
    sums = [
        catalogue_log_sum(
            case.states,
            case.items,
            candidates=torch.tensor(rows),
            catalogue=items,
            state_of=case.state_of,
            own=own,
            sharpness=sharpness,
        ).exp()
        for rows in combinations(range(items), drawn)
    ]
    exact = (-sharpness * torch.cdist(case.states, case.items)).exp().sum(1)[case.state_of]
    torch.testing.assert_close(torch.stack(sums).mean(0), exact, rtol=1e-9, atol=1e-9)
    assert (torch.stack(sums).std(0) > 1e-3).all()  # each set says something else


def test_any_relevance_is_summed_by_the_reference() -> None:
    case = random_case(16, relevance=Cosine())
    assert torch.equal(case.total("auto"), case.total("torch"))
    _, gradients = case.gradients("auto")
    assert all(gradient.abs().max() > 0.01 for gradient in gradients.values())
    for relevance in (Cosine(), Cosine(fused=True)):
        with pytest.raises(ValueError, match="no loop for the relevance 'cosine'"):
            replace(case, relevance=relevance).total("numba")


@pytest.mark.parametrize("backend", BACKENDS)
def test_own_items_are_always_in_the_sum(backend: str) -> None:
    """So that no click is more probable than certain, and no slate likelier than all there is."""
    case = random_case(15, count=12)
    own = [[n] for n in range(10)] + [[0, 3, 7], [*range(12)]]
    away = torch.cdist(case.states[case.state_of], case.items)
    for candidates in ([0, 1], [5, 9], [11]):
        for n, items in enumerate(own):
            one = replace(
                case,
                no_click=None,
                candidates=torch.tensor(candidates),
                own=lists(own),
                weights=torch.eye(12)[n],
                sharpness=1.0,
            )
            least = torch.logsumexp(-away[n, items], 0)
            assert float(one.total(backend)) >= float(least) - 1e-5


@given(shift=st.floats(-50, 50), seed=st.integers(0, 2**32 - 1))
def test_distances_by_matrix_product_are_distances(shift: float, seed: int) -> None:
    """In float32, of points a few units apart, wherever the origin is."""
    rng = np.random.default_rng(seed)
    profiles, items = (torch.from_numpy(rng.normal(size=(n, 10))) + shift for n in (6, 9))
    expected = torch.cdist(profiles, items, compute_mode="donot_use_mm_for_euclid_dist")
    actual = many_distances(profiles.float(), items.float())
    assert (actual - expected).abs().max() < 1e-4


def test_distances_of_points_that_coincide_are_small() -> None:
    rng = np.random.default_rng(0)
    items = torch.from_numpy(2 * rng.normal(size=(50, 10)))
    profiles = items + 1e-4 * torch.from_numpy(rng.normal(size=(50, 10)))
    actual = many_distances(profiles.float(), items.float()).diagonal()
    expected = torch.linalg.vector_norm(profiles - items, dim=1)
    assert (actual - expected).abs().max() < 1e-2
    assert (actual > 0).all()  # a root at zero would have an infinite gradient


BITS = """
from tests.model.kernels.test_catalogue import random_case
from slatewise.model.kernels.loops.catalogue import catalogue_kernel
total, gradients = random_case(2, count=300, rows=100, dims=5, whole=True).gradients("numba")
kernel = catalogue_kernel(False, "distance")
print(len(kernel.stats.cache_hits), *(part.numpy().tobytes().hex() for part in gradients.values()))
"""


def test_the_compiler_and_the_cache_give_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    (compiled, *first), (cached, *second) = (run(BITS).split() for _ in range(2))
    assert (compiled, cached) == ("0", "1")
    assert first == second


def test_a_relevance_that_a_kernel_has_no_equation_for_is_an_error() -> None:
    assert is_distance("distance")
    assert not is_distance("dot")
    with pytest.raises(ValueError, match="no equation for the relevance 'cosine'"):
        is_distance("cosine")
