"""Training finds the weights, biases and positions that made the choices, and nothing else."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from slatewise.data.interactions import Interactions
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.evaluation import ModelRecommender, evaluate
from slatewise.model.config import ModelConfig
from slatewise.model.posterior import Posterior
from slatewise.model.utility import ranking_utilities
from slatewise.simulation import load_config, write_log
from slatewise.training import fit
from slatewise.training.config import TrainingConfig
from slatewise.training.loop import Training
from slatewise.training.validation import Validation
from tests.model.ragged import random_interactions

ITEMS, SLATE, USERS, LENGTH = 40, 6, 1_500, 10
TERMS = ("bias", "history", "propensity", "position")
WEIGHTS, NO_CLICK_WEIGHT = np.array([0.8, -0.6, 0.3]), -0.7
PLACES = np.linspace(0.6, -0.6, SLATE)


def simulated() -> tuple[Interactions, np.ndarray]:
    """Choices from slates by bias, features and position alone: everybody is the same."""
    rng = np.random.default_rng(0)
    biases = 0.7 * rng.standard_normal(ITEMS)
    count = USERS * LENGTH
    slates = np.stack([rng.permutation(ITEMS)[:SLATE] for _ in range(count)])  # [N, S]
    features = rng.standard_normal((count, SLATE, 3)) * (rng.random((count, SLATE, 3)) < 0.3)
    readiness = rng.standard_normal(count)
    utility = biases[slates] + features @ WEIGHTS + PLACES
    nothing = 1.0 + NO_CLICK_WEIGHT * readiness
    noise = rng.gumbel(size=(count, SLATE + 1))
    chosen = (np.column_stack([utility, nothing]) + noise).argmax(1)
    ends = torch.full((USERS,), LENGTH, dtype=torch.int32)
    learners = torch.arange(USERS) < 0.9 * USERS
    return Interactions(
        user_offsets=torch.arange(USERS + 1) * LENGTH,
        train_end=torch.where(learners, ends, 0),
        valid_end=ends,
        times=torch.arange(count),
        sources=torch.zeros(count, dtype=torch.uint8),
        clicks=torch.from_numpy(np.where(chosen < SLATE, chosen, -1)).int(),
        slate_offsets=torch.arange(count + 1) * SLATE,
        slate_items=torch.from_numpy(slates.ravel()).int(),
        cell_features=torch.from_numpy(features.reshape(-1, 3)).float(),
        step_features=torch.from_numpy(readiness[:, None]).float(),
    ), biases


@pytest.fixture(scope="module")
def fitted() -> tuple[Posterior, np.ndarray]:
    interactions, biases = simulated()
    training = Training(
        ModelConfig(dynamics="linear", dimensions=2, terms=TERMS),
        TrainingConfig(batch_users=150, max_epochs=25),
        interactions,
        torch.zeros(ITEMS, dtype=torch.int64),
        ["all"],
        ["feed"],
        seed=0,
    )
    for _ in training.advance():
        pass
    return training.result(), biases


def test_weights_are_found_within_their_uncertainty(fitted: tuple[Posterior, np.ndarray]) -> None:
    """13,500 choices: a weight is off by about .02; the posterior is a little too sure."""
    shared = fitted[0].shared
    for name, truth in (("history", WEIGHTS), ("propensity", np.array([NO_CLICK_WEIGHT]))):
        error = shared[name].mean.detach().numpy() - truth
        assert (np.abs(error) < 0.08).all()
        assert (np.abs(error) < 6 * shared[name].scale.detach().numpy()).all()


def test_positions_are_found_up_to_their_level(fitted: tuple[Posterior, np.ndarray]) -> None:
    """A constant could as well be in the no-click utility."""
    found = fitted[0].shared["position"].mean.detach().numpy()
    assert np.abs(found - found.mean() - PLACES).max() < 0.12


def test_biases_are_found_up_to_their_level(fitted: tuple[Posterior, np.ndarray]) -> None:
    """An item is in 2,000 slates; what is not found as bias is found as distance."""
    posterior, truth = fitted
    mean = posterior.mean()
    found = ranking_utilities(mean, mean.initial_state[None], 0.0)[0].detach().numpy()
    error = found - found.mean() - (truth - truth.mean())
    assert error.std() < 0.15
    assert np.corrcoef(mean.biases.detach().numpy(), truth)[0, 1] > 0.9


def test_interactions_without_features_are_refused_where_they_are_needed() -> None:
    batch = random_interactions(0)
    posterior = Posterior(ModelConfig(terms=("history",)), torch.zeros(12).long(), range(1), 6)
    scoring = Validation(replace(batch, train_end=batch.train_end * 0), None, 12)
    with pytest.raises(ValueError, match="describe them"):
        scoring.score(posterior)


@pytest.mark.parametrize(("quality", "least"), [(1.5, 0.02), (0.0, -0.002)])
def test_a_bias_helps_where_items_differ_in_quality_and_costs_nothing_where_not(
    quality: float, least: float, tmp_path: Path
) -> None:
    """Over three logs it gained .040 to .063 nats with quality, and .002 to .011 without."""
    world = load_config("tiny", users=900, effects={"quality_sd": quality})
    write_log(world, tmp_path / "log")
    division = SplitConfig(valid_share=0.1, test_share=0.3)
    dataset = prepare(tmp_path / "log", tmp_path / "log", tmp_path / "set", division=division)
    found = []
    for terms in ((), ("bias",)):
        config = ModelConfig(dynamics="linear", dimensions=3, terms=terms)
        model = fit(dataset, config, TrainingConfig(batch_users=128))
        judged = evaluate(ModelRecommender(model), dataset, resamples=2)
        found.append(judged["log_likelihood"].value)
    assert found[1] - found[0] > least
