"""Models of others: each learns what is there to learn, from the strict past alone."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from slatewise.data import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.evaluation import COMPARATORS, evaluate, fit_baselines
from slatewise.evaluation.baselines import sequences
from slatewise.evaluation.baselines.sequences import NETWORKS, NextClick, Windows
from tests.evaluation.contract import RecommenderContract
from tests.evaluation.drawing import random_interactions, toy_world


class NetworkContract(RecommenderContract):
    kind: ClassVar[str]
    tolerance = 1e-4  # single precision

    @classmethod
    def fit(cls, dataset: SlateDataset) -> Any:
        return NextClick.fit(NETWORKS[cls.kind], dataset)


class TestGRU4Rec(NetworkContract):
    kind, follows_clicks = "gru4rec", True


class TestSASRec(NetworkContract):
    kind, follows_clicks = "sasrec", True
    knows_items = False  # what does not come next is all the same to it


class TestBPR(NetworkContract):
    kind = "bpr"


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    return toy_world(tmp_path_factory.mktemp("toy") / "world", users=60)


def test_states_of_long_histories_look_back_at_least_half_a_window() -> None:
    world = random_interactions(np.random.default_rng(0), users=5, items=9)
    tiny = pytest.MonkeyPatch()
    with tiny.context() as patch:
        patch.setattr(sequences, "WINDOW", 4)
        windows = Windows.of(world)
    own = windows.lengths - windows.skipped
    assert own.sum() == len(windows.tokens)  # every state has one window
    assert windows.lengths.max() <= 4
    for number in np.flatnonzero(windows.skipped):
        assert windows.skipped[number] == 2
        assert (windows.tokens[windows.starts[number] :][: windows.lengths[number]] >= 0).all()
    clicks = (world.clicks >= 0).sum()
    assert (windows.tokens >= 0).sum() == clicks
    assert (windows.tokens < 0).sum() == world.num_users


def test_a_large_catalogue_is_learned_by_negatives(
    toy: SlateDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequences, "EXACT", 10)
    monkeypatch.setattr(sequences, "NEGATIVES", 12)
    found = fit_baselines(toy, ["popularity", "gru4rec"])
    scores = {name: evaluate(one, toy, resamples=20) for name, one in found.items()}
    assert list(scores) == ["popularity", "gru4rec"]
    gain = scores["gru4rec"]["mrr@20"].value - scores["popularity"]["mrr@20"].value
    assert gain > 0.3


def test_the_same_seed_gives_the_same_network(
    toy: SlateDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequences, "EPOCHS", 2)
    before = torch.random.get_rng_state()
    one, two, other = (NextClick.fit(NETWORKS["bpr"], toy, seed=seed) for seed in (3, 3, 4))
    vectors = [model.encoder.targets().detach() for model in (one, two, other)]
    assert torch.equal(vectors[0], vectors[1])
    assert not torch.equal(vectors[0], vectors[2])
    assert torch.equal(torch.random.get_rng_state(), before)


def test_epochs_are_reported(toy: SlateDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequences, "EPOCHS", 2)
    heard: list[tuple[str, int, int]] = []
    fit_baselines(toy, ["base rate", "bpr"], progress=lambda *one: heard.append(one))
    assert heard == [("bpr", 0, 2), ("bpr", 1, 2), ("bpr", 2, 2)]


def test_without_a_validation_click_no_network_is_trained(tmp_path: Path) -> None:
    small = toy_world(tmp_path / "world", users=2)
    with pytest.raises(SlatewiseError, match="no validation click"):
        fit_baselines(small, ["base rate", "sasrec"])


def test_comparators_join_the_built_in_baselines(toy: SlateDataset) -> None:
    assert set(COMPARATORS) == {"gru4rec", "sasrec", "bpr"}
    with pytest.raises(SlatewiseError, match=r"no baseline 'gru'"):
        fit_baselines(toy, ["gru"])
