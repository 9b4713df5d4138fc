import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from slatewise.data.interactions import Interactions
from slatewise.model.config import ModelConfig
from slatewise.model.dynamics.gru import GruWeights
from slatewise.model.dynamics.linear import LinearWeights
from slatewise.model.initial_states.amortised import InitialStates, amortised_initial
from slatewise.model.parameters import Parameters
from slatewise.model.parts import Parts
from slatewise.model.profiles import known_profiles
from slatewise.model.steps import ClickSteps
from tests.model.ragged import histories, normals, ragged, random_interactions

ITEMS, D = 12, 3
MEMORY, SIGMA_MAX, FLOOR = 0.75, 0.8, 0.01
VECTORS = normals(1, ITEMS, D)
UNKNOWN = normals(2, D)


def initial_of(batch: Interactions, prefix: Tensor, vectors: Tensor = VECTORS) -> InitialStates:
    """Initial states by user of the batch, `prefix` [B] too."""
    steps = ClickSteps.of(batch)
    states = amortised_initial(
        steps,
        vectors.index_select(0, steps.clicked),
        prefix[steps.users],
        UNKNOWN,
        memory=MEMORY,
        sigma_max=SIGMA_MAX,
    )
    back = torch.argsort(steps.users)
    return InitialStates(states.mean[back], states.scale[back], states.known[back])


def clicks_of(batch: Interactions) -> list[list[int]]:
    return [[each.click for each in met if each.click >= 0] for met in histories(batch)]


@given(batch=ragged, seed=st.integers(0, 1_000))
def test_the_state_is_the_decayed_average_of_the_prefix(batch: Interactions, seed: int) -> None:
    clicks = clicks_of(batch)
    generator = torch.Generator().manual_seed(seed)
    share = torch.rand(len(clicks), generator=generator)
    prefix = (share * torch.tensor([len(c) + 1 for c in clicks])).long()
    states = initial_of(batch, prefix)
    for user, clicked in enumerate(clicks):
        count = int(prefix[user])
        assert bool(states.known[user]) == (count > 0)
        if not count:
            assert torch.equal(states.mean[user], UNKNOWN)
            continue
        vectors = [VECTORS[item].tolist() for item in clicked[:count]]
        weight = [MEMORY ** (count - 1 - index) for index in range(count)]
        for k in range(D):
            column = [vector[k] for vector in vectors]
            mean = sum(w * x for w, x in zip(weight, column, strict=True)) / sum(weight)
            middle = sum(column) / count
            variance = sum((x - middle) ** 2 for x in column) / count
            scale = min(SIGMA_MAX, math.sqrt(variance + FLOOR))
            assert float(states.mean[user, k]) == pytest.approx(mean, abs=1e-6)
            assert float(states.scale[user, k]) == pytest.approx(scale, abs=1e-6)


def test_later_clicks_weigh_more() -> None:
    batch = random_interactions(0, users=1, longest_user=9, click_share=1.0)
    clicked = clicks_of(batch)[0]
    count = len(set(clicked))
    assert count == len(clicked) > 3
    vectors = VECTORS.clone().requires_grad_()
    initial_of(batch, torch.tensor([count]), vectors).mean[0, 0].backward()
    assert vectors.grad is not None
    pull = vectors.grad[clicked, 0]
    torch.testing.assert_close(pull[:-1] / pull[1:], torch.full_like(pull[1:], MEMORY))


@given(batch=ragged)
def test_clicks_after_the_prefix_do_not_matter(batch: Interactions) -> None:
    clicks = clicks_of(batch)
    prefix = torch.tensor([len(c) // 2 for c in clicks], dtype=torch.int64)
    vectors = VECTORS.clone().requires_grad_()
    states = initial_of(batch, prefix, vectors)
    for user, clicked in enumerate(clicks):
        if not prefix[user]:
            continue
        (gradient,) = torch.autograd.grad(
            states.mean[user].sum() + states.scale[user].sum(), vectors, retain_graph=True
        )
        inside = set(clicked[: int(prefix[user])])
        outside = [item for item in range(ITEMS) if item not in inside]
        assert (gradient[outside] == 0).all()


def test_the_divergence_counts_users_with_a_click_in_the_prefix() -> None:
    states = InitialStates(normals(0, 4, D), normals(1, 4, D).exp(), torch.tensor([1, 0, 1, 1]) > 0)
    each = kl_divergence(Normal(states.mean, states.scale), Normal(0.0, 0.7)).sum(1)
    torch.testing.assert_close(states.kl(0.7), each[[0, 2, 3]].sum())


def test_draws_have_the_stated_scale_and_nobody_in_particular_is_not_drawn() -> None:
    # 100,000 draws: off by sd / 316 in the mean and sd / 447 in the sd; four times that.
    count = 100_000
    states = InitialStates(
        torch.full((count, 2), 1.5), torch.full((count, 2), 0.4), torch.arange(count) < count - 3
    )
    drawn = states.sample(torch.Generator().manual_seed(0))
    assert (drawn[-3:] == 1.5).all()
    assert ((drawn[:-3].mean(0) - 1.5).abs() < 4 * 0.4 / 316).all()
    assert ((drawn[:-3].std(0) - 0.4).abs() < 4 * 0.4 / 447).all()


# Prediction: each from what was known before.

LINEAR, GRU = (Parts.of(ModelConfig(dynamics=name, dimensions=D)) for name in ("linear", "gru"))
THETA = {
    "linear": Parameters(
        LINEAR,
        VECTORS,
        LinearWeights(torch.tensor(0.6, dtype=torch.float64)),
        UNKNOWN,
        normals(3, 6),
    ),
    "gru": Parameters(
        GRU,
        VECTORS,
        GruWeights(normals(4, 3 * D, D), normals(5, 3 * D, D), normals(6, D, D)),
        UNKNOWN,
        normals(3, 6),
    ),
}
every_user_model = pytest.mark.parametrize(
    ("initial_state", "dynamics"),
    [("causal", "linear"), ("causal", "gru"), ("amortised", "linear"), ("amortised", "gru")],
)


def predicted_from(config: ModelConfig, batch: Interactions) -> Tensor:
    """Profile with which each interaction is predicted: [N, D]."""
    steps = ClickSteps.of(batch)
    return known_profiles(replace(THETA[config.dynamics], parts=Parts.of(config)), batch, steps)[
        steps.state_of
    ]


def altered(batch: Interactions, chosen: Tensor, seed: int) -> Interactions:
    """Other slates and other clicks in the chosen interactions [N]."""
    generator = torch.Generator().manual_seed(seed)
    lengths = batch.scroll_lengths
    index = (torch.rand(len(lengths), generator=generator) * (lengths + 1)).long() - 1
    other = (batch.slate_items + 1) % ITEMS
    return replace(
        batch,
        clicks=torch.where(chosen, index, batch.clicks).int(),
        slate_items=torch.where(chosen.repeat_interleave(lengths), other, batch.slate_items).int(),
    )


@every_user_model
@given(seed=st.integers(0, 2**32 - 1))
def test_a_prediction_does_not_move_with_what_comes_later(
    initial_state: str, dynamics: str, seed: int
) -> None:
    config = ModelConfig(
        initial_state=initial_state, dynamics=dynamics, dimensions=D, memory=MEMORY
    )
    batch = random_interactions(seed, users=4)
    before = predicted_from(config, batch)
    users = torch.repeat_interleave(batch.user_offsets.diff())
    index = torch.arange(len(users)) - batch.user_offsets[:-1][users]
    for cut in range(5):
        after = predicted_from(config, altered(batch, index >= cut, seed % 1_000 + cut))
        torch.testing.assert_close(after[index <= cut], before[index <= cut], rtol=0, atol=1e-12)


@every_user_model
def test_a_prediction_moves_with_what_came_before(initial_state: str, dynamics: str) -> None:
    config = ModelConfig(
        initial_state=initial_state, dynamics=dynamics, dimensions=D, memory=MEMORY
    )
    batch = random_interactions(1, users=30, click_share=1.0)
    users = torch.repeat_interleave(batch.user_offsets.diff())
    index = torch.arange(len(users)) - batch.user_offsets[:-1][users]
    before, after = (
        predicted_from(config, each) for each in (batch, altered(batch, index == 0, 0))
    )
    moved = (after - before).abs().sum(1) > 1e-9
    assert not moved[index == 0].any()
    assert moved[index > 0].float().mean() > 0.9  # a few altered clicks are the same ones


def test_amortised_predictions_are_those_of_each_prefix_by_itself() -> None:
    config = ModelConfig(initial_state="amortised", dynamics="linear", dimensions=D, memory=MEMORY)
    batch = random_interactions(2, users=8)
    actual = predicted_from(config, batch)
    drift = float(THETA["linear"].weights[0])
    for met in histories(batch):
        known: list[int] = []
        for each in met:
            vectors = VECTORS[known]
            weight = MEMORY ** torch.arange(len(known) - 1, -1, -1, dtype=torch.float64)
            state = (weight[:, None] * vectors).sum(0) / weight.sum() if known else UNKNOWN
            for vector in vectors:
                state = drift * state + (1 - drift) * vector
            torch.testing.assert_close(actual[each.index], state, rtol=1e-6, atol=1e-6)
            known += [each.click] if each.click >= 0 else []
