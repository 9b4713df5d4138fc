"""Features come from the strict past, and are the same however they are asked for."""

import threading
from pathlib import Path

import pytest
import torch

from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.errors import SlatewiseError
from slatewise.features import (
    HISTORY,
    PopularityIndex,
    Propensity,
    history_features,
    threads,
)
from slatewise.model.config import ModelConfig
from slatewise.model.terms import FittedTerms, feature_terms, features
from slatewise.model.terms.popularity import PopularityTerm
from slatewise.model.terms.propensity import PropensityTerm
from slatewise.model.terms.typical_sizes import typical_sizes
from tests.model.terms.logs import dataset_of, rows_of

CONFIG = ModelConfig(terms=("propensity", "popularity", "history"), half_lives=(2.0,))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    return dataset_of(tmp_path_factory.mktemp("terms") / "log", rows_of(0))


@pytest.fixture(scope="module")
def terms(dataset: SlateDataset) -> FittedTerms:
    return FittedTerms.fit(CONFIG, dataset)


def test_features_are_those_of_their_modules_divided_by_their_sizes(
    dataset: SlateDataset, terms: FittedTerms
) -> None:
    everything = terms.in_log(dataset).describe(dataset.interactions())
    popularity, propensity = terms.by_name["popularity"], terms.by_name["propensity"]
    assert isinstance(popularity, PopularityTerm)
    assert isinstance(propensity, PropensityTerm)
    history = history_features(dataset.interactions())
    lately = PopularityIndex.of(popularity.popularity, dataset).cells(dataset.interactions())
    expected = torch.cat([history, lately], dim=1)
    sizes = torch.tensor([*terms.by_name["history"].sizes, *popularity.sizes])  # type: ignore[attr-defined]
    torch.testing.assert_close(everything.cell_features, expected / sizes)
    clicking = Propensity.fit(dataset).features(dataset.interactions())
    torch.testing.assert_close(everything.step_features, clicking[:, None] / propensity.size)


def test_features_of_some_users_are_those_of_the_whole_log(
    dataset: SlateDataset, terms: FittedTerms, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Computed for three users at a time and kept in a file, or one batch in any order."""
    monkeypatch.setattr(features, "_USERS", 3)
    monkeypatch.setattr(features, "_IN_MEMORY", 0)
    describer = terms.in_log(dataset)
    everything = describer.describe_all(dataset)
    users = torch.tensor([7, 0, 31, 2])
    for ends in (None, torch.tensor([4, 9, 1, 10])):
        kept = everything.of_users(users, ends)
        fresh = describer.describe(dataset.interactions().of_users(users, ends))
        assert torch.equal(kept.cell_features, fresh.cell_features)
        assert torch.equal(kept.step_features, fresh.step_features)
        assert (kept.cell_features != 0).any()


def test_threads_beside_one_of_torch_describe_a_log_to_the_same_bit(
    dataset: SlateDataset, terms: FittedTerms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "_USERS", 12)
    monkeypatch.setattr(threads, "ROWS", 1)
    alone, before = terms.in_log(dataset).describe_all(dataset), torch.get_num_threads()
    torch.set_num_threads(3)
    workers = set()
    honest = features.Describer.describe

    def describe(self: features.Describer, some: Interactions) -> Interactions:
        workers.add(threading.get_ident())
        assert torch.get_num_threads() == 1
        return honest(self, some)

    monkeypatch.setattr(features.Describer, "describe", describe)
    try:
        with threads.one_thread_of_torch():
            assert (threads.thread_limit(), torch.get_num_threads()) == (3, 1)
            together = terms.in_log(dataset).describe_all(dataset)
        assert (threads.thread_limit(), torch.get_num_threads()) == (3, 3)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(alone.cell_features, together.cell_features)
    assert torch.equal(alone.step_features, together.step_features)
    assert len(workers) > 1


def test_a_model_without_terms_needs_no_features(dataset: SlateDataset) -> None:
    bare = FittedTerms.fit(ModelConfig(terms=("bias", "position")), dataset)
    assert bare.by_name == {}
    assert bare.in_log(None).describe_all(dataset).cell_features is None
    assert bare.in_log(None).describe(dataset.interactions()).step_features is None


def test_features_that_are_not_zero_have_mean_square_one() -> None:
    features = torch.tensor([[0.0, 3.0, 0.0], [2.0, 0.0, 0.0], [4.0, 3.0, 0.0]])
    assert typical_sizes(features) == pytest.approx((10**0.5, 3.0, 1.0))


def test_terms_come_back_as_they_were_saved(terms: FittedTerms) -> None:
    stored = terms.to_json()
    assert FittedTerms.from_json(stored, CONFIG, "run.json", {}, terms.usual_source) == terms
    with pytest.raises(SlatewiseError, match="not those of the model"):
        FittedTerms.from_json(stored, ModelConfig(), "run.json", {})
    with pytest.raises(SlatewiseError, match=r"terms\.propensity"):
        FittedTerms.from_json(stored | {"propensity": {}}, CONFIG, "run.json", {})


@pytest.mark.parametrize("name", ["history", "popularity", "propensity"])
def test_every_feature_has_a_weight_and_words(name: str, dataset: SlateDataset) -> None:
    config = ModelConfig(terms=(name,), half_lives=(1.0, 12.0))
    term = feature_terms(config)[name].fit(config, dataset)
    made = term.describe_in(dataset)(dataset.interactions())
    columns = term.columns(config)
    assert made.shape[1] == len(columns)
    assert len({term.words(column) for column in columns}) == len(columns)


def test_words_of_features_are_words(terms: FittedTerms) -> None:
    assert terms.by_name["history"].words(HISTORY[0]) == "clicked before"
    said = terms.by_name["popularity"].words("click_rate_2h")
    assert said == "click rate lately (half-life 2h)"


def test_popularity_needs_clock_times_and_a_log(tmp_path: Path, terms: FittedTerms) -> None:
    ordered = [row | {"time": index} for index, row in enumerate(rows_of(0))]
    with pytest.raises(SlatewiseError, match="only an order"):
        FittedTerms.fit(CONFIG, dataset_of(tmp_path / "log", ordered, clock=False))
    with pytest.raises(SlatewiseError, match="not known without a log"):
        terms.in_log(None)


def test_terms_that_do_not_exist_or_come_twice_are_refused() -> None:
    for values in ({"terms": ["popular"]}, {"terms": ["bias", "bias"]}, {"half_lives": []}):
        with pytest.raises(SlatewiseError):
            ModelConfig.build(values, "model")
