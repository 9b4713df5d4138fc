"""Slates in two stages: what ranks all items finds candidates, and what sees slates ranks these."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slatewise import ModelConfig, Recommender
from slatewise.data import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.evaluation.model import ModelRecommender
from slatewise.features.popularity_state import CountedEvents
from slatewise.model.network import fitting
from slatewise.model.ranking_weights import RankingWeights
from slatewise.model.terms import FittedTerms
from slatewise.model.terms.network import NetworkTerm, _fitted
from slatewise.service.serving import Request
from slatewise.service.serving.replayer import Replayer
from slatewise.service.settings import ServiceConfig
from slatewise.service.store import Store
from slatewise.service.store.records import Outcome, SlateRecord
from slatewise.slates.additions import TermWeights
from slatewise.slates.logs import refresh_from
from slatewise.slates.strategies import STRATEGIES
from slatewise.slates.users import Seen
from slatewise.training import runs
from tests.contract.world import END, ITEMS, SECOND, SOURCES, model_of, posterior_of, small_log
from tests.service.serving.world import a_service, made


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


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sources of the slates that the network was asked about since it was last emptied."""
    found: list[int] = []
    in_list = NetworkTerm.in_list

    def recorded(self: NetworkTerm, history: Any, items: Any, source: int, *more: Any) -> Any:
        found.append(source)
        return in_list(self, history, items, source, *more)

    monkeypatch.setattr(NetworkTerm, "in_list", recorded)
    return found


def sources(asked: list[int]) -> set[int]:
    """Return what was asked about, and forget it."""
    found = set(asked)
    asked.clear()
    return found


def test_slates_are_made_for_their_source_and_else_for_the_most_frequent(
    recommender: Recommender, asked: list[int], tmp_path: Path
) -> None:
    dataset = small_log(tmp_path)
    assert recommender.model.terms.usual_source == 1
    for strategy in STRATEGIES:
        slate = recommender.recommend([], 3, strategy=strategy, seed=1)
        recommender.explain(slate, draws=2)
        recommender.propensities(slate, draws=2)
        assert sources(asked) <= {1}, strategy  # at random, nothing is asked
        slate = recommender.recommend([], 3, strategy=strategy, source=SOURCES[0], seed=1)
        recommender.explain(slate, draws=2)
        recommender.propensities(slate, draws=2)
        assert sources(asked) <= {0}, strategy
    recommender.rank(recommender.items.ids[:3])
    assert sources(asked) == {1}
    recommender.rank(recommender.items.ids[:3], source=SOURCES[0])
    assert sources(asked) == {0}
    for make in (
        lambda: recommender.recommend([], 3, source="mail"),
        lambda: recommender.rank(recommender.items.ids, source="mail"),
    ):
        with pytest.raises(SlatewiseError, match=r"from 'mail'.\nChoose from .*search, or leave"):
            make()
    judged = ModelRecommender(recommender.model, log=dataset).for_slates_of(ITEMS)
    log = dataset.interactions()
    first = log.sources == 0
    for scored, only in ((first, {0}), (~first, {1})):
        judged.target_ranks(log, scored)
        assert sources(asked) == only
    judged.rank(log, 3)
    assert sources(asked) == {1}


def test_a_log_tells_the_usual_source_and_a_run_keeps_it(tmp_path: Path) -> None:
    dataset = small_log(tmp_path)
    assert FittedTerms.fit(ModelConfig(), dataset).usual_source == int(
        np.bincount(dataset.sources[_training(dataset)]).argmax()
    )
    model = model_of(ModelConfig(dimensions=2), dataset)
    runs.save(model, tmp_path / "run")
    assert runs.load(tmp_path / "run").terms.usual_source == 1


def _training(dataset: SlateDataset) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Mark the training interactions that begin a slate."""
    lengths = np.diff(dataset.user_offsets)
    step = np.arange(lengths.sum()) - np.repeat(dataset.user_offsets[:-1], lengths)
    begins = np.asarray(dataset.further_clicks) == 0
    return np.asarray((step < np.repeat(dataset.train_end, lengths)) & begins)


def test_the_service_makes_slates_for_the_source_of_a_request(
    recommender: Recommender, asked: list[int], tmp_path: Path
) -> None:
    config = ServiceConfig.build(
        {"source": SOURCES[0], "arms": {"one": {"strategy": "greedy"}}}, "a test"
    )
    store = Store.open(config.store_url(made(tmp_path / "shop")))
    shown = SlateRecord("s", "u", END, SOURCES[0], tuple(map(str, recommender.items.ids)))
    store.write([shown], [Outcome("s", ITEMS, (), END)])
    store.close()
    service = a_service(tmp_path / "shop", recommender.model, config)
    live = service._live["main"]
    live.refresh(service.store, END)
    replayer = Replayer(tmp_path / "shop", config, service.store)
    for source, number in ((None, 0), (SOURCES[1], 1)):
        record, slate, notes = service.recommend(Request("u", k=5, source=source))
        assert sources(asked) == {number}
        assert not notes
        assert replayer.slate(record).items == slate.items
        assert sources(asked) == {number}
    record, _, notes = service.recommend(Request("u", k=5, source="mail"))
    assert notes == [
        "the model has seen no slates from 'mail': made as for 'search' until a night learns them"
    ]
    assert record.source == "mail"
    assert sources(asked) == {1}
    service.rank(Request("u", allow=shown.items[:3]))
    assert sources(asked) == {0}
    _, ranked, _ = service.rank(Request("u", allow=shown.items[:3], source="mail"))
    assert ranked.notes == notes
    assert sources(asked) == {1}
    service.store.close()


def test_clicks_without_a_time_count_as_made_just_now(
    recommender: Recommender, tmp_path: Path
) -> None:
    dataset, terms = small_log(tmp_path), recommender.model.terms.with_state
    recommender.refresh({name: term.state_after(dataset) for name, term in terms.items()}, END)
    ids = recommender.items.ids
    day, minute = 86_400 * SECOND, 60 * SECOND
    past = [Seen(ids[:4], ids[:1], SOURCES[0], END - day)]
    now, old = (Seen([ids[5]], [ids[5]], SOURCES[1], time) for time in (END - 1, END - 9 * day))
    late = Seen(ids[:2], [], SOURCES[0], END - minute)
    for clicks, timed in (
        ([ids[5]], [now]),
        ([*past, ids[5]], [*past, now]),
        ([*past, ids[5], late], [*past, replace(now, time=END - minute), late]),
    ):
        found, wanted = (recommender.rank(ids, one).utilities for one in (clicks, timed))
        assert found == pytest.approx(wanted, abs=1e-6)
    assert np.abs(found - recommender.rank(ids, [old]).utilities).max() > 1e-4
