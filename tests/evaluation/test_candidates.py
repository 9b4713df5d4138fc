"""Held-out clicks settle how many items terms that see slates rank again."""

from pathlib import Path

import numpy as np
import pytest

from slatewise import ModelConfig
from slatewise.evaluation import ModelRecommender, candidates, evaluate, settle_candidates
from slatewise.model.fitted import SlateModel
from slatewise.model.network import fitting
from slatewise.model.terms.network import NetworkTerm, _fitted
from slatewise.training import runs
from tests.contract.world import model_of, small_log

K, MOST = 3, 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("candidates")
    small_log(folder)
    return folder


@pytest.fixture(scope="module")
def dataset(folder: Path) -> candidates.SlateDataset:
    return candidates.SlateDataset.open(folder / "set")


@pytest.fixture
def model(dataset: candidates.SlateDataset, monkeypatch: pytest.MonkeyPatch) -> SlateModel:
    """A model with a network of one epoch."""
    monkeypatch.setattr(fitting, "EPOCHS", 1)
    config = ModelConfig(
        terms=("bias", "network"), dimensions=2, network_units=4, network_candidates=MOST
    )
    found = model_of(config, dataset)
    _fitted.clear()  # other tests fit it in full
    return found


def network_of(model: SlateModel) -> NetworkTerm:
    found = model.terms.by_name["network"]
    assert isinstance(found, NetworkTerm)
    return found


def pretend(monkeypatch: pytest.MonkeyPatch, hits: dict[int, int]) -> None:
    """Let so many of 100 held-out clicks be found by each number of candidates, some others."""

    def found(model: SlateModel, *rest: object) -> np.ndarray:
        count = network_of(model).candidates
        others = 5 if count else 0
        return (np.roll(np.arange(100), others) < hits[count]).astype(float)

    monkeypatch.setattr(candidates, "_found", found)


@pytest.mark.parametrize(
    ("hits", "settled"),
    [
        ({0: 50, 24: 70}, 24),
        ({0: 50, 24: 50}, 24),
        ({0: 50, 24: 48}, 24),  # two clicks of a hundred may be chance
        ({0: 50, 24: 45, 12: 48}, 12),
        ({0: 50, 24: 30, 12: 30, 6: 60}, 6),
        ({0: 50, 24: 30, 12: 30, 6: 30, 3: 30}, 0),
    ],
)
def test_as_many_as_cost_no_click(
    hits: dict[int, int],
    settled: int,
    model: SlateModel,
    dataset: candidates.SlateDataset,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    pretend(monkeypatch, hits)
    recalls = settle_candidates(model, dataset, k=K)
    assert recalls == {count: hits[count] / 100 for count in hits}
    assert network_of(model).candidates == settled
    runs.save(model, tmp_path / "run")
    loaded = network_of(runs.load(tmp_path / "run"))
    assert (loaded.candidates, dict(loaded.recalls)) == (settled, recalls)


def test_the_recalls_are_those_of_evaluation(
    model: SlateModel, dataset: candidates.SlateDataset
) -> None:
    recalls = settle_candidates(model, dataset, k=K)
    assert {0, MOST} <= recalls.keys()
    judged = ModelRecommender(model, log=dataset)
    found = evaluate(judged, dataset, part="validation", k=K, resamples=2)
    assert found[f"recall@{K}"].value == pytest.approx(recalls[network_of(model).candidates])


def test_a_model_without_such_terms_is_left_as_it_is(dataset: candidates.SlateDataset) -> None:
    plain = model_of(ModelConfig(dimensions=2), dataset)
    terms = plain.terms
    assert settle_candidates(plain, dataset) == {}
    assert plain.terms is terms
