"""What terms add is the same in evaluation and in serving, by the mean and in draws."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from slatewise.data import SlateDataset
from slatewise.data.ragged import Int64Array
from slatewise.errors import SlatewiseError
from slatewise.evaluation import ModelRecommender
from slatewise.features import PopularityState, Showing, UserHistory, replay
from slatewise.features.popularity import Popularity, PopularityConfig
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.posterior import Posterior
from slatewise.model.terms import FittedTerms
from slatewise.model.terms.history import HistoryTerm
from slatewise.model.terms.popularity import PopularityTerm
from slatewise.model.terms.term import Floats
from slatewise.ranking import Filter
from slatewise.slates import ExactRanker, Recommender, Seen, Users
from slatewise.slates.additions import RankingTerms
from slatewise.slates.tables import table_of
from tests.model.terms.logs import ITEMS, START, dataset_of, rows_of
from tests.slates.dense import DenseRanker
from tests.slates.fresh_draws import relevance_draws

ALL: tuple[str, ...] = ("bias", "history", "popularity", "propensity", "position")
SECOND, END = 1_000_000, (START + 3 * 86_400) * 1_000_000


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    return dataset_of(tmp_path_factory.mktemp("terms") / "log", rows_of(0))


def model_of(
    dataset: SlateDataset,
    terms: tuple[str, ...],
    evidence: tuple[str, ...] = (),
    scale: float = 0.2,
) -> SlateModel:
    """Return a model of a dataset whose posterior is drawn, not trained; all scales alike."""
    config = ModelConfig(
        dimensions=3, terms=terms, half_lives=(2.0, 12.0), evidence=evidence, sigma_max=2.0
    )
    seeded = torch.Generator().manual_seed(5)
    groups = torch.from_numpy(dataset.item_groups).long()
    posterior = Posterior(config, groups, range(2), 6, seeded, dataset.source_names)
    with torch.no_grad():
        for part in (posterior.items, *(posterior.shared[name] for name in posterior.shared)):
            part.mean.add_(0.5 * torch.randn(part.mean.shape, generator=seeded))
            part.raw.fill_(float(torch.logit(torch.tensor(scale / 2.0))))
    return SlateModel(
        posterior,
        dataset.item_ids.to_list(),
        ["a", "b"],
        list(dataset.source_names),
        torch.ones(ITEMS),
        terms=FittedTerms.fit(config, dataset),
    )


def popularity_of(model: SlateModel) -> PopularityTerm:
    term = model.terms.by_name["popularity"]
    assert isinstance(term, PopularityTerm)
    return term


def as_event(model: SlateModel, showing: Showing) -> Seen:
    """Return what was shown as a caller of `recommend` would tell it."""
    seen = [model.item_ids[item] for item in showing.items]
    clicked = [seen[position] for position in showing.clicks]
    return Seen(seen, clicked, model.source_names[showing.source])


@pytest.mark.parametrize(
    ("terms", "evidence"),
    [
        *(((term,), ()) for term in ALL),
        (ALL, ()),
        (ALL, ("search", "front page")),
    ],
)
def test_a_replayed_log_has_the_utilities_of_its_evaluation(
    dataset: SlateDataset,
    terms: tuple[str, ...],
    evidence: tuple[str, ...],
) -> None:
    model = model_of(dataset, terms, evidence)
    batch = dataset.interactions()
    everything = torch.ones(len(batch.clicks), dtype=torch.bool)
    evaluated = ModelRecommender(model, log=dataset)
    judged = evaluated.predict(batch, everything).log_probabilities
    ranks = dict(
        zip(
            (batch.clicks >= 0).nonzero()[:, 0].tolist(),
            evaluated.target_ranks(batch, everything).tolist(),
            strict=True,
        )
    )
    recommender, state, compared = Recommender(model), None, 0
    if "popularity" in terms:
        state = popularity_of(model).item_state(ITEMS)
    past: dict[int, list[Seen]] = {user: [] for user in range(batch.num_users)}
    positions = torch.zeros(6) if "position" not in terms else model.posterior.mean().positions
    moments = sorted(
        (showing.time, user, number, showing)
        for user in range(batch.num_users)
        for number, showing in enumerate(replay(batch, user))
    )
    for time, user, number, showing in moments:
        if state is not None:
            recommender.refresh(state, time)
        slate = recommender.recommend(past[user], ITEMS, strategy="greedy", clicked="show", seed=0)
        n = int(batch.user_offsets[user]) + number
        before = batch.of_users(torch.tensor([user]), torch.tensor([number]))
        ranked = evaluated.rank(before, ITEMS, times=batch.times[n : n + 1])[0]
        assert slate.numbers.tolist() == ranked.tolist()
        if showing.clicks:  # what is judged is what is served
            clicked = showing.items[showing.clicks[0]]
            assert slate.numbers.tolist().index(clicked) + 1 == ranks.pop(n)
        parts = recommender.ranker.mean_parts(slate.user, np.array(showing.items))
        mean = model.posterior.mean()
        factor = mean.position_factor(torch.tensor(showing.source), torch.tensor(number))
        added = positions * (1 if factor is None else factor)
        utility = sum(parts.values()) + added[: len(showing.items)].detach().numpy()
        first = int(batch.slate_offsets[n])
        wanted = judged[first : first + len(showing.items)]
        # A probability knows utilities up to a number that all items of a slate share.
        assert utility - utility.mean() == pytest.approx(wanted - wanted.mean(), abs=2e-5)
        compared += len(showing.items) > 1
        past[user].append(as_event(model, showing))
        if state is not None:
            state.add([showing])
    assert compared > 200
    assert not ranks


@pytest.fixture(scope="module")
def served(dataset: SlateDataset) -> tuple[Recommender, DenseRanker]:
    """Return both rankers with all terms and yesterday's popularity."""
    model = model_of(dataset, ALL)
    state = popularity_of(model).state_after(dataset)
    recommender = Recommender(model)
    recommender.refresh(state, END)
    return recommender, DenseRanker(model.posterior, model.terms, state.features(END)[:ITEMS])


SHOWN = (Showing((0, 3, 5), (1,)), Showing((2, 3)), Showing((7, 3), (0, 1)), Showing((5,)))


def user(draws_seed: int = 0, allow: list[int] | None = None) -> Users:
    return Users([UserHistory.of_showings(SHOWN)], [Filter(allow=allow)], [draws_seed])


def test_the_parts_add_up_to_what_is_ranked_by(served: tuple[Recommender, DenseRanker]) -> None:
    recommender, dense = served
    every = np.arange(ITEMS)
    parts = recommender.ranker.mean_parts(user(), every)
    assert list(parts) == ["distance", "bias", "popularity", "history"]
    assert all(np.ptp(part) > 0.05 for part in parts.values())
    order = np.argsort(-sum(parts.values()))
    assert recommender.ranker.by_mean(user(), ITEMS)[0].tolist() == order.tolist()
    assert dense.by_mean(user(), ITEMS)[0].tolist() == order.tolist()


def test_both_rankers_draw_all_terms_from_the_same_distribution(
    served: tuple[Recommender, DenseRanker],
) -> None:
    recommender, dense = served
    draws, shares = 4_000, []
    for ranker in (recommender.ranker, dense):
        rankings = ranker.by_draws(user(), 3, draws)[0]
        shares.append([np.bincount(row, minlength=ITEMS) / draws for row in rankings.T])
    gap = np.abs(np.array(shares[0]) - np.array(shares[1]))  # [3, I]
    assert (gap < 5 * np.sqrt(2 * 0.25 / draws)).all()
    assert (np.array(shares).max(axis=2) < 0.9).all()


def test_relevance_is_drawn_with_all_terms(served: tuple[Recommender, DenseRanker]) -> None:
    recommender, _ = served
    ranker, every = recommender.ranker, np.arange(ITEMS)
    relevance = relevance_draws(ranker, user().histories[0], every, 20_000, 1)
    spread = np.log(relevance).std(axis=0)
    alone = relevance_draws(ranker, UserHistory.of_clicks(np.array([3, 7, 3])), every, 20_000, 1)
    met = [0, 2, 3, 5]  # 7 she met alike
    # Weights of scale .2 add to the spread of what she met more often, and to no other.
    assert (spread[met] > 1.005 * np.log(alone).std(axis=0)[met]).all()
    others = np.setdiff1d(every, met)
    assert np.allclose(relevance[:, others], alone[:, others])
    best = ranker.by_expectation(user(), 4, 2_000)[0].tolist()
    wanted = np.argsort(-relevance.mean(axis=0))[:4].tolist()
    # The third and fourth are alike, .481 and .480 with an error of .002; the fifth has .416.
    assert best[:2] == wanted[:2]
    assert set(best) == set(wanted)


def test_an_explanation_says_what_each_term_adds(
    dataset: SlateDataset, served: tuple[Recommender, DenseRanker]
) -> None:
    recommender, _ = served
    events = [as_event(recommender.model, showing) for showing in SHOWN]
    slate = recommender.recommend(events, 4, clicked="show", seed=2)
    assert slate.history.showings()[2].items == (7, 3)
    parts = recommender.ranker.mean_parts(slate.user, slate.numbers)
    for position, reason in enumerate(recommender.explain(slate, draws=20)):
        assert reason.adds == {name: values[position] for name, values in parts.items()}
    plain = Recommender(model_of(dataset, ()))
    assert list(plain.explain(plain.recommend([3], 1, seed=0), 20)[0].adds) == ["distance"]


def test_new_items_have_the_bias_of_their_group_and_no_popularity_yet(
    dataset: SlateDataset,
) -> None:
    model = model_of(dataset, ALL)
    recommender = Recommender(model)
    state = popularity_of(model).state_after(dataset)
    recommender.refresh(state, END)
    recommender.add_items([100, 101], ["b", "new"])
    mean, scale = model.posterior.prior.predictive(torch.tensor([1]))
    table, fresh = recommender.ranker.table, [ITEMS, ITEMS + 1]
    assert table.biases_of(fresh)[0] == pytest.approx(mean[0, 3].item())
    assert table.bias_scales_of(fresh)[0] == pytest.approx(scale[0, 3].item())
    assert table.bias_scales_of(fresh)[1] > 0
    assert not table.features_of(fresh).any()
    recommender.refresh(state, END + SECOND)
    assert table.features_of([0]).any()
    assert not table.features_of(fresh).any()
    assert set(recommender.recommend([], 14, seed=0).items) == {*range(ITEMS), 100, 101}


def test_a_table_of_a_run_keeps_what_biases_are_unsure_of(
    dataset: SlateDataset, tmp_path: Path
) -> None:
    model = model_of(dataset, ("bias",))
    every = np.arange(ITEMS)
    for table in (table_of(model), table_of(model, tmp_path / "table")):
        assert (table.biases_of(every) == model.item_biases).all()
        assert (table.bias_scales_of(every) == model.bias_scales).all()


def test_popularity_that_is_not_the_models_is_refused(dataset: SlateDataset) -> None:
    other = Popularity.fit(dataset, PopularityConfig(half_lives=(5.0,)))
    model = model_of(dataset, ALL)
    unsized = PopularityState.empty(popularity_of(model).popularity, ITEMS)
    for state in (PopularityState.empty(other, ITEMS), unsized):
        with pytest.raises(SlatewiseError, match="counted otherwise"):
            Recommender(model).refresh(state, END)
    with pytest.raises(SlatewiseError, match="nothing to refresh"):
        Recommender(model_of(dataset, ())).refresh(unsized, END)


def test_a_term_that_was_not_told_is_named_in_the_slate(dataset: SlateDataset) -> None:
    model = model_of(dataset, ALL)
    recommender = Recommender(model)
    (note,) = recommender.recommend([3], 5, seed=0).notes
    assert "popularity" in note
    recommender.refresh({"popularity": popularity_of(model).state_after(dataset)}, END)
    assert recommender.recommend([3], 5, seed=0).notes == []
    assert Recommender(model_of(dataset, ("history",))).recommend([3], 5, seed=0).notes == []


def test_a_ranker_without_the_terms_of_its_model_is_refused(dataset: SlateDataset) -> None:
    model = model_of(dataset, ("history",))
    with pytest.raises(SlatewiseError, match="ranks by history"):
        ExactRanker(model.posterior, table_of(model))


class Doubled(HistoryTerm):
    """The history once more, of the items with even numbers only."""

    def met(
        self, history: UserHistory, items: Int64Array | None = None
    ) -> tuple[Int64Array, Floats]:
        found, features = super().met(history, items)
        return (found, features) if items is not None else (found[::2], features[::2])


def test_several_terms_of_a_kind_add_up(dataset: SlateDataset) -> None:
    model = model_of(dataset, ALL)
    popularity, history = popularity_of(model), model.terms.by_name["history"]
    terms = FittedTerms(
        {
            "history": history,
            "popularity": popularity,
            "doubled": Doubled(sizes=(1.0, 2.0, 3.0)),
            "late": popularity.model_copy(update={"sizes": (1.0,) * len(popularity.sizes)}),
        }
    )
    seeded = np.random.default_rng(3)
    shared = {
        name: SimpleNamespace(
            mean=torch.from_numpy(seeded.normal(size=len(term.columns(model.config)))),
            scale=torch.ones(len(term.columns(model.config))),
        )
        for name, term in terms.by_name.items()
    }
    table = table_of(model)
    both = RankingTerms(
        SimpleNamespace(shared=shared, parts=model.posterior.parts, ranking=None, pool=None),
        terms,
        table,
    )  # type: ignore[arg-type]
    assert both.unknown == ["popularity", "late"]
    with pytest.raises(SlatewiseError, match="popularity, late"):
        both.features(popularity.state_after(dataset), END)
    late = terms.by_name["late"]
    states = {"popularity": popularity.state_after(dataset), "late": late.state_after(dataset)}
    table.set_features(both.features(states, END).of_all)
    every, past = np.arange(ITEMS), UserHistory.of_showings(SHOWN)
    parts = both.mean_parts(past, every)
    assert list(parts) == ["popularity", "late", "history", "doubled"]
    sizes = np.array(popularity.sizes)
    expected = (states["popularity"].features(END) * sizes) @ shared["late"].mean.numpy()
    assert parts["late"] == pytest.approx(expected, abs=1e-5)
    added = both.mean(past)
    total = table.features_of(every) @ np.asarray(added.weights)
    total[np.asarray(added.items)] += np.asarray(added.offsets)
    met = np.isin(every, Doubled(sizes=(1.0, 2.0, 3.0)).met(past)[0])
    wanted = parts["popularity"] + parts["late"] + parts["history"] + parts["doubled"] * met
    assert total == pytest.approx(wanted, abs=1e-5)
    assert not met.all()


def test_slates_that_were_seen_say_more_than_clicks(dataset: SlateDataset) -> None:
    recommender = Recommender(model_of(dataset, ("history",)))
    alone = recommender.recommend([3], ITEMS, strategy="greedy", clicked="show")
    seen = recommender.recommend(
        [Seen([1, 3, 4, 99], [3], "search")], ITEMS, strategy="greedy", clicked="show"
    )
    assert seen.unknown == [99]
    assert alone.items != seen.items
    without = Recommender(model_of(dataset, ()))
    assert without.recommend([3], 5, seed=1).items == (
        without.recommend([Seen([1, 3, 4], [3], "search")], 5, seed=1).items
    )
    with pytest.raises(SlatewiseError, match="clicked on a slate without it"):
        recommender.recommend([Seen([1, 4], [3], "search")], 5)
