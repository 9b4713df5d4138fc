"""Models that serve a platform: what they show, what they know, and items that come and go."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slatewise.errors import SlatewiseError
from slatewise.experiments.daily_log import DaySlates
from slatewise.experiments.days import retrain
from slatewise.experiments.model_policy import ModelPolicy, ServedModel
from slatewise.experiments.platform import Platform
from slatewise.model.fitted import SlateModel
from slatewise.slates import Greedy, InSlateThompson, Strategy, Thompson
from tests.experiments.worlds import CHURN, market, platform, small


class Served:
    """A platform after its warm-up, with the log of it."""

    def __init__(self, where: Platform) -> None:
        self.platform = where
        self.platform.warm_up()
        self.dataset = self.platform.log.dataset(0)

    def fit(self, **model: Any) -> SlateModel:
        config = small(model={"dimensions": 3} | model)
        return retrain(config, {}, "slate-gru-hier", self.dataset, seed=0)

    def policy(self, model: SlateModel, strategy: Strategy, k: int = 10) -> ModelPolicy:
        policy = ModelPolicy(ServedModel(model, self.dataset, self.platform), strategy, k)
        policy.arrive(self.platform.moment(0), self.nothing)
        return policy

    @property
    def nothing(self) -> DaySlates:
        return DaySlates.empty(self.platform.market.config.max_slate, 1)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Served:
    return Served(platform(tmp_path_factory.mktemp("served"), arms=1))


@pytest.fixture(scope="module")
def model(site: Served) -> SlateModel:
    return site.fit()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Served:
    """A platform where items come and go."""
    return Served(market(tmp_path_factory.mktemp("shop")))


@pytest.mark.parametrize("strategy", [Greedy(), Thompson(), InSlateThompson(draws=3)])
def test_slates_are_of_distinct_items_and_without_past_clicks(
    site: Served, model: SlateModel, strategy: Strategy
) -> None:
    who = site.platform.population.present(0)[:20]
    slates = site.policy(model, strategy).slates(who, 0)
    assert slates.shape == (20, 10)
    for slate, known in zip(slates, site.platform.memory.histories(who), strict=True):
        assert len(set(slate)) == 10
        assert not set(slate) & set(known.clicked)
        assert slate.min() >= 0


def new_user(where: Platform) -> int:
    """Return somebody of whom nothing is known yet."""
    return int(np.flatnonzero(where.population.users.steps == 0)[0])


def test_greedy_slates_are_the_nearest_items_to_the_profile(
    site: Served, model: SlateModel
) -> None:
    slates = site.policy(model, Greedy(), 5).slates(np.array([new_user(site.platform)]), 0)
    start = model.posterior.mean().initial_state
    profile = (model.posterior.mean().weights.output @ start).detach().numpy()  # type: ignore[union-attr]
    squares = np.square(model.item_vectors - profile) + np.square(model.item_scales)
    assert slates[0].tolist() == np.argsort(squares.sum(axis=1))[:5].tolist()


def test_the_same_seed_gives_the_same_slates(site: Served, model: SlateModel) -> None:
    policy, who = site.policy(model, Thompson()), site.platform.population.present(0)
    one, two, other = (policy.slates(who, seed) for seed in (1, 1, 2))
    assert (one == two).all()
    assert (one != other).any()


def test_users_of_one_call_do_not_share_draws(site: Served, model: SlateModel) -> None:
    alike = np.flatnonzero(site.platform.population.users.steps == 0)
    slates = site.policy(model, Thompson()).slates(alike, 0)
    assert len(np.unique(slates, axis=0)) == len(alike) > 10


def test_a_model_of_other_items_is_refused(site: Served, model: SlateModel) -> None:
    other = SlateModel(
        model.posterior,
        [f"item-{number}" for number in model.item_ids],
        *(model.group_names, model.source_names, model.views),
    )
    with pytest.raises(SlatewiseError, match="not those of a marketplace"):
        ServedModel(other, site.dataset, site.platform)


def test_a_model_with_popularity_follows_what_is_clicked_within_the_day(site: Served) -> None:
    popular = site.fit(terms=["popularity"])
    with torch.no_grad():
        popular.posterior.shared["popularity"].mean.fill_(50.0)
    policy, where = site.policy(popular, Greedy(), 5), site.platform
    state = popular.terms.by_name["popularity"].state_after(site.dataset)
    expected = np.argsort(-state.features(where.moment(0).time).sum(1), kind="stable")[:5]
    who = np.array([new_user(where)])
    assert policy.slates(who, 0)[0].tolist() == expected.tolist()
    rare = int(np.argmin(state.features(where.moment(0).time).sum(1)))
    page = np.full((200, where.market.config.max_slate), rare)
    ones, time = np.ones(200, np.int64), np.full(200, where.moment(0.1).time)
    clicks = DaySlates(ones, ones, time, page, ones, rare * ones, ones > 0, np.zeros((200, 1)))
    policy.arrive(where.moment(0.2), clicks)
    assert policy.slates(who, 0)[0, 0] == rare


@pytest.mark.parametrize(
    "model", [{"terms": ["co_clicks", "history"]}, {"evidence": ["search"]}], ids=str
)
def test_models_that_ask_for_more_than_clicks_get_it(site: Served, model: dict[str, Any]) -> None:
    asking = site.fit(**model)
    who = site.platform.population.present(0)[:20]
    slates = []
    for strength in (0.0, 9.0):
        with torch.no_grad():
            for name in model.get("terms", ["evidence"]):
                asking.posterior.shared[name].mean.fill_(strength)
            if asking.posterior.ranking is not None:
                asking.posterior.ranking.mean.fill_(strength)
        slates.append(site.policy(asking, Greedy()).slates(who, 0))
    assert (slates[0] != slates[1]).any()


def test_items_are_offered_from_their_publication_until_their_end(shop: Served) -> None:
    policy, life = shop.policy(shop.fit(), Thompson()), shop.platform.market.life
    assert life is not None
    trained = set(shop.dataset.item_ids.to_list())
    who = shop.platform.population.present(0)
    shown = set()
    for day in (0.0, 0.4, 1.1, 2.5):
        moment = shop.platform.moment(day)
        policy.arrive(moment, shop.nothing)
        slates = policy.slates(who, 0)
        assert life.alive(slates, np.full(len(who), moment.hours)).all()
        shown |= set(slates.ravel().tolist())
    # After two and a half days everything that training knew is gone.
    assert not set(slates.ravel().tolist()) & trained
    assert shown & trained


def test_a_new_item_of_a_new_group_is_believed_to_be_what_the_service_believes(
    shop: Served,
) -> None:
    model = shop.fit()
    served = ServedModel(model, shop.dataset, shop.platform)
    served.arrive(shop.platform.moment(3.9), shop.nothing)
    items = served._recommender.items
    new = [row for row in range(len(items)) if row >= len(model.item_ids)]
    assert len(new) > 50
    known = shop.platform.log.items["group"].to_list()
    assert items.groups_of(np.array(new)) == [
        known[int(item)] for item in items.ids_of(np.array(new))
    ]


def test_features_of_new_items_are_read(tmp_path: Path) -> None:
    where = Served(market(tmp_path))
    config = small(model={"dimensions": 3}, item_features=True, simulation=CHURN)
    first = retrain(config, {}, "slate-gru-hier", where.dataset, 0, where.platform.log.table)
    assert first.item_encoder is not None
    with torch.no_grad():
        first.posterior.shared["feature_weights"].mean.fill_(5.0)
        first.posterior.shared["feature_weights"].raw.fill_(-20.0)
    served = ServedModel(first, where.dataset, where.platform)
    served.arrive(where.platform.moment(1.0), where.nothing)
    catalogue = served._recommender.items
    new = np.arange(len(first.item_ids), len(catalogue))
    values = where.platform.log.items["feature_1"].to_numpy()[catalogue.ids_of(new)]
    means = catalogue.table.means_of(new)[:, 0]
    assert np.corrcoef(values, means)[0, 1] > 0.9
    again = retrain(
        config,
        {"slate-gru-hier": first},
        *("slate-gru-hier", where.dataset, 1, where.platform.log.table),
    )
    assert again.item_encoder == first.item_encoder


def test_a_night_goes_on_from_the_night_before(
    site: Served, model: SlateModel, tmp_path: Path
) -> None:
    still = small(nightly={"max_epochs": 1, "learning_rate": 1e3})  # nothing so wild is kept
    again = retrain(still, {"slate-gru-hier": model}, "slate-gru-hier", site.dataset, seed=1)
    assert np.array_equal(again.item_vectors, model.item_vectors)
    fresh = retrain(still, {}, "slate-gru-hier", site.dataset, seed=1)
    assert not np.allclose(fresh.item_vectors, model.item_vectors)


def test_a_model_that_learns_moves_the_items_of_answers_and_no_others(
    model: SlateModel, tmp_path: Path
) -> None:
    site = Served(platform(tmp_path, arms=1))  # its own, since users meet slates
    served, still = (
        ServedModel(model, site.dataset, site.platform, learning=learning)
        for learning in (True, False)
    )
    met = site.platform.day(0, [ModelPolicy(served, Greedy(), 25)])
    last = met.only(met.time == met.time.max())
    for one in (served, still):
        one.arrive(site.platform.moment(1), last)
    moved, kept = (one._recommender.ranker.table for one in (served, still))
    every = np.arange(len(model.item_ids))
    narrower = (moved.scales_of(every) < kept.scales_of(every)).any(axis=1)
    recommended = ~met.searched
    seen = np.arange(25) < met.scroll[:, None]
    answered = np.unique(met.slates[recommended][seen[recommended]])
    assert set(np.flatnonzero(narrower)) == set(served._row_of[answered].tolist())
    # The next night starts from there, and without learning from where the last one ended.
    start = served.learned()
    assert np.array_equal(start.item_vectors, moved.means_of(every))
    assert start.item_scales == pytest.approx(moved.scales_of(every), rel=1e-4)
    assert still.learned() is model


def test_a_new_item_that_answers_moved_is_where_the_next_night_starts(tmp_path: Path) -> None:
    shop = Served(market(tmp_path))  # its own, since users meet slates
    model = shop.fit(terms=["bias"])
    served = ServedModel(model, shop.dataset, shop.platform, learning=True)
    shop.platform.day(0, [ModelPolicy(served, Greedy(), 25)])
    start = served.learned()
    new = [item for item in start.item_ids if item not in model.item_ids]
    tonight = shop.platform.log.dataset(1)
    assert set(new) & set(tonight.item_ids.to_list())
    # A night so wild that nothing of it is kept ends where it began.
    wild = {"max_epochs": 1, "learning_rate": 1e3}
    still = small(model={"dimensions": 3, "terms": ["bias"]}, nightly=wild)
    again = retrain(still, {"slate-gru-hier": start}, "slate-gru-hier", tonight, 0)
    first, then = (one.item_vectors[one.number_of(new[0])] for one in (start, again))
    assert np.array_equal(first, then)


@pytest.mark.parametrize("given", [{}, {"ranking": "auto"}])
def test_choices_within_slates_rank_what_is_on_offer(shop: Served, given: dict[str, str]) -> None:
    # Left to itself, a fit ranks by the next click where items come and go.
    model = shop.fit(terms=["popularity"], **given)
    assert model.config.ranking == given.get("ranking", "slate")
    assert (model.posterior.ranking is None) == (not given)


def test_a_model_that_cannot_learn_from_answers_waits_for_the_night(site: Served) -> None:
    model = retrain(small(), {}, "all-item-gru-hier", site.dataset, seed=0)
    served = ServedModel(model, site.dataset, site.platform, learning=True)
    assert served.learned() is model
