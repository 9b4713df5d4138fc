"""The compiled roll-out, beside the equations in torch: states, and all gradients."""

import pytest
import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.model.config import ModelConfig
from slatewise.model.dynamics import Recurrent
from slatewise.model.dynamics.gru import Gru, GruWeights
from slatewise.model.dynamics.linear import Linear, LinearWeights
from slatewise.model.evidence import SlateEvidence
from slatewise.model.kernels.dynamics import roll_gru, roll_linear
from slatewise.model.steps import ClickSteps
from tests.model.ragged import normals, random_interactions

D, HIDDEN = 3, 4
SOURCES = torch.tensor([1, 0])
DYNAMICS: dict[str, Recurrent] = {
    "linear": Linear(ModelConfig(dynamics="linear", dimensions=D)),
    "gru": Gru(ModelConfig(dimensions=D, hidden=HIDDEN)),
}


def leaves(dynamics: str) -> list[Tensor]:
    """Fractions, then weights."""
    shapes = {"linear": [()], "gru": [(3 * HIDDEN, D), (3 * HIDDEN, HIDDEN), (D, HIDDEN)]}[dynamics]
    weights = [normals(3 + n, *shape).float() for n, shape in enumerate(shapes)]
    return [torch.tensor([0.4, -0.6]), *weights]


def weights_of(dynamics: str, values: list[Tensor]) -> LinearWeights | GruWeights:
    if dynamics == "linear":
        return LinearWeights(values[0])
    return GruWeights(*values)


@pytest.mark.parametrize("dynamics_of", ["linear", "gru"])
@pytest.mark.parametrize("click_share", [0.0, 0.4, 1.0])
def test_profiles_and_gradients_are_those_of_the_equations(
    dynamics_of: str, click_share: float
) -> None:
    batch = random_interactions(5, users=9, longest_user=7, click_share=click_share)
    steps = ClickSteps.of(batch, SlateEvidence(SOURCES, torch.tensor([0.4, -0.6])))
    assert steps.slates is not None
    units = D if dynamics_of == "linear" else HIDDEN
    results = []
    dynamics = DYNAMICS[dynamics_of]
    for fused in (True, False):
        moving, initial = normals(1, len(steps.clicked), D).float(), normals(2, 9, units).float()
        inputs = [moving, initial, *leaves(dynamics_of)]
        for tensor in inputs:
            tensor.requires_grad_()
        weights = weights_of(dynamics_of, inputs[3:])
        given = moving, initial, weights
        if fused:
            found = dynamics.fused(*given, inputs[2], steps.slates.kinds, steps.active)
            assert found is not None
        else:
            states = dynamics._after_slates(*given, inputs[2], steps.slates.kinds, steps.active)
            found = dynamics.output(states, weights)
        profiles = found
        profiles.backward(normals(7, *profiles.shape).float())
        results.append([profiles.detach(), *(tensor.grad for tensor in inputs)])
    for compiled, plain in zip(*results, strict=True):
        expected = torch.zeros(2) if plain is None else plain  # without a slate ρ has no slope
        torch.testing.assert_close(compiled, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dynamics_of", ["linear", "gru"])
def test_clicks_alone_are_rolled_out_as_the_equations_say(
    dynamics_of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the compiled pass, which is asked where no slate is evidence, and without it."""
    batch = random_interactions(6, users=9, longest_user=12, click_share=0.7)
    steps, dynamics = ClickSteps.of(batch), DYNAMICS[dynamics_of]
    assert steps.slates is None
    units = D if dynamics_of == "linear" else HIDDEN
    results = []
    for fused in (True, False):
        moving, initial = normals(1, len(steps.clicked), D).float(), normals(2, 9, units).float()
        inputs = [moving, initial, *leaves(dynamics_of)[1:]]
        for tensor in inputs:
            tensor.requires_grad_()
        weights = weights_of(dynamics_of, inputs[2:])
        if fused:  # the equations are not even asked
            with monkeypatch.context() as patch:
                patch.delattr(Recurrent, "_after_clicks")
                profiles = dynamics.profiles(steps, moving, initial, weights)
        else:
            states = dynamics._after_clicks(moving, initial, weights, steps.active)
            profiles = dynamics.output(states, weights)
        profiles.backward(normals(7, *profiles.shape).float())
        results.append([profiles.detach(), *(tensor.grad for tensor in inputs)])
    for compiled, plain in zip(*results, strict=True):
        torch.testing.assert_close(compiled, plain, rtol=1e-4, atol=1e-5)


def test_nobody_has_no_states() -> None:
    batch: Interactions = random_interactions(0, users=0)
    nothing, kinds = torch.empty(0, D), torch.empty(0, dtype=torch.int64)
    fractions, drift = torch.tensor([0.5]), torch.tensor(0.5)
    assert batch.num_users == 0
    assert roll_linear(nothing, drift, nothing, fractions, kinds, []).shape == (0, D)
    matrices = torch.zeros(9, D), torch.zeros(9, D), torch.zeros(D, D)
    assert roll_gru(nothing, matrices, nothing, fractions, kinds, []).shape == (0, D)


def test_a_slate_right_where_the_user_is_leaves_finite_gradients() -> None:
    moving, initial = torch.zeros(1, D, requires_grad=True), torch.zeros(1, D)
    fractions = torch.tensor([-0.5], requires_grad=True)
    kinds = torch.zeros(1, dtype=torch.int64)
    states = roll_linear(moving, torch.tensor(0.5), initial, fractions, kinds, [1])
    states.sum().backward()
    assert moving.grad is not None
    assert torch.isfinite(moving.grad).all()
    torch.testing.assert_close(moving.grad, torch.full((1, D), -0.5))
