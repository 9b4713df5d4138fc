from typing import Literal

import numpy as np
import pytest
import torch

from slatewise.data.interactions import Interactions
from slatewise.model.profiles import present_profiles
from slatewise.slates.profiles import UserDynamics
from tests.model.reference import samples_around
from tests.slates.conftest import D, a_model

Dynamics = Literal["gru", "linear"]
VECTORS = np.random.default_rng(3).standard_normal((6, D)).astype(np.float32)


@pytest.mark.parametrize("dynamics", ["gru", "linear"])
@pytest.mark.parametrize("initial", ["causal", "amortised"])
@pytest.mark.parametrize("clicks", [0, 1, 6])
def test_the_mean_profile_is_that_of_the_model(
    dynamics: Dynamics, initial: Literal["causal", "amortised"], clicks: int
) -> None:
    posterior = a_model(dynamics, initial=initial).posterior
    mean = {name: part.mean for name, part in posterior.shared.items()}
    parameters = posterior.parameters(torch.from_numpy(VECTORS), mean)
    batch = Interactions.of_clicks(torch.arange(clicks), torch.tensor([0, clicks]))
    expected = present_profiles(parameters, batch)[0]
    found = UserDynamics(posterior).mean(VECTORS[:clicks], np.full(clicks, -1))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dynamics", ["gru", "linear"])
def test_drawn_profiles_have_the_moments_of_the_models_own_draws(dynamics: Dynamics) -> None:
    posterior = a_model(dynamics).posterior
    for name in ("initial_state", "drift_logit", "from_item", "from_state", "output"):
        if name in posterior.shared:
            posterior.shared[name].raw.fill_(-1.0)  # as uncertain as half a unit
    draws = 20_000
    vectors = np.repeat(VECTORS[None], draws, axis=0)
    mine = UserDynamics(posterior).draws(vectors, np.full(6, -1), np.random.default_rng(1))
    seeded = torch.Generator().manual_seed(2)
    parameters = samples_around(posterior, torch.from_numpy(vectors), seeded)
    batch = Interactions.of_clicks(torch.arange(6), torch.tensor([0, 6]))
    theirs = present_profiles(parameters, batch)[:, 0].numpy()
    error = theirs.std(axis=0) * np.sqrt(2 / draws)
    assert (np.abs(mine.mean(axis=0) - theirs.mean(axis=0)) < 5 * error).all()
    assert (np.abs(mine.std(axis=0) / theirs.std(axis=0) - 1) < 0.05).all()
    assert theirs.std(axis=0).max() > 0.1
