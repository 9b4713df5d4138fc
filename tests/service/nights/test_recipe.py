"""What is fitted tonight, and which terms it has."""

from dataclasses import replace
from pathlib import Path

import pytest

from slatewise.errors import SlatewiseError
from slatewise.model.config import ModelConfig
from slatewise.selection import SELECTION, Selection
from slatewise.service.config import ServiceConfig
from slatewise.service.nights import recipe
from slatewise.service.serving.models import Models
from tests.service.nights.world import Shelf, night, settings, visits

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
        return Selection(model.model_copy(update={"terms": ("bias",)}), [], {}, [], {})


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
    (run / SELECTION).write_text("{")
    damaged = night(tmp_path, Shelf(VISITS), 4, choosing())
    assert (chooser.asked, damaged.fits["name"]) == (1, "slate-linear-hier")
    assert any("the selection is damaged" in note for note in damaged.notes)
    night(tmp_path, Shelf(VISITS), 4, choosing(), fresh=True)
    assert chooser.asked == 2


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
    third = night(tmp_path, Shelf(VISITS), 4, config)
    assert "gain" in third.scores  # what serves knows mail, of which there is none now
