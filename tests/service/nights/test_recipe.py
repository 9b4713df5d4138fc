"""What is fitted tonight, and which terms it has."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from slatewise.errors import SlatewiseError
from slatewise.features.item_features import ItemEncoder
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.item_features import ItemFeatures
from slatewise.selection import SELECTION, Selection
from slatewise.service.http.startup import prepare
from slatewise.service.nights import recipe
from slatewise.service.nights.window import NightData
from slatewise.service.serving.models import Models
from slatewise.service.settings import ServiceConfig
from slatewise.training import TrainingConfig, fit, runs
from slatewise.training.unused import without_unused
from tests.service.nights.world import DAY, START, Shelf, night, settings, visits

VISITS = visits(users=30)


class Chooser:
    """Chooses a bias, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.too_few = False

    def __call__(self, dataset: object, model: ModelConfig, **more: object) -> Selection:
        self.asked += 1
        if self.too_few:
            raise SlatewiseError("1 user can be judged on.", "Bring a longer log.")
        return Selection(model.model_copy(update={"terms": ("bias",)}), [], [], {}, [], {})


@pytest.fixture
def chooser(monkeypatch: pytest.MonkeyPatch) -> Chooser:
    found = Chooser()
    monkeypatch.setattr(recipe, "select", found)
    return found


def choosing() -> ServiceConfig:
    spec = settings().models["main"].model_dump(exclude_unset=True)
    return settings(promote="always").changed(models={"main": spec | {"auto": True}})


def test_terms_are_chosen_on_the_first_night_and_kept_until_a_fresh_start(
    tmp_path: Path, chooser: Chooser
) -> None:
    first = night(tmp_path, Shelf(VISITS), 1.5, choosing())
    assert first.notes == ["Terms were chosen: slate-linear-hier+bias."]
    second = night(tmp_path, Shelf(VISITS), 3, choosing())
    assert second.fits["name"] == "slate-linear-hier+bias"
    assert (chooser.asked, second.started_from) == (1, "1")
    run = Models.of(tmp_path, "main").path("2")
    assert (run / SELECTION).exists()
    assert (first.model_from, second.model_from) == (
        "chosen tonight (auto)",
        "chosen by an earlier night",
    )
    anew = night(tmp_path, Shelf(VISITS), 4, choosing(), fresh=True)
    assert (chooser.asked, anew.model_from) == (2, "chosen tonight (auto)")


def test_where_there_is_too_little_to_choose_by_the_model_goes_without_and_tries_again(
    tmp_path: Path, chooser: Chooser
) -> None:
    chooser.too_few = True
    first = night(tmp_path, Shelf(VISITS), 1.5, choosing())
    assert first.fits["name"] == "slate-linear-hier"
    assert any("1 user can be judged on" in note for note in first.notes)
    chooser.too_few = False
    second = night(tmp_path, Shelf(VISITS), 3, choosing())
    assert second.fits["name"] == "slate-linear-hier+bias"
    assert second.started_from is None  # an item has one number more


def service(auto: bool = False, **model: object) -> ServiceConfig:
    """Return settings that say of the model only what is given."""
    main = {"model": model, "training": {"max_epochs": 3}, "auto": auto}
    values = {
        "models": {"main": main},
        "retraining": {"min_slates": 100, "promote": "always"},
    }
    return ServiceConfig.build(values, "the test")


def loaded(directory: Path) -> SlateModel:
    found = Models.of(directory, "main").load()
    assert found is not None
    return found.model


SERVED = ModelConfig(
    relevance="dot",
    dynamics="linear",
    dimensions=3,
    terms=("bias", "history", "popularity", "position"),
    half_lives=(0.5, 7.0),
)
WITHOUT_POPULARITY = without_unused(SERVED.changed(terms=("bias", "history")))
"""half-lives are of no use then"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with terms, features of items and settings of its own, trained on two days."""
    folder = tmp_path_factory.mktemp("trained")
    dataset = NightData(folder, Shelf(VISITS), START + 2 * DAY, 28, lambda *progress: None).dataset
    table = pl.DataFrame({"price": np.arange(dataset.num_items, dtype=float)})
    encoder = ItemEncoder.fit(table, {"price": "number"})
    features = ItemFeatures(torch.from_numpy(encoder.encode(table)), encoder)
    training = TrainingConfig(max_epochs=3, learning_rate=0.1)
    fit(dataset, SERVED, training, item_features=features, run=folder / "run")
    return folder / "run"


@pytest.fixture
def shop(trained: Path, tmp_path: Path) -> Path:
    """A service that was begun with that run, as `serve --run` begins one."""
    directory = tmp_path / "shop"
    prepare(directory, ServiceConfig(), trained, log=False)
    return directory


def test_a_night_goes_on_with_the_model_that_serves(shop: Path, trained: Path) -> None:
    found = night(shop, Shelf(VISITS), 3, service())
    assert (found.outcome, found.started_from, found.notes) == ("promoted", "1", [])
    assert found.model_from == found.to_json()["model_from"] == "the version that serves"
    name = "slate-dot-linear-hier+bias+history+popularity+position+features"
    assert f"  Model: {name} (the version that serves)." in found.words()
    model = loaded(shop)
    assert model.config == SERVED
    assert model.item_encoder == runs.load(trained).item_encoder
    fitted = runs.read_run(Models.of(shop, "main").path("2"))["training"]
    assert (fitted["max_epochs"], fitted["learning_rate"]) == (3, 0.1)  # of settings and run
    assert fitted["batch_users"] == 1  # a small log has small batches, whatever the run had


def test_settings_that_are_given_win_over_those_of_the_model_that_serves(shop: Path) -> None:
    found = night(shop, Shelf(VISITS), 3, service(dimensions=3, terms=["bias", "history"]))
    assert found.notes == ["The settings change the model that serves: terms."]
    assert (found.model_from, found.started_from) == ("the version that serves", "1")
    assert loaded(shop).config == WITHOUT_POPULARITY
    wider = night(shop, Shelf(VISITS), 4, service(dimensions=2))
    assert wider.started_from is None
    assert any("Training could not go on from 2" in note for note in wider.notes)
    assert loaded(shop).config == WITHOUT_POPULARITY.changed(dimensions=2)


def test_settings_that_do_not_fit_the_model_that_serves_are_taken_alone(shop: Path) -> None:
    found = night(shop, Shelf(VISITS), 3, service(dimensions=2, hidden=3))
    assert found.model_from == "the settings"
    assert "linear dynamics have no hidden dimension" in found.notes[0]
    config = loaded(shop).config
    assert (config.dynamics, config.dimensions, config.hidden) == ("gru", 2, 3)
    assert "history" in config.terms


def test_a_fresh_start_has_the_model_that_serves_and_nothing_that_it_learned(shop: Path) -> None:
    found = night(shop, Shelf(VISITS), 3, service(), fresh=True)
    assert (found.model_from, found.started_from) == ("the version that serves", None)
    assert loaded(shop).config == SERVED


def test_the_first_night_has_the_model_of_the_settings(tmp_path: Path) -> None:
    found = night(tmp_path, Shelf(VISITS), 2, service(dimensions=2, dynamics="linear"))
    assert found.model_from == "the settings"
    assert found.notes[0] == "The log has searches: the likelihood is source-aware."
    assert any(note.startswith("Terms for this log: history") for note in found.notes)
    config = loaded(tmp_path).config
    assert (config.likelihood, config.temperature) == ("source-aware", 1.0)
    assert (config.dynamics, config.dimensions) == ("linear", 2)
    assert {"history", "propensity"} <= set(config.terms)


@pytest.mark.parametrize("auto", [False, True])
def test_terms_that_a_run_was_begun_with_are_not_chosen_again(
    shop: Path, chooser: Chooser, auto: bool
) -> None:
    found = night(shop, Shelf(VISITS), 3, service(auto))
    assert (chooser.asked, found.model_from) == (0, "the version that serves")
    run = Models.of(shop, "main").path("2")
    Selection(SERVED, [], [], {}, [], {}, described=True).write(run)  # as train --auto writes it
    later = night(shop, Shelf(VISITS), 4, service(auto))
    origin = "chosen by an earlier night" if auto else "the version that serves"
    assert (chooser.asked, later.model_from) == (0, origin)
    assert loaded(shop).config == SERVED
    assert (Models.of(shop, "main").path("3") / SELECTION).exists()


def test_a_time_of_training_or_a_store_gives_no_setting_of_a_model() -> None:
    changed = ServiceConfig().changed(retraining={"at": "03:00"})
    assert not changed.models["main"].model.is_given("terms")
    assert "training" not in changed.models["main"].model_fields_set


def test_exposure_of_a_source_without_slates_waits_for_them(tmp_path: Path) -> None:
    model = {"likelihood": "source-aware", "exposure": {"search": 0.3, "mail": 0.1}}
    small = {"dimensions": 2, "dynamics": "linear"}
    first = night(tmp_path, Shelf(VISITS), 2, service(**model, **small))
    assert first.notes[0] == "The window has no slate from mail: exposure there is left out."
    assert loaded(tmp_path).config.exposure == {"search": 0.3}
    mailed = [replace(v, slate=replace(v.slate, source="mail")) for v in VISITS]
    second = night(tmp_path, Shelf([*VISITS[::2], *mailed[1::2]]), 3, service())
    assert (second.notes, second.started_from) == ([], "1")
    assert loaded(tmp_path).config.exposure == model["exposure"]
    other = [replace(v, slate=replace(v.slate, source="shelf")) for v in VISITS]
    third = night(tmp_path, Shelf(other), 4, service())
    assert third.outcome == "promoted"
    assert loaded(tmp_path).config.likelihood == "slate"
    assert third.notes == [
        "The window has no slate from mail, search: exposure there is left out. "
        "No source with a weight is left, so the slate likelihood is used."
    ]


def test_evidence_of_a_source_without_slates_waits_for_them(tmp_path: Path) -> None:
    spec = settings().models["main"]
    model = spec.model.model_copy(update={"evidence": ("search", "mail")})
    models = {"main": spec.model_copy(update={"model": model}).model_dump(exclude_unset=True)}
    config = settings(promote="always").changed(models=models)
    first = night(tmp_path, Shelf(VISITS), 2, config)
    assert any("no slate from mail" in note for note in first.notes)
    mailed = [
        replace(v, slate=replace(v.slate, source="mail")) if number % 2 else v
        for number, v in enumerate(VISITS)
    ]
    second = night(tmp_path, Shelf(mailed), 3, config)
    assert (second.notes, second.started_from) == ([], "1")
    third = night(tmp_path, Shelf(VISITS), 4, service())  # the settings name no evidence
    assert "gain" in third.scores  # what serves knows mail, of which there is none now
    assert any("no slate from mail" in note for note in third.notes)
    fourth = night(tmp_path, Shelf(mailed), 4.5, service())
    assert fourth.notes == []
    assert loaded(tmp_path).config.evidence == ("search", "mail")
