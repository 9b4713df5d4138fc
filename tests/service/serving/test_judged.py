"""What `evaluate` says of a model is how its slates do: asked of the live service at each click."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slatewise.data import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.evaluation import ModelRecommender, evaluate, scored_interactions
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.terms.network import NetworkTerm
from slatewise.service.serving import Replayer, Request
from slatewise.service.settings import ServiceConfig
from slatewise.service.store.clock import Clock
from slatewise.service.store.records import Outcome, SlateRecord
from slatewise.simulation import load_config, write_log
from slatewise.slates import Greedy, Recommender
from slatewise.slates.explanation import explain
from slatewise.slates.propensities import propensities
from tests.contract.world import END, ITEMS, Doubles, model_of, small_log
from tests.service.serving.world import a_service, visit

K, MINUTE = 5, 60_000_000
GREEDY = ServiceConfig.build({"arms": {"one": {"strategy": "greedy"}}}, "the test")


def test_recall_in_a_log_of_news_is_that_of_the_slates_which_the_service_makes(
    tmp_path: Path,
) -> None:
    small = {"items": 120, "groups": 4, "exposure_skew": 0.5}
    write_log(load_config("news", users=8, catalogue=small), tmp_path / "log")
    split = SplitConfig(valid_share=0.2, test_share=0.5)
    dataset = prepare(tmp_path / "log", tmp_path / "log", tmp_path / "set", division=split)
    terms = ModelConfig(dimensions=3, terms=("popularity", "history"), half_lives=(2.0, 24.0))
    model = model_of(terms, dataset)
    judged = evaluate(ModelRecommender(model, log=dataset), dataset, k=K, resamples=10)
    found = judged[f"recall@{K}"].value
    assert found == np.mean(served_hits(model, dataset, tmp_path / "shop"))
    plain = model_of(terms.changed(terms=()), dataset)
    by_vectors = evaluate(ModelRecommender(plain), dataset, k=K, resamples=10)
    assert found != by_vectors[f"recall@{K}"].value


def test_a_slate_is_made_as_of_its_request_and_not_of_the_last_refresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a minute a session ends, or the next click follows; popularity stays meanwhile."""
    config = ModelConfig(terms=("network",), network_units=4, network_members=1, dimensions=2)
    service = a_service(tmp_path / "shop", model_of(config, small_log(tmp_path)), GREEDY)
    live, times, read = service.live(), list[int](), NetworkTerm.in_list
    live.refresh(service.store, END)

    def noted(term: NetworkTerm, *asked: Any) -> object:
        times.append(asked[3].time)
        return read(term, *asked)

    monkeypatch.setattr(NetworkTerm, "in_list", noted)
    service.clock = Clock(wall=lambda: END + 40_000_000)
    record, slate, _ = service.recommend(Request("ann", k=K))
    service.rank(Request("ann", allow=record.items))
    propensities(live.ranker, Greedy(), slate, 2, 0)
    explain(live.ranker, live.catalogue, slate, 2)
    live.ranker.slate_parts(slate.user, slate.numbers)
    service.store.write([record], [])
    Replayer(tmp_path / "shop", GREEDY, service.store).slate(record)
    assert len(times) > 6
    assert {time - END for time in times} <= {40_000_000, 40_000_001}
    service.store.close()


def test_a_list_is_ranked_for_its_source_where_nothing_is_ranked_again(tmp_path: Path) -> None:
    settings = {"network_units": 4, "network_members": 1, "network_candidates": 0}
    config = ModelConfig.build({"terms": ("network",), "dimensions": 2} | settings, "the test")
    model = model_of(config, small_log(tmp_path))
    service, library = a_service(tmp_path / "shop", model, GREEDY), Recommender(model)
    service.live().refresh(service.store, END)
    service.clock = Clock(wall=lambda: END)
    library.refresh(model.terms.by_name["network"].item_state(ITEMS), END)
    ids = tuple(str(item) for item in model.item_ids[:9])
    found = []
    for source in model.source_names:
        ranked = service.rank(Request("ann", allow=ids, k=9, source=source))[1]
        wanted = library.rank(model.item_ids[:9], source=source)
        np.testing.assert_allclose(ranked.utilities, wanted.utilities, atol=1e-5)
        found.append(ranked.utilities)
    assert np.abs(found[0] - found[1]).max() > 1e-3
    service.store.close()


def test_slates_of_a_new_source_count_as_of_the_usual_one_as_nights_take_them(
    tmp_path: Path,
) -> None:
    config = ModelConfig(terms=("network",), network_units=4, network_members=1, dimensions=2)
    model = model_of(config, small_log(tmp_path))
    service, ids = a_service(tmp_path / "shop", model, GREEDY), model.item_ids[:9]
    usual = model.source_names[model.terms.usual_source]
    (other,) = set(model.source_names) - {usual}
    for source in ("mail", usual, other):
        visit(service, f"from {source}", ["i1", "i2", "i3"], ["i2"], source, END)
    service.live().refresh(service.store, END)
    service.clock = Clock(wall=lambda: END)

    def utilities(user: str) -> Doubles:
        asked = Request(user, allow=tuple(map(str, ids)), k=9, source=other)
        ranked = service.rank(asked)[1]
        return ranked.utilities[np.argsort(ranked.items)]

    mail, as_usual, elsewhere = (utilities(f"from {one}") for one in ("mail", usual, other))
    np.testing.assert_array_equal(mail, as_usual)
    assert np.abs(mail - elsewhere).max() > 1e-4
    service.store.close()


def served_hits(model: SlateModel, dataset: SlateDataset, shop: Path) -> list[bool]:
    """Tell of each test click whether the slate that was served just before had its item."""
    return [rank is not None for rank in served_ranks(model, dataset, shop)]


def served_ranks(model: SlateModel, dataset: SlateDataset, shop: Path) -> list[int | None]:
    """Tell at which rank the slate that was served just before each test click had its item."""
    service, log = a_service(shop, model, GREEDY), dataset.interactions()
    live, ids = service.live(), [str(item) for item in model.item_ids]
    users = torch.repeat_interleave(log.user_offsets.diff()).tolist()
    asked = (scored_interactions(dataset, "test") & (log.clicks >= 0)).tolist()
    ranks, news, now = [], [], [0]
    service.clock = Clock(wall=lambda: now[0], steady=lambda: now[0])
    for row in torch.argsort(log.times, stable=True).tolist():
        user, time = f"u{users[row]}", int(log.times[row])
        cells = slice(int(log.slate_offsets[row]), int(log.slate_offsets[row + 1]))
        items = tuple(ids[item] for item in log.slate_items[cells].tolist())
        clicked = (items[log.clicks[row]],) if log.clicks[row] >= 0 else ()
        if asked[row]:
            service.store.write([slate for slate, _ in news], [outcome for _, outcome in news])
            service.changed_users({str(slate.user_id) for slate, _ in news})
            live.refresh(service.store, time // MINUTE * MINUTE)  # as the service does, each tick
            now[0] = time
            served, news = service.recommend(Request(user, k=K, clicked="show"))[1].items, []
            ranks.append(1 + served.index(clicked[0]) if clicked[0] in served else None)
        source = model.source_names[int(log.sources[row])]
        slate = SlateRecord(f"s{row}", user, time, source, items)
        news.append((slate, Outcome(slate.slate_id, len(items), clicked, time)))
    service.store.close()
    return ranks
