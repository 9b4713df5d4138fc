"""New items of a model that was trained with features."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slatewise.errors import SlatewiseError
from slatewise.features.item_dates import MISSING
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.terms.network import NetworkTerm
from slatewise.service.serving import Replayer, Request, Service
from slatewise.service.serving import features as reading
from slatewise.service.serving.features import FeatureReader
from slatewise.service.serving.items import ItemLog
from slatewise.service.settings import ServiceConfig
from slatewise.service.store import Store, StoreError
from slatewise.service.store.features import Features
from slatewise.slates import Recommender
from slatewise.slates.catalogue import Catalogue
from slatewise.slates.exact import ExactRanker
from slatewise.slates.item_reader import ItemReader
from slatewise.slates.tables import table_of
from tests.contract.world import ITEMS, model_of, small_log
from tests.service.serving.test_items import Shop
from tests.service.serving.world import (
    COLD,
    GROUPS,
    TERMS,
    a_model,
    a_service,
    made,
    promote,
    put,
    visit,
)

TRAINED = ["a", "b", "c"]
MODEL = a_model(ids=TRAINED, described=True)


def reader_of(model: SlateModel) -> ItemReader:
    return ItemReader(model, ExactRanker(model.posterior, table_of(model), model.terms).terms)


READER = FeatureReader("1", reader_of(MODEL))
GREEDY = ServiceConfig.build({"arms": {"one": {"strategy": "greedy"}}}, "a test")


def after(changes: list[tuple[Any, ...]], cuts: list[int]) -> Catalogue:
    """Apply changes, divided at the cuts, for a model with features."""
    log, shop = ItemLog(), Shop(*changes)
    catalogue = catalogue_of(MODEL, log)
    for cut in [*sorted(cuts), len(changes)]:
        since = log.number
        log.read(shop, cut)
        told = log.changes(since, cut)
        wanted = told.features[catalogue.untrained(told.items)]
        catalogue.apply(told, READER.read(shop, wanted))
    return catalogue


def catalogue_of(model: SlateModel, log: ItemLog) -> Catalogue:
    table, new_items = table_of(model), reader_of(model)
    return Catalogue(table, TRAINED, model.group_names, new_items, log.items, shown=False)


def row_of(catalogue: Catalogue, item: str) -> list[float]:
    row = catalogue.known([item])[0]
    return [*catalogue.table.means_of(row)[0].tolist(), *catalogue.table.scales_of(row)[0].tolist()]


def expected(group: str, features: Features) -> list[float]:
    """Return what a recommender of the same model makes of an item."""
    recommender = Recommender(MODEL)
    columns = {name: [features.get(name)] for name in ("price", "brand")}
    recommender.add_items(["new"], [group], columns)
    number, table = recommender.items.numbers(["new"]), recommender.ranker.table
    return [*table.means_of(number)[0].tolist(), *table.scales_of(number)[0].tolist()]


DEAR: Features = {"price": 9, "brand": "birch"}
SILENT: Features = {}


def test_new_items_are_where_a_recommender_puts_them() -> None:
    catalogue = after(
        [
            ("x", "red", "shown", DEAR),
            ("y", "green", "shown"),
            ("z", "green", "shown", {"brand": "birch", "weight": "does not matter"}),
            ("w", "new", "shown", DEAR),
        ],
        [],
    )
    assert row_of(catalogue, "x") == expected("red", DEAR)
    assert row_of(catalogue, "y") == expected("green", SILENT)
    assert row_of(catalogue, "z") == expected("green", {"brand": "birch"})
    assert row_of(catalogue, "w") == expected("new", DEAR)
    assert len({tuple(row_of(catalogue, item)) for item in "xyzw"}) == 4


def test_other_features_move_a_new_item_and_not_one_that_training_knew() -> None:
    known = table_of(MODEL).means_of([1])
    catalogue = after(
        [("x", "red", "shown", DEAR), ("b", "red", "shown", DEAR), ("x", "red", "shown", SILENT)],
        [2],
    )
    assert row_of(catalogue, "x") == expected("red", SILENT)
    assert catalogue.known(["x", "b"])[0].tolist() == [4, 1]
    np.testing.assert_array_equal(catalogue.table.means_of([1]), known)
    assert catalogue.table.available.tolist() == [False, True, False, False, True]


some_features = st.sampled_from([DEAR, SILENT, {"price": 2.5}])
changes_of_items = st.lists(
    st.one_of(
        st.tuples(*(st.sampled_from(each) for each in ("axyz", GROUPS, ["shown", "hidden"]))),
        st.tuples(
            st.sampled_from("axyz"), st.sampled_from(GROUPS), st.just("shown"), some_features
        ),
    ),
    max_size=20,
)


@given(changes=changes_of_items, cuts=st.lists(st.integers(0, 20), max_size=4))
def test_rows_do_not_depend_on_how_changes_are_divided(
    changes: list[tuple[Any, ...]], cuts: list[int]
) -> None:
    one, other = after(changes, []), after(changes, [cut for cut in cuts if cut <= len(changes)])
    rows = np.arange(one.table.num_items)
    assert other.ids_of(rows) == one.ids_of(rows)
    np.testing.assert_array_equal(other.table.means_of(rows), one.table.means_of(rows))
    np.testing.assert_array_equal(other.table.scales_of(rows), one.table.scales_of(rows))
    np.testing.assert_array_equal(other.table.available, one.table.available)
    told: dict[str, Features] = {}
    for item, _, _, *features in changes:
        told[item] = features[0] if features else told.get(item, SILENT)
    for item, group in {item: group for item, group, *_ in changes}.items():
        if item not in TRAINED:
            assert row_of(one, item) == expected(group, told[item])


def test_to_a_model_without_features_they_are_no_change() -> None:
    model, log = a_model(ids=TRAINED), ItemLog()
    catalogue = catalogue_of(model, log)
    log.read(Shop(*[("x", "red", "shown", each) for each in (DEAR, SILENT, DEAR)]))
    catalogue.apply(log.changes(0, 3))
    assert catalogue.table.num_items == len(TRAINED) + 1


def test_only_features_of_items_that_training_did_not_know_are_read() -> None:
    log = ItemLog()
    catalogue = catalogue_of(MODEL, log)
    log.read(Shop(("a", "red", "shown", DEAR), ("x", "red", "shown", DEAR), ("y", "red", "shown")))
    assert catalogue.untrained(log.changes(0, 3).items).tolist() == [False, True, True]


def test_many_are_read_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(*[(f"i{number}", "red", "shown", {"price": number}) for number in range(7)])
    whole = READER.read(shop, np.arange(8))
    monkeypatch.setattr(reading, "_PAGE", 3)
    paged = READER.read(shop, np.arange(8))
    one, other = paged(np.arange(8)).prediction, whole(np.arange(8)).prediction
    assert one is not None
    assert other is not None
    np.testing.assert_array_equal(one.means, other.means)
    assert len(np.unique(one.of(np.array([0, 5])).means, axis=0)) == 2


def test_what_is_of_another_kind_is_refused_or_unknown_and_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    READER.refuse_misfits(DEAR | {"weight": [1, 2]})
    with pytest.raises(SlatewiseError, match="column 'price': 'dear' is no number"):
        READER.refuse_misfits({"price": "dear"})
    with caplog.at_level(logging.WARNING):
        catalogue = after([("x", "red", "shown", {"price": "dear", "brand": "birch"})], [])
    assert row_of(catalogue, "x") == expected("red", {"brand": "birch"})
    assert "1 features of items are of another kind" in caplog.text


def shown_first(service: Service) -> str:
    return str(service.recommend(Request(k=1))[1].items[0])


def test_features_are_in_effect_at_once(tmp_path: Path) -> None:
    """One new item of two is where everybody wants it to be, by its features alone."""
    model = a_model(("bias",), described=True)
    weights = model.posterior.shared["feature_weights"].mean
    weights.data[:, :] = 0.0
    weights.data[0, -1] = 30.0  # the bias grows by this with every standard deviation of price
    service = a_service(tmp_path, model, GREEDY)
    before = shown_first(service)
    put(service, "cheap", features={"price": 1})
    assert shown_first(service) == before
    put(service, "dear", features={"price": 90.0})
    assert shown_first(service) == "dear"
    put(service, "dear", features={"price": 1.0})
    assert shown_first(service) == before
    put(service, "cheap", features={"price": 91.0, "weight": 3})
    assert shown_first(service) == "cheap"


class Forgetful(Store):
    """A store that does not tell features when it is `down`."""

    down = False

    def item_features(self, *given: Any) -> dict[int, Features]:
        if self.down:
            raise StoreError("the store is down.", "Start it.")
        return super().item_features(*given)


def test_a_store_that_fails_meanwhile_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slatewise.service.serving.store_access._PAUSE", 0.0)
    a_service(tmp_path, a_model(described=True), GREEDY)
    store = Forgetful.open(GREEDY.store_url(tmp_path))
    assert isinstance(store, Forgetful)
    service = Service.open(tmp_path, GREEDY, store)
    store.down = True
    put(service, "new", features=DEAR)
    _, slate, notes = service.recommend(Request(k=100))
    assert "new" not in slate.items
    assert "new items may be missing" in notes[0]
    promote(tmp_path, a_model(described=True, seed=8))
    service.refresh()
    assert service.arms[0].version == "1"
    store.down = False
    service.refresh()
    assert service.arms[0].version == "2"
    _, slate, notes = service.recommend(Request(k=100))
    assert "new" in slate.items
    assert notes == [COLD]


def test_slates_can_be_made_again_whatever_features_were_told_since(
    tmp_path: Path, store: Store
) -> None:
    config = ServiceConfig.build({"models": {"main": {"model": {"evidence": ["search"]}}}}, "test")
    service = Service.open(made(tmp_path), config, store)
    put(service, *(f"a{number:02d}" for number in range(60)))
    promote(tmp_path, a_model(TERMS, ("search",), described=True))
    service.refresh()
    records = []
    for step in range(8):
        new = f"n{step % 4}"
        put(service, new, group=GROUPS[step % 2], features={"price": 7 * step, "brand": "ash"})
        visit(service, "ann", [f"a{step:02d}", new], [new])
        records.append(service.recommend(Request("ann", k=6, clicked="show"))[0])
        put(service, new, group=GROUPS[step % 2], features={"brand": "cedar", "price": None})
        if step == 5:
            promote(tmp_path, a_model(TERMS, ("search",), seed=50))
            service.refresh()
    store.write(records, [])
    replayer = Replayer(tmp_path, config, store)
    for record in [*records, *records[::-3]]:
        logged = store.slate(record.slate_id)
        assert logged is not None
        assert tuple(replayer.slate(logged).items) == record.items
    assert any(item.startswith("n") for record in records for item in record.items)


def test_a_network_knows_what_the_shop_says_of_a_new_item(tmp_path: Path) -> None:
    config = ModelConfig(terms=("network",), network_units=4, network_members=1, dimensions=2)
    dataset = small_log(tmp_path)
    service = a_service(tmp_path / "service", model_of(config, dataset), GREEDY)
    told = {"price": 9, "brand": "b2", "made": "2023-11-14T22:13:20Z", "weight": "no matter"}
    put(service, "new", group="b", features=told)
    put(service, "silent", group="c")
    put(service, "new", group="b", features={"price": 1.5, "brand": "b1"})
    live = service.live("main")
    network = live.ranker.terms._in_lists["network"]
    assert isinstance(network, NetworkTerm)
    assert live.catalogue.known(["new", "silent"])[0].tolist() == [ITEMS + 2, ITEMS + 1]
    assert network._later["item_groups"].tolist() == [1, 2, 1]
    assert network._later["item_dates"].tolist() == [[1_700_000_000_000_000], [MISSING], [MISSING]]
    columns, brands = network._later["item_columns"], [f"brand = b{n}" for n in range(3)]
    assert network.encoder is not None
    at = [network.encoder.names.index(name) for name in brands]
    assert columns[:, at].argmax(1).tolist()[::2] == [2, 1]
    assert torch.equal(columns[1], network._tensors["item_columns"][-1])
    assert columns[0, 0] > columns[2, 0] > columns[1, 0]  # by price; the mean is about 0
    for wrong in ({"made": "soon"}, {"price": "dear"}):
        with pytest.raises(SlatewiseError, match=f"column '{next(iter(wrong))}'"):
            live.refuse_misfits(wrong)


def test_other_features_of_an_item_of_training_are_told_not_to_count_yet(tmp_path: Path) -> None:
    config = ModelConfig(terms=("network",), network_units=4, network_members=1, dimensions=2)
    dataset = small_log(tmp_path)
    service = a_service(tmp_path / "service", model_of(config, dataset), GREEDY)
    (row, other) = dataset.items.head(2).rows(named=True)
    same = {name: value for name, value in row.items() if name not in ("item_id", "group")}
    item, second = row["item_id"], other["item_id"]
    assert service.outdated({item: same, "new": {"price": 99}}) == []
    assert service.outdated({item: same | {"nobody reads": 1}}) == []
    later = "these count from the next night on"
    for changed in ({"price": 99}, {"brand": "b9"}, {"made": 1_600_000_000}):
        told = service.outdated({item: same | changed})
        assert told == [f"model 'main' was trained with other features of '{item}': {later}"]
    (both,) = service.outdated({item: {"price": 99}, second: {"price": 99}})
    assert both == f"model 'main' was trained with other features of '{item}' and 1 more: {later}"
    service.store.close()
