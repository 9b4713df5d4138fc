"""Slates in two stages: what ranks all items finds candidates, and what sees slates ranks these."""

from pathlib import Path

import numpy as np
import pytest
import torch

from slatewise import ModelConfig, Recommender
from slatewise.features.popularity_state import CountedEvents
from slatewise.model.network import fitting
from slatewise.model.ranking_weights import RankingWeights
from slatewise.model.terms.network import _fitted
from slatewise.slates.additions import TermWeights
from slatewise.slates.logs import refresh_from
from slatewise.slates.strategies import STRATEGIES
from tests.contract.world import END, ITEMS, SECOND, model_of, posterior_of, small_log


@pytest.fixture(scope="module")
def recommender(tmp_path_factory: pytest.TempPathFactory) -> Recommender:
    """A recommender by a network that was fitted for one epoch, after its log."""
    dataset = small_log(tmp_path_factory.mktemp("stages"))
    config = ModelConfig(
        terms=("bias", "popularity", "network"), dimensions=2, network_units=4, network_candidates=9
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "EPOCHS", 1)
        found = Recommender(model_of(config, dataset))
    _fitted.clear()  # other tests fit it in full
    missing = "network is not known yet: slates are made without it"
    assert missing in found.recommend([], 2, strategy="greedy").notes
    refresh_from(found, dataset)
    assert not found.recommend([], 2, strategy="greedy").notes
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_slates_keep_what_is_asked_of_them(recommender: Recommender, strategy: str) -> None:
    ids = recommender.items.ids
    for clicks in ([], ids[3:6]):
        nothing = recommender.recommend(clicks, 4, strategy=strategy, exclude=ids, seed=1)
        assert nothing.items == []
        few = recommender.recommend(clicks, 4, strategy=strategy, allow=ids[:2], seed=1)
        assert set(few.items) == set(ids[:2])
        capped = recommender.recommend(clicks, 4, strategy=strategy, groups=1, seed=1)
        assert sorted(capped.groups) == ["a", "b"]
        whole = recommender.recommend(clicks, ITEMS, strategy=strategy, clicked="show", seed=1)
        assert sorted(whole.items) == sorted(ids)
        again = recommender.recommend(clicks, ITEMS, strategy=strategy, clicked="show", seed=1)
        assert again.items == whole.items


def test_the_first_stage_finds_the_candidates(recommender: Recommender) -> None:
    ranker = recommender.ranker
    slate = recommender.recommend([], 9, strategy="greedy", seed=1)
    first = ranker._all_by_mean(slate.user, 9)[0]
    assert sorted(slate.numbers) == sorted(first)
    utilities = recommender.rank(slate.items).utilities
    assert recommender.rank(slate.items).items == slate.items
    parts = ranker.slate_parts(slate.user, slate.numbers)
    assert sum(values[0] for values in parts.values()) == pytest.approx(utilities[0])


def test_slates_that_are_made_draw_the_weights_of_the_next_click_together(tmp_path: Path) -> None:
    config = ModelConfig(terms=("history", "network"), dimensions=2)
    posterior = posterior_of(config, small_log(tmp_path), 5)
    names = posterior.parts.ranking_names
    size = sum(len(posterior.shared[name].mean) for name in names)
    root = torch.tril(torch.ones(size, size))
    posterior.ranking = RankingWeights(torch.arange(float(size)), root)
    made, given = (
        weights(posterior, (*names, "network")).draws(20_000, np.random.default_rng(1))
        for weights in (TermWeights.in_made_slates, TermWeights.in_slates)
    )
    drawn = np.concatenate([made[name] for name in names], axis=1)
    assert drawn.mean(0) == pytest.approx(np.arange(size), abs=0.1)
    assert np.cov(drawn.T) == pytest.approx((root @ root.T).numpy(), rel=0.1)
    for name in (*names, "network"):
        assert given[name].mean(0) == pytest.approx(posterior.shared[name].mean.numpy(), abs=0.01)
    assert made["network"].mean(0) == pytest.approx(given["network"].mean(0), abs=0.01)


def test_states_that_count_on_change_no_slate_before_the_next_refresh(
    recommender: Recommender, tmp_path: Path
) -> None:
    dataset, terms = small_log(tmp_path), recommender.model.terms.with_state
    states = {name: term.state_after(dataset) for name, term in terms.items()}
    recommender.refresh(states, END)
    slate = recommender.recommend([], ITEMS, strategy="greedy", seed=1)
    events, later = CountedEvents.of(dataset.interactions()), END + 3_600 * SECOND
    clicked = np.isin(events.items, slate.numbers[-5:])  # of what was the last, all is clicked
    for state in states.values():
        state.count(events._replace(times=np.full(len(clicked), later), clicks=clicked))
    again = recommender.recommend([], ITEMS, strategy="greedy", seed=1)
    assert again.items == slate.items
    recommender.refresh(states, later + 3_600 * SECOND)
    assert recommender.recommend([], ITEMS, strategy="greedy", seed=1).items != slate.items
