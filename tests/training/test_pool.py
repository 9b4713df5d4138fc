"""A model beside a network: fitted without it, then pooled with it on held-out choices."""

import numpy as np
import pytest
import torch

from slatewise import ModelConfig, ModelRecommender, SlateModel, TrainingConfig
from slatewise.data import SlateDataset
from slatewise.model.network import fitting
from slatewise.model.pool import SlatePool
from slatewise.model.terms.network import _fitted
from slatewise.training import fit, load, save
from tests.contract.world import small_log


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    return small_log(tmp_path_factory.mktemp("pool"))


@pytest.fixture(scope="module")
def model(dataset: SlateDataset) -> SlateModel:
    """A small model whose network was fitted for one epoch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "EPOCHS", 1)
        config = ModelConfig(terms=("bias", "history", "network"), dimensions=2, network_units=4)
        found = fit(dataset, config, TrainingConfig(max_epochs=2), seed=1)
    _fitted.clear()  # other tests fit it in full
    return found


def log_likelihood(model: SlateModel, dataset: SlateDataset) -> float:
    log = dataset.interactions()
    users = torch.repeat_interleave(log.user_offsets.diff())
    index = torch.arange(len(users)) - log.user_offsets[:-1][users]
    held_out = (index >= log.train_end[users]) & (index < log.valid_end[users])
    found = ModelRecommender(model, log=dataset).predict(log, held_out)
    return float(np.mean(found.log_likelihood()))


def test_the_pool_is_what_predicts_held_out_choices(
    model: SlateModel, dataset: SlateDataset
) -> None:
    pooled = log_likelihood(model, dataset)
    assert pooled == pytest.approx(model.metrics["validation_log_likelihood"], abs=1e-5)
    pool, weights = model.posterior.pool, model.posterior.shared["network"].mean
    assert pool is not None
    kept = weights.detach().clone()
    try:
        with torch.no_grad():
            weights.zero_()
        model.posterior.pool = SlatePool(1.0, 0.0)  # the model as it was fitted, alone
        assert log_likelihood(model, dataset) < pooled
    finally:
        model.posterior.pool = pool
        with torch.no_grad():
            weights.copy_(kept)


def test_what_is_pooled_takes_no_memory_in_training(
    model: SlateModel, dataset: SlateDataset
) -> None:
    trained = model.terms.in_training(dataset).describe_all(dataset).cell_features
    predicted = model.terms.in_log(dataset).describe_all(dataset).cell_features
    assert trained is not None
    assert predicted is not None
    assert torch.equal(trained, predicted[:, :-2])
    assert len(model.posterior.mean().cell_weights) == predicted.shape[1]  # type: ignore[arg-type]


def test_a_saved_model_is_pooled_as_before(
    model: SlateModel, dataset: SlateDataset, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("saved") / "run"
    save(model, folder)
    loaded = load(folder)
    assert loaded.posterior.pool == model.posterior.pool
    assert log_likelihood(loaded, dataset) == log_likelihood(model, dataset)


def test_a_pooled_model_is_not_fitted_further_as_it_is(
    model: SlateModel, dataset: SlateDataset
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "EPOCHS", 1)
        again = fit(dataset, model.config, TrainingConfig(max_epochs=1), seed=1, start=model)
    _fitted.clear()
    assert again.posterior.pool is not None
    assert again.metrics["validation_log_likelihood"] < 0
