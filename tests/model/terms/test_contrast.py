"""How an item compares with the others of its slate, where the slate is known."""

import numpy as np
import pytest

from slatewise import ModelConfig
from slatewise.data import SlateDataset
from slatewise.features.popularity_index import PopularityIndex
from slatewise.features.user_history import NO_HISTORY
from slatewise.model.terms import contrast as module
from slatewise.model.terms import network
from slatewise.model.terms.contrast import ContrastTerm
from slatewise.model.terms.known import ListMoment
from slatewise.selection.candidates import candidates_of
from slatewise.training import fit
from slatewise.training.config import TrainingConfig
from tests.contract.world import small_log


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    return small_log(tmp_path_factory.mktemp("contrast"))


@pytest.fixture(scope="module")
def term(dataset: SlateDataset) -> ContrastTerm:
    return ContrastTerm.fit(ModelConfig(terms=("contrast",)), dataset)


def test_an_item_lies_below_the_best_of_its_slate_and_has_a_rank_in_it(
    dataset: SlateDataset, term: ContrastTerm
) -> None:
    log, sizes = dataset.interactions(), np.array(term.sizes)
    clicks = PopularityIndex.of(module._COUNTED, dataset).cells(log)[:, module._CLICKS].numpy()
    found = term.describe_in(dataset)(log).numpy() * sizes
    assert (found != 0).any(0).all()
    for start, end in zip(log.slate_offsets[:-1], log.slate_offsets[1:], strict=True):
        own = clicks[start:end]
        np.testing.assert_allclose(found[start:end, :2], own - own.max(0), atol=1e-5)
        for row, values in enumerate(own):
            wanted = np.log1p((own > values).sum(0))
            np.testing.assert_allclose(found[start + row, 2:], wanted, atol=1e-5)


def test_candidates_are_seen_in_place_of_the_last_of_the_slate(term: ContrastTerm) -> None:
    clicks = np.array([[3.0, 0.0], [1.0, 1.0], [2.0, 0.0], [5.0, 1.0]], np.float32)
    known = np.zeros((4, len(module._COUNTED.names)), np.float32)
    known[:, module._CLICKS] = clicks
    moment = ListMoment(0, lambda items: known[items])
    seen = term.in_list(NO_HISTORY, np.arange(4), 0, moment, 2)
    found = seen.mean(np.array([2, 1])) * np.array(term.sizes)  # the slate is [2, 1]
    below = [[0, 0], [-1, 0], [0, -1], [0, 0]]  # others stand beside item 2 alone
    above = [[0, 0], [1, 0], [0, 1], [0, 0]]
    np.testing.assert_allclose(found, np.c_[below, np.log1p(above)], atol=1e-6)
    draws = seen.draws(np.array([2, 1]), 3, np.random.default_rng(0))
    np.testing.assert_allclose(draws * np.array(term.sizes), np.stack([found] * 3), atol=1e-6)


def test_it_is_tried_where_a_log_is_too_small_for_the_network(
    dataset: SlateDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "LEAST", 10**9)
    assert "contrast" in candidates_of(ModelConfig(), dataset)[0]
    monkeypatch.setattr(network, "LEAST", 1)
    assert candidates_of(ModelConfig(), dataset)[1]["contrast"] == "the network sees slates"


def test_it_is_fitted_with_all_else(dataset: SlateDataset) -> None:
    config = ModelConfig(terms=("contrast", "position"), dimensions=2)
    model = fit(dataset, config, TrainingConfig(max_epochs=2, optimisation="terms-last"))
    assert model.posterior.pool is None
    assert model.posterior.shared["contrast"].mean.abs().min() > 0
