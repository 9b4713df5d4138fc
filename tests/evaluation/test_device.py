"""Judging on a GPU: what runs there is the same on the CPU, and the same there as here."""

from pathlib import Path

import numpy as np
import pytest
import torch

from slatewise.data import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.errors import SlatewiseError
from slatewise.evaluation import ModelRecommender, OnlyPredicts, Predictions, Slates, evaluate
from slatewise.evaluation.model import _log_probabilities
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.gaussian import keyed_noise
from slatewise.model.registry import DYNAMICS
from slatewise.model.relevance.distance import DISTANCE, double_distances
from slatewise.simulation import load_config, write_log
from slatewise.training import fit
from slatewise.training.config import TrainingConfig

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    folder: Path = tmp_path_factory.mktemp("device")
    write_log(load_config("tiny", users=200), folder / "log")
    return prepare(folder / "log", folder / "log", folder / "dataset")


@pytest.fixture(scope="module")
def model(dataset: SlateDataset) -> SlateModel:
    return fit(dataset, ModelConfig(dimensions=3), TrainingConfig(max_epochs=2))


def test_a_product_in_double_precision_ranks_as_differences_do() -> None:
    generator = torch.Generator().manual_seed(1)
    items = torch.randn(300, 25, generator=generator)
    items[7] = items[3] + 1e-5  # closer to each other than a product in floats can tell
    profiles = torch.cat([items[3:4], torch.randn(20, 25, generator=generator)])
    exact = -DISTANCE.exact(profiles, items)
    found = double_distances(profiles, items)
    torch.testing.assert_close(found.float(), exact, rtol=1e-5, atol=2e-7)
    assert torch.equal(found[0].argsort()[:2], torch.tensor([3, 7]))


def test_keyed_noise_is_that_of_split_mix() -> None:
    """Written down a second time, in numpy and by the book."""
    rows, columns, start = np.array([0, 5, 10**9]), 3, np.random.SeedSequence([4, 2])
    state = start.generate_state(1, np.uint64)[0]
    expected = np.empty((3, 3))
    with np.errstate(over="ignore"):
        for r, row in enumerate(rows.astype(np.uint64)):
            for c in range(columns):
                cell = row * np.uint64(columns) + np.uint64(c + 1)
                z = state + cell * np.uint64(0x9E3779B97F4A7C15)
                z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                z = z ^ (z >> np.uint64(31))
                expected[r, c] = (float(z >> np.uint64(11)) + 0.5) * 2.0**-53
    normal = torch.special.ndtri(torch.from_numpy(expected)).float()
    assert torch.equal(keyed_noise((4, 2), torch.from_numpy(rows), columns), normal)


def test_log_probabilities_are_those_of_predictions() -> None:
    offsets = np.array([0, 3, 4, 8])
    items, none = np.linspace(-3, 50, 8), np.array([0.5, 70.0, -2.0])
    zeros = np.zeros(3, np.int64)
    slates = Slates(zeros, zeros.astype(np.uint8), zeros.astype(np.int32), offsets, np.arange(8))
    expected = Predictions.from_utilities(slates, items, none)
    arrays = (torch.from_numpy(array) for array in (items, none, offsets))
    cells, no_click = _log_probabilities(*arrays)
    np.testing.assert_allclose(cells, expected.log_probabilities, atol=1e-12)
    np.testing.assert_allclose(no_click, expected.no_click_log_probabilities, atol=1e-12)


def test_ranking_is_judged_once_and_shown_for_both(
    model: SlateModel, dataset: SlateDataset
) -> None:
    by_mean = ModelRecommender(model, log=dataset)
    by_draws = ModelRecommender(model, samples=3, log=dataset)
    whole = evaluate(by_draws, dataset, resamples=20)
    ranked = evaluate(by_mean, dataset, resamples=20)
    joined = evaluate(OnlyPredicts(by_draws), dataset, resamples=20).with_ranking_of(ranked)
    assert joined.to_json() == whole.to_json()


def test_a_part_that_a_gpu_cannot_run_is_refused(
    model: SlateModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(DYNAMICS["gru"], "devices", frozenset(["cpu"]))
    with pytest.raises(SlatewiseError, match="'gru' cannot be evaluated on a GPU"):
        ModelRecommender(model, device="cuda")
    with pytest.raises(SlatewiseError, match="no device 'tpu'"):
        ModelRecommender(model, device="tpu")


@on_gpu
@pytest.mark.parametrize("terms", [(), ("bias", "history", "network")])
@pytest.mark.parametrize("samples", [0, 4])
def test_a_gpu_judges_as_the_cpu_does(
    dataset: SlateDataset, samples: int, terms: tuple[str, ...]
) -> None:
    config = ModelConfig(dimensions=3, terms=terms)
    if "network" in terms:
        config = config.changed(network_candidates=40)
    model = fit(dataset, config, TrainingConfig(max_epochs=2))
    here = evaluate(ModelRecommender(model, samples=samples, log=dataset), dataset, resamples=20)
    recommender = ModelRecommender(model, samples=samples, log=dataset, device="cuda")
    there = evaluate(recommender, dataset, resamples=20)
    for name, found in here.estimates.items():
        for source, estimate in found.items():
            other = there.estimates[name][source].value
            assert other == pytest.approx(estimate.value, rel=1e-5, abs=1e-5), name
