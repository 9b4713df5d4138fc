import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from slatewise.model.kernels.backend import RelevanceFunction
from slatewise.model.relevance.distance import DISTANCE
from slatewise.model.relevance.dot import Dot
from tests.model.kernels.batches import DIFFERENTIABLE, Batch, Cosine, by_hand, random_batch

BACKENDS = ["numba", "torch"]
BOTH = pytest.mark.parametrize("relevance", [DISTANCE, Dot()], ids=lambda one: one.name)
# Relative to the largest number of the kind; float32 itself rounds at 6e-8, and errors of the
# kernel were 2e-7 at most when it was written.
FLOAT32 = 2e-6

COMPILED = [(1, 0, DISTANCE), (5, 7, Dot()), (5, 3, DISTANCE), (25, 0, Dot()), (33, 7, DISTANCE)]
"""Dimensions, features and relevance: what loops are compiled for, in two seconds each."""


def ragged_batches(dims: int, num_features: int, relevance: RelevanceFunction) -> st.SearchStrategy:
    return st.builds(
        random_batch,
        st.integers(0, 2**32 - 1),
        count=st.integers(0, 30),
        dims=st.just(dims),
        longest=st.integers(1, 40),
        rows=st.integers(1, 50),
        with_bias=st.booleans(),
        num_features=st.just(num_features),
        num_positions=st.sampled_from([0, 1, 30]),
        with_exposure=st.booleans(),
        sharpness=st.sampled_from([0.5, 1.0, 2.0]),
        include_no_click=st.booleans(),
        include_bias=st.booleans(),
        relevance=st.just(relevance),
    )


ragged = st.sampled_from(COMPILED).flatmap(lambda one: ragged_batches(*one))


def assert_close(actual: Tensor, expected: Tensor, tolerance: float = FLOAT32) -> None:
    assert actual.shape == expected.shape
    largest = expected.abs().max().item() if expected.numel() else 0.0
    torch.testing.assert_close(
        actual.double(), expected.double(), rtol=0, atol=tolerance * (1 + largest)
    )


@pytest.mark.parametrize("backend", BACKENDS)
@given(batch=ragged)
def test_terms_are_those_of_the_equations(backend: str, batch: Batch) -> None:
    total, log_likelihood, exposed = by_hand(batch)
    terms = batch.terms(backend)
    assert_close(terms.total, torch.tensor(total), 2e-5)
    assert_close(terms.log_likelihood, torch.tensor(log_likelihood), 2e-5)
    assert_close(terms.exposed, torch.tensor(exposed), 2e-5)


@given(batch=ragged)
def test_the_fused_pass_agrees_with_the_reference_in_float64(batch: Batch) -> None:
    terms, gradients = batch.gradients("numba")
    reference, expected = batch.to(torch.float64).gradients("torch")
    assert_close(terms.total, reference.total)
    assert_close(terms.log_likelihood, reference.log_likelihood)
    assert_close(terms.exposed, reference.exposed)
    for name, gradient in gradients.items():
        assert_close(gradient, expected[name])


@pytest.mark.parametrize("backend", BACKENDS)
@BOTH
def test_what_was_clicked_is_no_choice_and_enough_is_one(
    relevance: RelevanceFunction, backend: str
) -> None:
    parts = {"include_no_click": True, "include_bias": True, "relevance": relevance}
    batch = random_batch(7, count=40, dims=2, several=True, **parts)
    total, log_likelihood, exposed = by_hand(batch)
    terms = batch.terms(backend)
    assert_close(terms.total, torch.tensor(total), 2e-5)
    assert_close(terms.log_likelihood, torch.tensor(log_likelihood), 2e-5)
    assert_close(terms.exposed, torch.tensor(exposed), 2e-5)


@BOTH
@pytest.mark.parametrize("include_no_click", [False, True])
@pytest.mark.parametrize("with_exposure", [False, True])
def test_the_reference_gradient_is_that_of_finite_differences(
    with_exposure: bool, include_no_click: bool, relevance: RelevanceFunction
) -> None:
    batch = random_batch(
        1,
        with_exposure=with_exposure,
        include_no_click=include_no_click,
        relevance=relevance,
        several=True,
    ).to(torch.float64)

    def total(*inputs: Tensor) -> Tensor:
        given_inputs = dict(zip(DIFFERENTIABLE, inputs, strict=True))
        return replace(batch, **given_inputs).terms("torch").total

    inputs = [getattr(batch, name).requires_grad_() for name in DIFFERENTIABLE]
    assert torch.autograd.gradcheck(total, inputs)


@BOTH
@pytest.mark.parametrize("is_choice", [False, True])
def test_the_fused_gradient_is_that_of_finite_differences(
    is_choice: bool, relevance: RelevanceFunction
) -> None:
    parts = {"include_no_click": is_choice, "include_bias": is_choice}
    batch = random_batch(2, count=6, rows=4, dims=2, relevance=relevance, several=True, **parts)
    assert batch.stops is not None
    assert batch.stops.any()
    _, gradients = batch.gradients("numba")
    exact = batch.to(torch.float64)
    for name, gradient in gradients.items():
        differences = torch.zeros_like(getattr(exact, name))
        for index in range(differences.numel()):
            ends = []
            for shift in (1e-6, -1e-6):
                moved = getattr(exact, name).clone()
                moved.view(-1)[index] += shift
                ends.append(by_hand(replace(exact, **{name: moved}))[0])
            differences.view(-1)[index] = 3 * (ends[0] - ends[1]) / 2e-6
        assert_close(gradient, differences, 1e-5)


@pytest.mark.parametrize("num_features", [1, 2, 16])
def test_any_number_of_features_has_the_gradient_of_the_reference(num_features: int) -> None:
    batch = random_batch(13, count=25, num_features=num_features)
    _, gradients = batch.gradients("numba")
    _, expected = batch.to(torch.float64).gradients("torch")
    for name, gradient in gradients.items():
        assert_close(gradient, expected[name])


@pytest.mark.parametrize("backend", BACKENDS)
def test_probabilities_of_all_choices_sum_to_one(backend: str) -> None:
    length = 6
    batch = random_batch(3, count=length + 1, longest=1)
    same = replace(
        batch,
        features=None,
        feature_weights=None,
        positions=None,
        state_of=torch.zeros(length + 1, dtype=torch.int64),
        no_click=torch.full((length + 1,), -1.5),
        cells=torch.arange(length, dtype=torch.int32).repeat(length + 1),
        offsets=torch.arange(length + 2) * length,
        clicks=torch.arange(-1, length, dtype=torch.int32),
    )
    assert same.terms(backend).log_likelihood.exp().sum().item() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_in_nothing_out(backend: str) -> None:
    terms, gradients = random_batch(4, count=0).gradients(backend)
    assert terms.total.item() == 0
    assert terms.log_likelihood.shape == terms.exposed.shape == (0,)
    assert all((gradient == 0).all() for gradient in gradients.values())


@pytest.mark.parametrize("backend", BACKENDS)
def test_weight_zero_counts_for_nothing(backend: str) -> None:
    batch = random_batch(5)
    _, gradients = replace(batch, weights=torch.zeros_like(batch.weights)).gradients(backend)
    assert all((gradient == 0).all() for gradient in gradients.values())


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_state_upon_an_item_has_a_finite_gradient(backend: str) -> None:
    batch = random_batch(6, count=4, with_bias=False)
    _, gradients = replace(batch, states=batch.items[:1].repeat(3, 1)).gradients(backend)
    assert all(gradient.isfinite().all() for gradient in gradients.values())
    alone = replace(
        batch,
        states=batch.items[:1],
        state_of=torch.zeros(4, dtype=torch.int64),
        cells=torch.zeros_like(batch.cells),
    )
    _, gradients = alone.gradients(backend)
    assert (gradients["states"] == 0).all()
    assert (gradients["items"] == 0).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_empty_slate_leaves_only_the_no_click(backend: str) -> None:
    batch = random_batch(7, count=3)
    lengths = torch.tensor([2, 0, len(batch.cells) - 2])
    empty = replace(
        batch,
        offsets=torch.nn.functional.pad(lengths.cumsum(0), (1, 0)),
        clicks=torch.tensor([1, -1, -1], dtype=torch.int32),
        weights=torch.ones(3),
        exposure_weights=torch.tensor([1.0, 0.0, 1.0]),
    )
    terms, gradients = empty.gradients(backend)
    assert terms.log_likelihood[1] == 0
    assert terms.exposed[1] == -torch.inf
    assert terms.total.isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients.values())


@pytest.mark.parametrize("backend", BACKENDS)
def test_features_and_positions_do_not_touch_the_exposure_term(backend: str) -> None:
    batch = random_batch(8)
    bare = replace(batch, features=None, feature_weights=None, positions=None)
    terms, plain = batch.terms(backend), bare.terms(backend)
    assert torch.equal(terms.exposed, plain.exposed)
    assert not torch.equal(terms.log_likelihood, plain.log_likelihood)


@pytest.mark.parametrize("backend", BACKENDS)
def test_biases_touch_the_exposure_term_only_where_they_are_included(backend: str) -> None:
    batch = random_batch(8)
    raised = replace(batch, items=batch.items + torch.tensor([0.0] * 5 + [0.5]))
    assert torch.equal(raised.terms(backend).exposed, batch.terms(backend).exposed)
    batch, raised = (replace(one, include_bias=True) for one in (batch, raised))
    expected = batch.terms(backend).exposed + 0.5 * 2
    torch.testing.assert_close(raised.terms(backend).exposed, expected)


def test_any_relevance_is_trained_by_the_reference() -> None:
    batch = random_batch(20, relevance=Cosine(), with_bias=False)
    assert torch.equal(batch.terms("auto").total, batch.terms("torch").total)
    _, gradients = batch.gradients("auto")
    along = (gradients["states"] * batch.states).sum(1)  # a cosine does not know of lengths
    assert_close(along, torch.zeros_like(along))
    assert gradients["states"].abs().max() > 0.1
    with pytest.raises(ValueError, match="no loop for the relevance 'cosine'"):
        batch.terms("numba")


@BOTH
@pytest.mark.parametrize("backend", BACKENDS)
def test_far_away_items_neither_overflow_nor_vanish(
    backend: str, relevance: RelevanceFunction
) -> None:
    batch = random_batch(9, relevance=relevance)
    far = replace(batch, items=batch.items * 300)
    terms, gradients = far.gradients(backend)
    reference, expected = far.to(torch.float64).gradients("torch")
    assert_close(terms.log_likelihood, reference.log_likelihood)
    assert_close(terms.exposed, reference.exposed)
    for name, gradient in gradients.items():
        assert_close(gradient, expected[name], 1e-3)  # utilities near -1000 are rounded at 6e-5


@BOTH
@pytest.mark.parametrize("backend", BACKENDS)
def test_nan_stays_nan(backend: str, relevance: RelevanceFunction) -> None:
    batch = random_batch(10, relevance=relevance)
    terms, gradients = replace(batch, states=batch.states * torch.nan).gradients(backend)
    assert terms.total.isnan()
    assert gradients["states"].isnan().any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_same_bits_every_time(backend: str) -> None:
    batch = random_batch(11, count=200, longest=25, dims=33)
    (terms, first), (again, second) = batch.gradients(backend), batch.gradients(backend)
    assert torch.equal(terms.total, again.total)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_gradients_only_of_what_needs_them() -> None:
    batch = random_batch(12)
    _, expected = batch.gradients("numba")
    for name in expected:
        if getattr(batch, name) is None:
            continue
        value = getattr(batch, name).clone().requires_grad_()
        (3 * replace(batch, **{name: value}).terms("numba").total).backward()
        assert torch.equal(value.grad, expected[name])
    assert not batch.terms("numba").total.requires_grad
    with torch.no_grad():
        needing = replace(batch, items=batch.items.clone().requires_grad_())
        assert not needing.terms("numba").total.requires_grad


def test_gradients_are_handed_out_once() -> None:
    batch = random_batch(13)
    total = replace(batch, items=batch.items.clone().requires_grad_()).terms("numba").total
    total.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="handed out already"):
        total.backward()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cells", 9),
        ("cells", -1),
        ("state_of", 99),
        ("state_of", -1),
        ("clicks", 7),
        ("clicks", -2),
    ],
)
def test_an_index_out_of_range_is_an_error_not_a_crash(name: str, value: int) -> None:
    batch = random_batch(14)
    wrong = getattr(batch, name).clone()
    wrong[5] = value
    with pytest.raises(IndexError, match="interaction"):
        replace(batch, **{name: wrong}).terms("numba")


def test_offsets_must_stay_within_the_cells() -> None:
    batch = random_batch(15)
    for index, value in ((-1, 10_000), (0, -1), (3, 10_000)):
        wrong = batch.offsets.clone()
        wrong[index] = value
        with pytest.raises(IndexError):
            replace(batch, offsets=wrong).terms("numba")


def test_wrong_shapes_and_settings_are_refused() -> None:
    batch = random_batch(16)
    with pytest.raises(ValueError, match="weights must be"):
        replace(batch, weights=batch.weights[1:]).terms()
    with pytest.raises(ValueError, match="features and their weights"):
        replace(batch, features=batch.features[1:]).terms()
    with pytest.raises(ValueError, match="features and their weights"):
        replace(batch, features=None).terms()
    with pytest.raises(ValueError, match="share D"):
        replace(batch, states=batch.states[:, 2:]).terms()
    with pytest.raises(ValueError, match="sharpness"):
        replace(batch, sharpness=0.0).terms()
    with pytest.raises(ValueError, match="float32 on the CPU"):
        batch.to(torch.float64).terms("numba")


def test_auto_takes_the_fused_pass_where_it_can() -> None:
    batch = random_batch(17)
    assert torch.equal(batch.terms("auto").total, batch.terms("numba").total)
    double = batch.to(torch.float64)
    assert torch.equal(double.terms("auto").total, double.terms("torch").total)


WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
import torch
from slatewise.model.adam import Adam
from slatewise.model.kernels import RowAdam, slate_terms, unique_rows
from tests.model.kernels.batches import random_batch
from tests.model.kernels.test_items import random_rows
batch, rows = random_batch(18), random_rows(13)
assert torch.equal(rows.draw("auto").squares, rows.draw("torch").squares)
assert torch.equal(batch.terms("auto").total, batch.terms("torch").total)
try:
    batch.terms("numba")
except ValueError as error:
    assert "needs numba" in str(error)
else:
    raise AssertionError("numba is missing")
rows, local, counts = unique_rows(batch.cells, torch.full((9,), -1, dtype=torch.int32))
assert torch.equal(rows[local.long()], batch.cells.long())
RowAdam(torch.zeros(9, 5), lr=0.1).step(rows, torch.ones(len(rows), 5))
free = torch.zeros(3, requires_grad=True)
free.sum().backward()
Adam([free]).step(0.1)
assert "torch._dynamo" not in sys.modules  # 1.6 s of every process that trains
"""


def run(script: str) -> str:
    root = Path(__file__).parents[3]
    path = os.pathsep.join([str(root), str(root / "src")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-c", script]
    return subprocess.check_output(command, env=environment, text=True)


def test_without_numba_torch_does_the_work() -> None:
    run(WITHOUT_NUMBA)


def test_slate_terms_accepts_wider_integers_and_strided_tables() -> None:
    batch = random_batch(19)
    wide = replace(
        batch,
        cells=batch.cells.long(),
        clicks=batch.clicks.long(),
        items=batch.items.repeat(1, 2)[:, :6],
    )
    assert torch.equal(wide.terms("numba").total, batch.terms("numba").total)
