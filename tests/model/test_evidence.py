"""Slates without a click as steps of the dynamics, beside the same by hand."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.errors import SlatewiseError
from slatewise.model.config import ModelConfig
from slatewise.model.dynamics.gru import GruWeights
from slatewise.model.dynamics.linear import LinearWeights
from slatewise.model.evidence import SlateEvidence, index_of_sources, slate_share
from slatewise.model.parameters import Parameters
from slatewise.model.parts import Parts
from slatewise.model.profiles import known_profiles, moving_vectors, present_profiles
from slatewise.model.steps import ClickSteps
from tests.model.ragged import Met, histories, normals, ragged, random_interactions

ITEMS, D = 12, 3
INITIAL = normals(2, D)
WEIGHTS: dict[str, GruWeights | LinearWeights] = {
    "linear": LinearWeights(torch.tensor(0.7, dtype=torch.float64)),
    "gru": GruWeights(normals(4, 3 * D, D), normals(5, 3 * D, D), normals(6, D, D)),
}
TOWARDS = SlateEvidence(torch.tensor([-1, 0]), torch.tensor([0.4], dtype=torch.float64))
BOTH = SlateEvidence(torch.tensor([1, 0]), torch.tensor([0.4, -0.6], dtype=torch.float64))
evidences = pytest.mark.parametrize("evidence", [TOWARDS, BOTH], ids=["one source", "both"])
user_models = pytest.mark.parametrize(
    ("dynamics", "initial_state"),
    [(d, s) for d in ("linear", "gru") for s in ("causal", "amortised")],
)


def theta(dynamics: str, evidence: SlateEvidence | None) -> Parameters:
    vectors = normals(1, ITEMS, D)
    parts = Parts.of(ModelConfig(dynamics=dynamics, dimensions=D))
    return Parameters(parts, vectors, WEIGHTS[dynamics], INITIAL, normals(3, 6), evidence)


def predicted_from(parameters: Parameters, config: ModelConfig, batch: Interactions) -> Tensor:
    steps = ClickSteps.of(batch, parameters.evidence)
    return known_profiles(replace(parameters, parts=Parts.of(config)), batch, steps)[steps.state_of]


def by_hand(parameters: Parameters, config: ModelConfig, past: list[Met]) -> Tensor:
    """Go from the start through one user's past, straight from the equations."""
    weights = parameters.weights
    clicks = [parameters.items[each.click] for each in past if each.click >= 0]
    state = parameters.initial_state
    if config.initial_state == "amortised" and clicks:
        decay = config.memory ** torch.arange(len(clicks) - 1, -1, -1).double()
        state = (decay[:, None] * torch.stack(clicks)).sum(0) / decay.sum()
    for each in past:
        state = _moved(state, each, parameters)
    return state if isinstance(weights, LinearWeights) else weights.output @ state


def _moved(state: Tensor, met: Met, parameters: Parameters) -> Tensor:
    weights, evidence = parameters.weights, parameters.evidence
    assert evidence is not None
    index = int(evidence.source_index[met.source])
    if met.click < 0 and index < 0:
        return state
    seen = parameters.items[[met.click] if met.click >= 0 else met.slate].mean(0)
    if isinstance(weights, LinearWeights):
        target, share = seen, 1 - weights.drift
    else:
        w_ir, w_id, w_in = weights.from_item.split(D)
        w_hr, w_hd, w_hn = weights.from_state.split(D)
        reset = torch.sigmoid(w_ir @ seen + w_hr @ state) if met.click >= 0 else 0.0
        target = torch.tanh(w_in @ seen + reset * (w_hn @ state))
        share = 1 - torch.sigmoid(w_id @ seen + w_hd @ state)
    if met.click < 0:
        fraction = evidence.fractions[index]
        share = fraction if fraction > 0 else fraction * torch.exp(-(target - state).norm())
    return state + share * (target - state)


@user_models
@evidences
@given(batch=ragged)
def test_profiles_are_those_of_one_user_after_the_other(
    dynamics: str, initial_state: str, evidence: SlateEvidence, batch: Interactions
) -> None:
    config = ModelConfig(dynamics=dynamics, initial_state=initial_state, dimensions=D)  # type: ignore[arg-type]
    parameters = theta(dynamics, evidence)
    before = predicted_from(parameters, config, batch)
    now = present_profiles(replace(parameters, parts=Parts.of(config)), batch)
    for user, met in enumerate(histories(batch)):
        for index, each in enumerate(met):
            torch.testing.assert_close(before[each.index], by_hand(parameters, config, met[:index]))
        torch.testing.assert_close(now[user], by_hand(parameters, config, met))


@user_models
@given(seed=st.integers(0, 2**32 - 1), data=st.data())
def test_a_prediction_does_not_move_with_its_own_slate_or_later_ones(
    dynamics: str, initial_state: str, seed: int, data: st.DataObject
) -> None:
    config = ModelConfig(dynamics=dynamics, initial_state=initial_state, dimensions=D)  # type: ignore[arg-type]
    parameters = theta(dynamics, BOTH)
    batch = random_interactions(seed, users=3, longest_user=8, click_share=0.4)
    lengths = batch.user_offsets.diff()
    user_of = torch.repeat_interleave(lengths)
    index = torch.arange(len(user_of)) - batch.user_offsets[:-1][user_of]
    cut = data.draw(st.integers(0, 8))
    changed = replace(
        batch,
        clicks=torch.where(index >= cut, -1 - batch.clicks.clamp(max=0), batch.clicks).int(),
        sources=torch.where(index >= cut, 1 - batch.sources, batch.sources),
        slate_items=torch.where(
            (index >= cut).repeat_interleave(batch.scroll_lengths),
            (batch.slate_items + 1) % ITEMS,
            batch.slate_items,
        ),
    )
    before, after = (predicted_from(parameters, config, each) for each in (batch, changed))
    assert torch.equal(before[index <= cut], after[index <= cut])


def test_what_came_before_does_move_the_prediction() -> None:
    batch = random_interactions(1, users=6, click_share=0.0)
    config = ModelConfig(dynamics="linear", dimensions=D)
    parameters = theta("linear", BOTH)
    profiles = predicted_from(parameters, config, batch)
    for met in histories(batch):
        indices = [each.index for each in met]
        assert (profiles[indices].diff(dim=0).norm(dim=1) > 1e-3).all()


@pytest.mark.parametrize("dynamics", ["linear", "gru"])
def test_gradients_are_those_of_finite_differences(dynamics: str) -> None:
    batch = random_interactions(3, users=5, longest_user=6, click_share=0.4)
    config = ModelConfig(dynamics=dynamics, dimensions=D)  # type: ignore[arg-type]

    def profiles(items: Tensor, fractions: Tensor, *weights: Tensor) -> Tensor:
        parameters = replace(
            theta(dynamics, SlateEvidence(BOTH.source_index, fractions)),
            items=items,
            weights=type(WEIGHTS[dynamics])(*weights),
        )
        return predicted_from(parameters, config, batch)

    inputs = [normals(1, ITEMS, D), BOTH.fractions, *WEIGHTS[dynamics]]
    inputs = [tensor.clone().requires_grad_() for tensor in inputs]
    assert torch.autograd.gradcheck(profiles, inputs)


@given(batch=ragged)
def test_without_a_source_that_counts_all_is_as_with_clicks_alone(batch: Interactions) -> None:
    nothing = SlateEvidence(torch.tensor([-1, -1]), torch.tensor([0.9]).double())
    clicks, steps = ClickSteps.of(batch), ClickSteps.of(batch, nothing)
    assert clicks.slates is None
    assert steps.active == clicks.active
    for name in ("users", "clicked", "state_of", "last_state", "clicks_before"):
        assert torch.equal(getattr(steps, name), getattr(clicks, name))
    parameters = theta("gru", nothing)
    assert torch.equal(moving_vectors(parameters, steps), moving_vectors(parameters, clicks))


@given(batch=ragged)
def test_states_know_how_many_clicks_led_to_them(batch: Interactions) -> None:
    steps = ClickSteps.of(batch, BOTH)
    found = steps.clicks_before
    for user, met in enumerate(histories(batch)):
        clicks = [int(each.click >= 0) for each in met]
        for index, each in enumerate(met):
            assert int(found[steps.state_of[each.index]]) == sum(clicks[:index])
        assert int(found[steps.last_state[user]]) == sum(clicks)


def test_many_slates_without_a_click_drive_nobody_out_of_the_world() -> None:
    fraction = torch.tensor([-0.9], dtype=torch.float64)
    state, slate = torch.tensor([0.1, 0.0, 0.0]).double(), torch.zeros(3).double()
    for _ in range(1_000):
        gap = slate - state
        state = state + slate_share(fraction, gap) * gap
    # Steps of .9 d exp(−d) have led to d after about exp(d) / (.9 d) of them; 1,000 to 8 or 9.
    assert 5 < float(state.norm()) < 10


def test_a_source_that_the_log_does_not_have_is_refused() -> None:
    assert index_of_sources(("search",), ["recommendation", "search"]).tolist() == [-1, 0]
    with pytest.raises(SlatewiseError, match="'serach'"):
        index_of_sources(("serach",), ["recommendation", "search"])
    with pytest.raises(ValueError, match="twice"):
        ModelConfig(evidence=("search", "search"))
