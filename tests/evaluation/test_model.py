"""The fitted model keeps the contract of every recommender, and predicts what its equations say."""

import math
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from slatewise.data import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.errors import SlatewiseError
from slatewise.evaluation import (
    ModelRecommender,
    Predictions,
    evaluate,
    fit_baselines,
    require_same_items,
    scored_interactions,
)
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.simulation import load_config, write_log
from slatewise.training import TrainingConfig, fit
from tests.evaluation.contract import RecommenderContract

QUICK = TrainingConfig(batch_users=64, max_epochs=12)
THOROUGH = TrainingConfig(batch_users=64, learning_rate=0.05, max_epochs=60)


class TestLinearContract(RecommenderContract):
    """Linear dynamics on the toy world."""

    tolerance: ClassVar[float] = 1e-4

    @classmethod
    def fit(cls, dataset: SlateDataset) -> Any:
        return ModelRecommender(
            fit(dataset, ModelConfig(dynamics="linear", dimensions=3), THOROUGH)
        )


class TestGruContract(RecommenderContract):
    """A GRU on the toy world."""

    tolerance: ClassVar[float] = 1e-4

    @classmethod
    def fit(cls, dataset: SlateDataset) -> Any:
        return ModelRecommender(fit(dataset, ModelConfig(dimensions=3), THOROUGH))


class TestAmortisedContract(RecommenderContract):
    """The paper's initial state, which must not look ahead either."""

    tolerance: ClassVar[float] = 1e-4

    @classmethod
    def fit(cls, dataset: SlateDataset) -> Any:
        config = ModelConfig(dynamics="linear", dimensions=3, initial_state="amortised")
        return ModelRecommender(fit(dataset, config, THOROUGH))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[SlateDataset, SlateModel]:
    folder = tmp_path_factory.mktemp("model")
    write_log(load_config("tiny"), folder / "log")
    dataset = prepare(folder / "log", folder / "log", folder / "set")
    return dataset, fit(dataset, ModelConfig(dimensions=3), QUICK)


def predict(model: SlateModel, dataset: SlateDataset, samples: int, seed: int = 0) -> Predictions:
    users = torch.from_numpy(np.flatnonzero(dataset.valid_end < np.diff(dataset.user_offsets)))
    batch = dataset.interactions().of_users(users)
    recommender = ModelRecommender(model, samples=samples, seed=seed)
    return recommender.predict(batch, scored_interactions(batch, "test"))


def test_predictions_follow_the_equations(world: tuple[SlateDataset, SlateModel]) -> None:
    """One user by hand: state from the clicks before, distances that know how uncertain items
    are, softmax with no click."""
    dataset, model = world
    posterior = model.posterior
    weights = {name: part.mean.detach().double().numpy() for name, part in posterior.shared.items()}
    vectors = model.item_vectors.astype(np.float64)
    variances = np.square(model.item_scales.astype(np.float64)).sum(axis=1)
    user = int(np.flatnonzero(dataset.valid_end < np.diff(dataset.user_offsets))[0])
    start, end = dataset.user_offsets[user : user + 2]
    state = weights["initial_state"]
    wanted = []
    for n in range(start, end):
        items = dataset.slate_items[dataset.slate_offsets[n] : dataset.slate_offsets[n + 1]]
        profile = weights["output"] @ state
        squares = np.square(profile - vectors[items]).sum(axis=1) + variances[items]
        relevance = np.exp(-np.sqrt(squares)).tolist()
        nothing = math.exp(weights["no_click"][len(items) - 1])
        total = sum(relevance) + nothing
        click = int(dataset.clicks[n])
        wanted.append(math.log((relevance[click] if click >= 0 else nothing) / total))
        if click >= 0:
            ir, iu, inew = np.split(weights["from_item"] @ vectors[items[click]], 3)
            hr, hu, hnew = np.split(weights["from_state"] @ state, 3)
            reset, update = 1 / (1 + np.exp(-ir - hr)), 1 / (1 + np.exp(-iu - hu))
            new = np.tanh(inew + reset * hnew)
            state = (1 - update) * new + update * state
    batch = dataset.interactions().of_users(torch.tensor([user]))
    everything = torch.ones(len(batch.clicks), dtype=torch.bool)
    found = ModelRecommender(model).predict(batch, everything).log_likelihood()
    assert found == pytest.approx(wanted, abs=1e-4)


def test_the_predictive_averages_probabilities(world: tuple[SlateDataset, SlateModel]) -> None:
    dataset, model = world
    several = predict(model, dataset, samples=3)
    assert not np.allclose(several.log_probabilities, predict(model, dataset, 0).log_probabilities)
    again = predict(model, dataset, samples=3)
    assert np.array_equal(several.log_probabilities, again.log_probabilities)
    other = predict(model, dataset, samples=3, seed=1)
    assert not np.array_equal(several.log_probabilities, other.log_probabilities)
    # With many draws two seeds agree much better than with few.
    few = np.abs(other.log_probabilities - several.log_probabilities).mean()
    many = np.abs(
        predict(model, dataset, 40).log_probabilities
        - predict(model, dataset, 40, seed=1).log_probabilities
    ).mean()
    assert many < 0.6 * few


@pytest.mark.parametrize("samples", [0, 3])
def test_a_prediction_does_not_depend_on_who_else_is_predicted(
    world: tuple[SlateDataset, SlateModel], samples: int
) -> None:
    dataset, model = world
    recommender = ModelRecommender(model, samples=samples)
    log = dataset.interactions()

    def predicted(users: list[int]) -> Predictions:
        batch = log.of_users(torch.tensor(users))
        return recommender.predict(batch, torch.ones(len(batch.clicks), dtype=torch.bool))

    alone, among = predicted([3]), predicted([3, 8, 20])
    same = among.log_probabilities[: len(alone.log_probabilities)]
    assert same == pytest.approx(alone.log_probabilities, abs=1e-5)


def test_a_model_beats_the_base_rate(world: tuple[SlateDataset, SlateModel]) -> None:
    dataset, model = world
    judged = evaluate(ModelRecommender(model), dataset, resamples=50)
    base = evaluate(fit_baselines(dataset)["base rate"], dataset, resamples=50)
    assert judged["in_slate_auc"].value > base["in_slate_auc"].value
    assert judged["log_likelihood"].value > base["log_likelihood"].value - 0.02


def test_another_catalogue_is_refused(
    world: tuple[SlateDataset, SlateModel], tmp_path: Path
) -> None:
    _, model = world
    write_log(load_config("tiny", catalogue={"items": 150, "groups": 10}), tmp_path / "log")
    other = prepare(tmp_path / "log", tmp_path / "log", tmp_path / "set")
    with pytest.raises(SlatewiseError, match="not those of the run"):
        require_same_items(model, other)


def test_more_relevant_items_rank_first(world: tuple[SlateDataset, SlateModel]) -> None:
    dataset, model = world
    batch = dataset.interactions().of_users(torch.arange(5))
    ranked = ModelRecommender(model).rank(batch, 10)
    exclude = torch.zeros(dataset.num_items, dtype=torch.bool)
    exclude[ranked[:, 0]] = True
    again = ModelRecommender(model).rank(batch, 10, exclude=exclude)
    assert not torch.isin(again, ranked[:, 0]).any()


def test_a_model_is_judged_as_its_recommender(world: tuple[SlateDataset, SlateModel]) -> None:
    dataset, model = world
    wrapped = evaluate(ModelRecommender(model, log=dataset), dataset)
    assert evaluate(model, dataset).to_json() == wrapped.to_json()
