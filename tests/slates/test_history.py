"""Slates without a click in serving: the same user as in training, draw by draw."""

from typing import Literal

import numpy as np
import pytest
import torch

from slatewise.errors import SlatewiseError
from slatewise.features import Showing, UserHistory
from slatewise.model.fitted import SlateModel
from slatewise.model.profiles import known_profiles, present_profiles
from slatewise.model.steps import ClickSteps
from slatewise.ranking import Filter, ItemTable
from slatewise.slates import ExactRanker, Recommender, Seen, Users
from slatewise.slates.tables import columns
from slatewise.slates.users import history_of_events
from tests.model.ragged import Met, histories, random_interactions
from tests.model.reference import samples_around
from tests.slates.conftest import ITEMS, a_model
from tests.slates.dense import DenseRanker, interactions_of

Dynamics = Literal["gru", "linear"]
dynamics_of = pytest.mark.parametrize("dynamics", ["gru", "linear"])
BOTH = ("recommendation", "search")
SOURCES = ["search", "recommendation"]


def with_evidence(
    dynamics: Dynamics = "gru", initial: Literal["causal", "amortised"] = "causal"
) -> SlateModel:
    model = a_model(dynamics, initial=initial, evidence=BOTH)
    with torch.no_grad():
        model.posterior.shared["evidence"].mean.copy_(torch.tensor([-0.8, 0.5]))
        model.posterior.shared["evidence"].raw.fill_(-1.0)
    return model


def user_of(met: list[Met]) -> Users:
    """What was met, as a serving system would hand it over."""
    showings = [
        Showing(
            tuple(each.slate),
            (each.slate.index(each.click),) if each.click >= 0 else (),
            source=each.source,
        )
        for each in met
    ]
    return Users([UserHistory.of_showings(showings)], [Filter()], [3])


def ranker_of(model: SlateModel) -> ExactRanker:
    return ExactRanker(model.posterior, ItemTable.create(*columns(model)))


@dynamics_of
@pytest.mark.parametrize("initial", ["causal", "amortised"])
def test_served_profiles_are_those_with_which_a_replayed_log_is_predicted(
    dynamics: Dynamics, initial: Literal["causal", "amortised"]
) -> None:
    model = with_evidence(dynamics, initial)
    batch = random_interactions(4, users=5, longest_user=7, items=ITEMS, click_share=0.5)
    with torch.no_grad():
        parameters = model.posterior.mean()
        steps = ClickSteps.of(batch, parameters.evidence)
        before = known_profiles(parameters, batch, steps)[steps.state_of].numpy()
    ranker = ranker_of(model)
    for met in histories(batch):
        for index, each in enumerate(met):
            served = ranker.mean_profiles(user_of(met[:index]))[0]
            np.testing.assert_allclose(served, before[each.index], rtol=1e-4, atol=1e-5)


@dynamics_of
def test_drawn_profiles_have_the_moments_of_the_models_own_draws(dynamics: Dynamics) -> None:
    model = with_evidence(dynamics)
    met = [
        Met(0, [4, 9, 30], -1, 0),
        Met(1, [7, 4, 8], 4, 0),
        Met(2, [11, 50], -1, 1),
        Met(3, [2, 4, 5, 9], -1, 0),
    ]
    user, draws = user_of(met), 20_000
    ranker = ranker_of(model)
    drawn = ranker.draw_profiles(user.histories[0], draws, 5)
    assert drawn.items.tolist() == [2, 4, 5, 9, 11, 30, 50]
    seeded = torch.Generator().manual_seed(2)
    with torch.no_grad():
        items = model.posterior.items.samples(draws, seeded)
        parameters = samples_around(model.posterior, items, seeded)
        theirs = present_profiles(parameters, interactions_of(user))[:, 0].numpy()
    error = theirs.std(axis=0) * np.sqrt(2 / draws)
    assert (np.abs(drawn.profiles.mean(axis=0) - theirs.mean(axis=0)) < 5 * error).all()
    assert (np.abs(drawn.profiles.std(axis=0) / theirs.std(axis=0) - 1) < 0.05).all()
    # The vectors that moved the user are those that are ranked: as correlated as in the model.
    for index, item in enumerate(drawn.items):
        mine = np.corrcoef(drawn.profiles[:, 0], drawn.vectors[:, index, 0])[0, 1]
        expected = np.corrcoef(theirs[:, 0], items[:, item, 0].numpy())[0, 1]
        assert abs(mine - expected) < 5 * np.sqrt(2 / draws)


def test_dense_and_exact_rankers_agree_on_who_a_user_is() -> None:
    model = with_evidence()
    batch = random_interactions(4, users=5, longest_user=7, items=ITEMS, click_share=0.5)
    users = [user_of(met) for met in histories(batch)]
    together = Users([user.histories[0] for user in users], [Filter()] * 5, list(range(5)))
    exact, dense = ranker_of(model), DenseRanker(model.posterior)
    assert exact.by_mean(together, 8).tolist() == dense.by_mean(together, 8).tolist()
    replayed = interactions_of(together)
    assert replayed.clicked_items.tolist() == batch.clicked_items.tolist()
    unclicked = batch.clicks < 0
    assert replayed.sources[unclicked].tolist() == batch.sources[unclicked].tolist()
    assert replayed.scroll_lengths[unclicked].tolist() == batch.scroll_lengths[unclicked].tolist()


def test_ids_that_are_not_known_are_left_out_of_slates_and_named() -> None:
    model = with_evidence()
    catalogue = Recommender(model).items
    events = ["a03", Seen(["a01", "x"], source="search"), "y", Seen(["z"], source="search"), "a04"]
    history, unknown = history_of_events(events, catalogue.find, SOURCES)
    assert history.clicked.tolist() == [3, 4]
    assert unknown == ["x", "y", "z"]
    assert history.showings()[1] == Showing((1,), source=0)
    with pytest.raises(SlatewiseError, match="'serach'"):
        history_of_events([Seen(["a01"], source="serach")], catalogue.find, SOURCES)
    with pytest.raises(SlatewiseError, match="clicked twice"):
        history_of_events([Seen(["a01"], ["a01", "a01"])], catalogue.find, SOURCES)


def test_a_slate_without_a_click_changes_what_is_recommended_and_is_not_excluded() -> None:
    recommender = Recommender(with_evidence("linear"))
    near = [item for item, _ in recommender.model.similar_items("a10", 8)]
    searched = recommender.recommend([Seen(near, source="search")], 20, strategy="greedy")
    nobody = recommender.recommend([], 20, strategy="greedy")
    assert searched.items != nobody.items
    assert len(set(near) & set(searched.items)) > len(set(near) & set(nobody.items))
    both = recommender.recommend([[Seen(near, source="search")], []], 20, strategy="greedy")
    assert [slate.items for slate in both] == [searched.items, nobody.items]


def test_a_model_without_evidence_ignores_slates_without_a_click() -> None:
    recommender = Recommender(a_model())
    events = ["a03", Seen(["a01", "a02"], source="search"), "a17"]
    slate = recommender.recommend(events, 10, seed=4)
    clicks = recommender.recommend(["a03", "a17"], 10, seed=4)
    assert slate.items == clicks.items
    assert slate.relevance.tolist() == clicks.relevance.tolist()


def test_a_slate_remembers_all_that_it_was_made_from() -> None:
    recommender = Recommender(with_evidence())
    events = ["a03", Seen(["a01", "a02"], source="search"), "a17"]
    slate = recommender.recommend(events, 10, seed=4)
    again = recommender.ranker.by_draws(slate.user, 10, 12)
    assert (
        recommender.ranker.interleave(slate.user, again, 10)[0].tolist() == slate.numbers.tolist()
    )
    greedy = recommender.recommend(events, 5, strategy="greedy", seed=4)
    certain = recommender.propensities(greedy, draws=20)
    assert (certain.of(greedy)[0] == 1).all()


def test_a_slate_says_when_it_was_seen() -> None:
    events = [3, Seen([3, 8], clicked=[8], source="search", time=77)]
    history, _ = history_of_events(events, int, SOURCES)
    assert history.times.tolist() == [0, 77]
