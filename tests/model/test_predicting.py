from typing import Literal

import pytest
import torch

from slatewise.data.interactions import Interactions
from slatewise.model.config import ModelConfig
from slatewise.model.dynamics.gru import GruWeights
from slatewise.model.dynamics.linear import LinearWeights
from slatewise.model.parameters import Parameters
from slatewise.model.posterior import Posterior
from slatewise.model.profiles import known_profiles, present_profiles
from slatewise.model.steps import ClickSteps
from tests.model.ragged import random_interactions
from tests.model.reference import samples_around

ITEMS, DRAWS = 12, 4


def a_posterior(
    dynamics: Literal["gru", "linear"], initial: Literal["causal", "amortised"] = "causal"
) -> Posterior:
    config = ModelConfig(dynamics=dynamics, initial_state=initial, dimensions=3)
    seeded = torch.Generator().manual_seed(1)
    return Posterior(config, torch.zeros(ITEMS, dtype=torch.int64), range(1), 5, seeded)


def one_of(draws: Parameters, number: int) -> Parameters:
    weights = draws.weights
    if isinstance(weights, LinearWeights):
        one: LinearWeights | GruWeights = LinearWeights(weights.drift[number].squeeze())
    else:
        one = GruWeights(*(matrix[number] for matrix in weights))
    rest = draws.items[number], one, draws.initial_state[number], draws.no_click[number]
    return Parameters(draws.parts, *rest)


@pytest.mark.parametrize("dynamics", ["gru", "linear"])
@pytest.mark.parametrize("initial", ["causal", "amortised"])
def test_draws_side_by_side_are_those_one_after_the_other(
    dynamics: Literal["gru", "linear"], initial: Literal["causal", "amortised"]
) -> None:
    posterior = a_posterior(dynamics, initial)
    batch = random_interactions(3, users=9, longest_user=12)
    steps = ClickSteps.of(batch)
    seeded = torch.Generator().manual_seed(2)
    draws = samples_around(posterior, posterior.items.samples(DRAWS, seeded), seeded)
    together = present_profiles(draws, batch)
    for number in range(DRAWS):
        alone = known_profiles(one_of(draws, number), batch, steps)
        torch.testing.assert_close(together[number], alone[steps.last_state])


def test_a_drawn_amortised_state_varies_where_there_are_clicks() -> None:
    posterior = a_posterior("gru", "amortised")
    clicks = Interactions.of_clicks(torch.tensor([1, 4, 5]), torch.tensor([0, 3, 3]))
    parameters = posterior.mean()
    seeded = torch.Generator().manual_seed(5)
    drawn = [present_profiles(parameters, clicks, seeded) for _ in range(2)]
    assert not torch.equal(drawn[0][0], drawn[1][0])
    assert torch.equal(drawn[0][1], drawn[1][1])


def test_draws_have_the_moments_of_the_posterior() -> None:
    posterior = a_posterior("gru")
    seeded = torch.Generator().manual_seed(4)
    draws = posterior.items.samples(20_000, seeded)
    scale = posterior.items.scale
    # Five standard errors of a mean and of a standard deviation.
    assert ((draws.mean(0) - posterior.items.mean).abs() < 5 * scale / 20_000**0.5).all()
    assert ((draws.std(0) / scale - 1).abs() < 5 / 40_000**0.5).all()


def test_clicks_make_the_profile_that_their_slates_make() -> None:
    posterior = a_posterior("gru")
    batch = random_interactions(6, users=7, longest_user=9)
    is_click = batch.clicks >= 0
    seen = torch.nn.functional.pad(is_click.long().cumsum(0), (1, 0))
    clicks = Interactions.of_clicks(batch.clicked_items[is_click], seen[batch.user_offsets])
    parameters = posterior.mean()
    torch.testing.assert_close(
        present_profiles(parameters, clicks),
        present_profiles(parameters, batch),
    )
