from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slatewise.data.dataset import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.experiments.days import retrain
from slatewise.experiments.model_policy import ModelPolicy
from slatewise.model.fitted import SlateModel
from slatewise.slates import Greedy, InSlateThompson, Strategy, Thompson
from tests.experiments.worlds import platform, small

HISTORY = np.array([[3, -1, 5], [-1, -1, -1], [7, 7, 2], [1, -1, -1]] * 5)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    where = platform(tmp_path_factory.mktemp("served"), arms=1)
    where.warm_up()
    return where.log.dataset(0)


@pytest.fixture(scope="module")
def model(dataset: SlateDataset) -> SlateModel:
    return retrain(small(), {}, "slate-gru-hier", dataset, seed=0)


@pytest.mark.parametrize("strategy", [Greedy(), Thompson(), InSlateThompson(draws=3)])
def test_slates_are_of_distinct_items_and_without_past_clicks(
    model: SlateModel, strategy: Strategy, dataset: SlateDataset
) -> None:
    slates = ModelPolicy(model, strategy, dataset).recommend(HISTORY, 10, np.random.default_rng(0))
    assert slates.shape == (20, 10)
    for slate, clicks in zip(slates, HISTORY, strict=True):
        assert len(set(slate)) == 10
        assert not set(slate) & set(clicks)
        assert slate.min() >= 0


def test_greedy_slates_are_the_nearest_items_to_the_profile(
    model: SlateModel, dataset: SlateDataset
) -> None:
    slates = ModelPolicy(model, Greedy(), dataset).recommend(
        HISTORY[:2], 5, np.random.default_rng(0)
    )
    start = model.posterior.mean().initial_state  # the second user has no click
    profile = (model.posterior.mean().weights.output @ start).detach().numpy()  # type: ignore[union-attr]
    squares = np.square(model.item_vectors - profile) + np.square(model.item_scales)
    assert slates[1].tolist() == np.argsort(squares.sum(axis=1))[:5].tolist()


def test_the_same_stream_gives_the_same_slates(model: SlateModel, dataset: SlateDataset) -> None:
    policy = ModelPolicy(model, Thompson(), dataset)
    one, two, other = (
        policy.recommend(HISTORY, 10, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert (one == two).all()
    assert (one != other).any()


def test_users_of_one_call_do_not_share_draws(model: SlateModel, dataset: SlateDataset) -> None:
    alike = np.full((20, 2), -1)
    slates = ModelPolicy(model, Thompson(), dataset).recommend(alike, 10, np.random.default_rng(0))
    assert len(np.unique(slates, axis=0)) == 20


def test_a_model_of_other_items_is_refused(model: SlateModel, dataset: SlateDataset) -> None:
    other = SlateModel(
        model.posterior,
        [f"item-{number}" for number in model.item_ids],
        *(model.group_names, model.source_names, model.views),
    )
    with pytest.raises(SlatewiseError, match="not those of a marketplace"):
        ModelPolicy(other, Greedy(), dataset)


def test_a_model_with_popularity_ranks_by_what_was_popular_in_its_log(
    dataset: SlateDataset,
) -> None:
    config = small(model={"dimensions": 3, "terms": ["popularity"]})
    popular = retrain(config, {}, "slate-gru-hier", dataset, seed=0)
    with torch.no_grad():
        popular.posterior.shared["popularity"].mean.fill_(50.0)
    slates = ModelPolicy(popular, Greedy(), dataset).recommend(
        HISTORY[1:2], 5, np.random.default_rng(0)
    )
    state = popular.terms.by_name["popularity"].state_after(dataset)
    later = int(dataset.times.max()) + 60_000_000
    expected = np.argsort(-state.features(later).sum(1), kind="stable")[:5]
    assert slates[0].tolist() == expected.tolist()


@pytest.mark.parametrize(
    "model", [{"terms": ["history"]}, {"evidence": ["search"]}], ids=["history", "evidence"]
)
def test_a_model_that_asks_for_more_than_clicks_is_refused(
    dataset: SlateDataset, model: dict[str, Any]
) -> None:
    asking = retrain(small(model={"dimensions": 3} | model), {}, "slate-gru-hier", dataset, seed=0)
    with pytest.raises(SlatewiseError, match="not clicks alone"):
        ModelPolicy(asking, Greedy(), dataset)


def test_a_night_goes_on_from_the_night_before(
    dataset: SlateDataset, model: SlateModel, tmp_path: Path
) -> None:
    still = small(nightly={"max_epochs": 1, "learning_rate": 1e3})  # nothing so wild is kept
    again = retrain(still, {"slate-gru-hier": model}, "slate-gru-hier", dataset, seed=1)
    assert np.array_equal(again.item_vectors, model.item_vectors)
    fresh = retrain(still, {}, "slate-gru-hier", dataset, seed=1)
    assert not np.allclose(fresh.item_vectors, model.item_vectors)
