"""The network that ranks all items, as a term: weights of its own, and none within slates."""

from pathlib import Path

import numpy as np
import pytest
import torch

from slatewise import ModelConfig, Recommender, TrainingConfig, fit
from slatewise.data import SlateDataset
from slatewise.features.popularity import AGE, SECOND
from slatewise.model.terms.item_network import ItemNetworkTerm
from slatewise.model.terms.popularity import PopularityTerm
from slatewise.selection.candidates import candidates_of, first_stage_of
from slatewise.slates.logs import refresh_from
from slatewise.slates.term_weights import TermWeights
from slatewise.training import load, save
from tests.contract.world import END, ITEMS, small_log
from tests.service.serving.world import a_service, put

NAMES = ("history", "item_network", "popularity")
QUICK = TrainingConfig(max_epochs=2)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    return small_log(tmp_path_factory.mktemp("item_network"))


@pytest.fixture(scope="module")
def term(dataset: SlateDataset) -> ItemNetworkTerm:
    return ItemNetworkTerm.fit(ModelConfig(item_network_units=4), dataset)


@pytest.mark.parametrize("ranking", ["slate", "next-click"])
def test_it_ranks_all_items_and_says_nothing_within_slates(
    ranking: str, dataset: SlateDataset
) -> None:
    config = {"ranking": ranking, "dimensions": 2, "item_network_units": 4, "terms": NAMES}
    model = fit(dataset, ModelConfig.build(config, "the test"), QUICK)
    posterior = model.posterior
    read = (TermWeights.in_slates, TermWeights.in_made_slates, TermWeights.of_rankings)
    in_slates, again, ranked = (one(posterior, NAMES) for one in read)
    for silent in (in_slates, again):
        assert not silent.means["item_network"].any()
        assert np.abs(silent.draws(8, np.random.default_rng(0))["item_network"]).max() < 1e-4
    assert ranked.means["item_network"].all()
    assert ranked.draws(8, np.random.default_rng(0))["item_network"].std(0).min() > 1e-3
    # Others have the weights that they have without it wherever it says nothing.
    for name in ("history", "popularity"):
        if ranking == "slate":
            assert (again.means[name] == in_slates.means[name]).all()
            assert (ranked.means[name] == in_slates.means[name]).all()
        else:
            assert (ranked.means[name] != again.means[name]).all()
            assert (again.means[name] != in_slates.means[name]).all()


def test_it_reads_dates_as_ages_at_the_time_of_a_ranking(
    dataset: SlateDataset, term: ItemNetworkTerm
) -> None:
    assert "It reads 'made' as the age of an item." in term.notes
    assert "made" in term.reads_items
    made = dataset.items["made"].to_numpy() * SECOND
    item = int(np.argmin(made))
    rows = np.full(3, item)
    # Before its date, an hour after it, and long after; of the same popularity.
    times = made[item] + 3_600 * SECOND * np.array([-5, 1, 999])
    known = np.ones((3, len(term.popularity.names)), np.float32)
    _, two, three = term.of_rows(known, rows, times)
    assert np.abs(two - three).max() > 1e-4
    tick = round(term.refresh * SECOND)  # ages are those of the last refresh
    hours = (times[1] // tick * tick - made[item]) / (3_600 * SECOND)
    known[:, term.popularity.names.index(AGE)] = np.log1p(hours)
    one, two, _ = term.of_rows(known, rows, times)
    np.testing.assert_allclose(one, two, atol=1e-5)  # not known then: first seen an hour ago


def test_a_saved_model_ranks_by_the_same_network(dataset: SlateDataset, tmp_path: Path) -> None:
    config = ModelConfig(terms=("item_network",), dimensions=2, item_network_units=4)
    model = fit(dataset, config, QUICK)
    save(model, tmp_path / "run")
    again = load(tmp_path / "run")
    rankings = [model.posterior.ranking, again.posterior.ranking]
    assert rankings[0] is not None
    assert rankings[1] is not None
    assert torch.equal(rankings[0].mean, rankings[1].mean)
    assert rankings[1].again is not None
    found = []
    for one in (model, again):
        recommender = Recommender(one)
        refresh_from(recommender, dataset)
        found.append(recommender.ranker.table.features_of(np.arange(ITEMS)))
        # Items that come later have what their group says, as soon as they are there.
        recommender.add_items(["new", "of a new group"], ["a", "c"])
        later = recommender.ranker.table.features_of([ITEMS, ITEMS + 1])
        assert later.any(axis=1).all()
        assert (later[0] != later[1]).any()
    np.testing.assert_array_equal(*found)


def test_what_it_says_at_a_time_is_what_a_state_says_then(
    dataset: SlateDataset, term: ItemNetworkTerm
) -> None:
    every, state = np.arange(ITEMS), term.state_after(dataset)
    then = np.full(ITEMS, END)
    there = term.of_rows(state.features(END)[:ITEMS], every, then)
    np.testing.assert_allclose(there, term.at_times(dataset)(every, then), atol=1e-5)


def test_it_is_for_logs_with_hours_many_interactions_and_items_that_come_and_go(
    dataset: SlateDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ItemNetworkTerm.obstacle(dataset) == "268 training interactions, 2,000 needed"
    with monkeypatch.context() as only_an_order:
        only_an_order.setitem(dataset.meta, "clock_times", False)
        for term in (ItemNetworkTerm, PopularityTerm):  # items "stay" where there are no hours
            assert term.default_obstacle(dataset) == "the times of the log are only an order"
    monkeypatch.setattr("slatewise.model.terms.item_network.LEAST", 100)
    assert ItemNetworkTerm.obstacle(dataset) is None
    assert ItemNetworkTerm.default_obstacle(dataset) == "items stay on offer"
    # `--auto` does not judge it by slates, of which it says nothing.
    tried, _ = candidates_of(ModelConfig(), dataset)
    assert "item_network" not in tried
    assert first_stage_of(ModelConfig(), dataset) == ([], {"item_network": "items stay on offer"})
    monkeypatch.setattr("slatewise.model.terms.item_network.items_stay", lambda dataset: False)
    assert first_stage_of(ModelConfig(), dataset) == (["item_network"], {})


def test_what_the_shop_says_of_a_later_item_counts(
    term: ItemNetworkTerm, dataset: SlateDataset
) -> None:
    rest, group = np.arange(ITEMS - 1), dataset.item_groups[-1:]
    term = term.on_items(np.arange(ITEMS), dataset.item_groups)
    weight = term._tensors["net.of_item.weight"]  # its few epochs taught it nothing of columns
    seeded = torch.Generator().manual_seed(3)
    term._tensors["net.of_item.weight"] = torch.randn(weight.shape, generator=seeded)
    term._network = None
    less = term.on_items(rest, dataset.item_groups[:-1])
    (row,) = dataset.items.tail(1).rows(named=True)
    known, last = np.ones((1, len(term.popularity.names)), np.float32), np.array([ITEMS - 1])
    then = np.array([END])
    wanted = term.of_rows(known, last, then)
    told = less.with_items(group, less.facts_of([row])[0])
    np.testing.assert_allclose(told.of_rows(known, last, then), wanted, atol=1e-5)
    silent = less.with_items(group, {})
    assert np.abs(silent.of_rows(known, last, then) - wanted).max() > 1e-3


def test_an_item_of_training_keeps_its_group_as_a_night_judges_it(
    dataset: SlateDataset, tmp_path: Path
) -> None:
    config = ModelConfig(terms=("item_network",), dimensions=2, item_network_units=4)
    model = fit(dataset, config, QUICK)
    groups = model.terms.by_name["item_network"].arrays["net.of_group.weight"]
    groups[:] = np.arange(groups.size).reshape(groups.shape)  # its few epochs taught it none
    service = a_service(tmp_path / "shop", model)
    live, every = service.live(), np.arange(ITEMS)
    live.refresh(service.store, END)
    before = live.ranker.table.features_of(every)
    put(service, str(dataset.item_ids[0]), group="b")
    assert service.live() is live
    live.refresh(service.store, END)
    assert live.catalogue.groups_of(every[:1]) == ["b"]
    np.testing.assert_array_equal(live.ranker.table.features_of(every), before)
    service.store.close()
