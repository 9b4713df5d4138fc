"""Nights of a model that was trained with features of items."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from slatewise.features.item_features import ItemEncoder
from slatewise.features.past import PastFeatures
from slatewise.model.fitted import SlateModel
from slatewise.model.item_features import ItemFeatures
from slatewise.model.network import fitting
from slatewise.model.terms import FittedTerms
from slatewise.model.terms import network as network_term
from slatewise.model.terms.network import NetworkTerm
from slatewise.selection import Selection
from slatewise.service.http.startup import begin_with
from slatewise.service.logs import load_dataset
from slatewise.service.nights import recipe, retrain
from slatewise.service.nights.item_features import described_dataset, window_features
from slatewise.service.nights.versions import transfer
from slatewise.service.nights.window import NightData
from slatewise.service.serving.models import Models
from slatewise.service.settings import ServiceConfig
from slatewise.service.store import Store
from slatewise.service.store.records import Item, ItemState
from slatewise.training import TrainingConfig, fit, save
from tests.contract.world import small_log
from tests.service.nights.test_recipe import choosing
from tests.service.nights.world import (
    DAY,
    ITEMS,
    START,
    Shelf,
    fill,
    night,
    settings,
    visits,
)

VISITS = visits(users=60)
KINDS = {"price": "number", "brand": "category"}


def night_data(folder: Path, shelf: Shelf | Store) -> NightData:
    folder.mkdir()
    return NightData(folder, shelf, START + 2 * DAY, 28, lambda *progress: None)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> SlateModel:
    """A model of two days that knows a price and a brand of every item."""
    dataset = night_data(tmp_path_factory.mktemp("first") / "log", Shelf(VISITS)).dataset
    count = dataset.num_items
    table = pl.DataFrame(
        {"price": np.arange(count, dtype=float), "brand": [f"b{n % 3}" for n in range(count)]}
    )
    encoder = ItemEncoder.fit(table, KINDS)  # type: ignore[arg-type]
    features = ItemFeatures(torch.from_numpy(encoder.encode(table)), encoder)
    training = TrainingConfig(max_epochs=3, batch_users=20)
    return fit(dataset, settings().models["main"].model, training, item_features=features)


def encoded(model: SlateModel, price: float | None, brand: str | None) -> list[float]:
    assert model.item_encoder is not None
    schema = {"price": pl.Float64, "brand": pl.String}
    table = pl.DataFrame({"price": [price], "brand": [brand]}, schema=schema)
    return model.item_encoder.encode(table)[0].tolist()  # type: ignore[no-any-return]


def row(model: SlateModel, item: str) -> list[float]:
    assert model.posterior.item_features is not None
    return model.posterior.item_features[model.number_of(item)].tolist()  # type: ignore[no-any-return]


def test_items_have_the_features_that_were_told_or_that_the_model_has_or_unknown_ones(
    first: SlateModel, tmp_path: Path
) -> None:
    chair, lamp, stove, *others = ITEMS
    shop = [
        replace(chair, described=4),
        replace(lamp, described=5),
        replace(stove, described=7),
        Item("new", "lamps", described=6),
        Item("silent", "lamps"),
        *others,
    ]
    told = {4: {"price": 99, "brand": "b1", "size": 3}, 5: {}, 6: {"brand": "b9"}}
    told[7] = {"price": "dear", "brand": "b2"}
    window = night_data(tmp_path / "log", Shelf(VISITS, shop, told))
    found = window_features(first, window)
    assert found.prior is not None
    rows = dict(zip(window.dataset.item_ids, found.prior.matrix.tolist(), strict=True))
    assert rows[chair.item_id] == encoded(first, 99, "b1")
    assert rows[lamp.item_id] == encoded(first, None, None)
    assert rows[stove.item_id] == encoded(first, None, "b2")
    assert rows["new"] == encoded(first, None, "b9")
    assert rows["silent"] == encoded(first, None, None)
    for item in others:
        assert rows[item.item_id] == row(first, item.item_id)
    assert found.misfits == 1
    # Judged is what would be served: the new item is where group and features say.
    transferred = transfer(first, window.dataset, found)
    group = torch.tensor([first.group_names.index("lamps")])
    expected, _ = first.posterior.prior.predictive(group, torch.tensor([rows["new"]]))
    at = transferred.number_of("new")
    assert transferred.item_vectors[at] == pytest.approx(expected[0].detach().numpy(), rel=1e-5)


def test_the_shop_is_asked_for_its_features_once_a_night(
    first: SlateModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = [replace(item, described=n) for n, item in enumerate(ITEMS, start=1)]
    shelf = Shelf(VISITS, shop, {item.described: {"price": 1.0} for item in shop})
    asked: list[int] = []
    read = shelf.item_features
    monkeypatch.setattr(shelf, "item_features", lambda some: asked.extend(some) or read(some))
    window = night_data(tmp_path / "log", shelf)
    described_dataset(first, window)
    for _ in range(2):
        assert len(window_features(first, window).described) == len(ITEMS)
    assert sorted(asked) == [item.described for item in shop]


def test_a_model_without_features_has_none(tmp_path: Path, first: SlateModel) -> None:
    plain = transfer(first, night_data(tmp_path / "log", Shelf(VISITS)).dataset)
    found = window_features(plain, night_data(tmp_path / "again", Shelf(VISITS)))
    assert found.prior is None
    assert not len(found.described)


def begun(directory: Path, first: SlateModel) -> Store:
    """Begin a service with the model, and tell it of some items."""
    directory.mkdir(parents=True)
    store = Store.open(settings().store_url(directory))
    save(first, directory / "run")
    begin_with(directory / "run", directory, settings(), store)
    fill(store, VISITS)
    fresh = {"price": 4, "brand": "b2"}
    store.put_items([("new", "lamps", ItemState.SHOWN, fresh), ("new2", "lamps", ItemState.SHOWN)])
    store.put_items([(ITEMS[0].item_id, ITEMS[0].group, ItemState.SHOWN, fresh)])
    return store


def loaded(directory: Path) -> SlateModel:
    found = Models.of(directory, "main").load()
    assert found is not None
    return found.model


def test_features_go_on_from_night_to_night(first: SlateModel, tmp_path: Path) -> None:
    directory = tmp_path / "service"
    store, always = begun(directory, first), settings(promote="always")
    one = night(directory, store, 3, always)
    assert (one.outcome, one.started_from, one.notes) == ("promoted", "1", [])
    assert one.fits["name"] == "slate-linear-hier+features"
    model = loaded(directory)
    assert model.item_encoder == first.item_encoder
    assert row(model, "new") == row(model, ITEMS[0].item_id) == encoded(first, 4, "b2")
    assert row(model, "new2") == encoded(first, None, None)
    assert row(model, ITEMS[1].item_id) == row(first, ITEMS[1].item_id)
    weights = [one.posterior.shared["feature_weights"].mean for one in (first, model)]
    assert 0 < (weights[1] - weights[0]).abs().max() < 1  # learned on
    # Nobody has seen the new item: it is where what was learned now says.
    group = torch.tensor([model.group_names.index("lamps")])
    expected, _ = model.posterior.prior.predictive(group, torch.tensor([row(model, "new")]))
    at = model.number_of("new")
    assert model.item_vectors[at] == pytest.approx(expected[0].detach().numpy(), rel=1e-5)
    store.put_items([("new", "lamps", ItemState.SHOWN, {"price": "dear"})])
    two = night(directory, store, 4, always, fresh=True)
    assert (two.outcome, two.started_from) == ("promoted", None)
    assert two.notes == [
        "1 features of items are of another kind than in training: they count as unknown."
    ]
    assert loaded(directory).item_encoder == first.item_encoder
    assert row(loaded(directory), "new") == encoded(first, None, None)
    assert row(loaded(directory), ITEMS[1].item_id) == row(first, ITEMS[1].item_id)
    store.close()


def test_a_service_that_chooses_terms_has_features_only_if_they_are_chosen(
    first: SlateModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def choose(dataset: object, model: Any, **more: Any) -> Selection:
        asked.append(more["item_features"])
        return Selection(model, [], [], {}, [], {}, described=len(asked) == 1)

    monkeypatch.setattr(recipe, "select", choose)
    directory = tmp_path / "service"
    store = begun(directory, first)
    chosen = night(directory, store, 3, choosing())
    assert chosen.notes == ["Terms were chosen: slate-linear-hier+features."]
    assert loaded(directory).item_encoder == asked[0].encoder == first.item_encoder
    assert night(directory, store, 3.5, choosing()).fits["name"] == "slate-linear-hier+features"
    without = night(directory, store, 4, choosing(), fresh=True)
    assert without.notes[0] == "Features of items were not chosen: the model goes on without them."
    assert len(asked) == 2
    assert loaded(directory).item_encoder is None
    store.close()


def test_the_log_of_a_night_has_all_columns_of_items_that_are_known(
    first: SlateModel, tmp_path: Path
) -> None:
    chair, lamp, stove, *others = ITEMS
    shop = [
        replace(chair, described=4),
        replace(lamp, described=5),
        replace(stove, described=6),
        Item("new", "lamps", described=7),
        *others,
    ]
    told: dict[int, dict[str, Any]] = {
        4: {"price": 99, "made": "2024-01-01T06:00:00Z", "colour": "red", "image": [1, 2]},
        5: {"price": "dear", "made": "soon", "colour": True, "image": [1], "tags": ["a"]},
        6: {},
        7: {"brand": "b9", "made": 1_704_067_200, "image": [3.5, "x"], "tags": ["a", 7]},
    }
    data = night_data(tmp_path / "log", Shelf(VISITS, shop, told))
    count = len(first.item_ids)
    table = pl.DataFrame(
        {"price": np.arange(count, dtype=float), "brand": [f"b{n % 3}" for n in range(count)]}
    )
    encoder = ItemEncoder.fit(table, KINDS)  # type: ignore[arg-type]
    network = NetworkTerm(
        past=PastFeatures(popularity=None, rates=(0.5,), rate=0.5),
        can_pass=True,
        groups=3,
        units=2,
        validation=(0.0, 0.0),
        encoder=encoder,
        dates=("made",),
    )
    values = torch.from_numpy(encoder.encode(table))
    network._tensors.update(
        item_columns=torch.cat([values, values.mean(0, keepdim=True)]),
        item_dates=torch.full((1, count), START),
        item_groups=torch.zeros(count, dtype=torch.int32),
    )
    served = replace(first, terms=FittedTerms({"network": network}))
    found = described_dataset(served, data).items
    rows = {row["item_id"]: row for row in found.rows(named=True)}
    day = datetime(2024, 1, 1)
    assert rows[chair.item_id] | {"item_id": 0, "group": 0} == {
        "item_id": 0,
        "group": 0,
        "price": 99.0,
        "brand": None,
        "made": day + timedelta(hours=6),
        "colour": "red",
        "image": [1.0, 2.0],
        "tags": None,
    }
    lamps = rows[lamp.item_id]
    assert [lamps[name] for name in ("price", "made", "colour", "image", "tags")] == [
        *(None, None, "true", None),
        ["a"],
    ]
    assert set(rows[stove.item_id].values()) == {stove.item_id, stove.group, None}
    new = rows["new"]
    assert (new["brand"], new["made"], new["image"], new["tags"]) == ("b9", day, None, ["a", "7"])
    for item in others:
        at = first.number_of(item.item_id)
        kept = rows[item.item_id]
        assert (kept["price"], kept["brand"]) == (pytest.approx(at, abs=1e-5), f"b{at % 3}")
        assert (kept["made"], kept["colour"]) == (day, None)
    # Without a model that serves, what the shop gave is all there is.
    alone = described_dataset(None, data).items
    told_of = ["brand", "colour", "image", "made", "price", "tags"]
    assert alone.columns == ["item_id", "group", *told_of]
    assert data.dataset.items.columns == ["item_id", "group"]


def test_a_network_reads_the_columns_of_a_loaded_log_night_after_night(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_term, "LEAST", 50)
    monkeypatch.setattr(fitting, "EPOCHS", 1)
    log, directory = small_log(tmp_path), tmp_path / "service"
    model = {"terms": ["network"], "network_units": 4, "network_members": 1, "dimensions": 2}
    spec = {"model": model, "training": {"max_epochs": 1}}
    rules = {"promote": "always", "min_slates": 50}
    config = ServiceConfig.build({"models": {"main": spec}, "retraining": rules}, "the test")
    directory.mkdir()
    store = Store.open(config.store_url(directory))
    load_dataset(log, directory, store)
    for day in (2.5, 3):
        now = log.times.min() + round(day * DAY)
        (found,) = retrain(directory, config, store, now=int(now))
        assert found.outcome == "promoted", found.why
        term = loaded(directory).terms.by_name["network"]
        assert sorted(term.reads_items) == ["brand", "made", "price"]
        columns = term.columns_read
        assert columns is not None
        rows = dict(zip(loaded(directory).item_ids, columns.rows(named=True), strict=True))
        for told in log.items.rows(named=True):
            known = rows[told["item_id"]]
            assert known["price"] == pytest.approx(told["price"], abs=1e-5)
            assert known["brand"] == told["brand"]
            assert known["made"] == datetime.fromtimestamp(told["made"], UTC).replace(tzinfo=None)
    store.close()
