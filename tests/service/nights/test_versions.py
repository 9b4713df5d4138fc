"""Versions, and a model on the items of another log."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from slatewise.data import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.service.nights.judgement import score
from slatewise.service.nights.versions import Version, as_learned, best_version, transfer
from slatewise.service.nights.window import export_window
from slatewise.service.serving.learned import LearnedItems
from slatewise.service.serving.models import Models
from slatewise.training import TrainingConfig, fit, runs
from tests.service.nights.world import DAY, ITEMS, START, Item, Shelf, visits
from tests.service.serving.world import a_model

MODEL = ModelConfig(dimensions=2, dynamics="linear", evidence=("search",))


def dataset(folder: Path, shelf: Shelf) -> SlateDataset:
    folder.mkdir()
    window = export_window(shelf, folder, START, START + 4 * DAY, lambda *progress: None)
    return prepare(window.log, window.items, folder / "dataset")


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> SlateModel:
    log = dataset(tmp_path_factory.mktemp("versions") / "log", Shelf(visits(30, 2)))
    return fit(log, MODEL, TrainingConfig(max_epochs=1))


def test_known_items_stay_and_new_ones_get_the_predictive_of_their_group(
    earlier: SlateModel, tmp_path: Path
) -> None:
    shop = [Item("a new chair", "chairs"), *ITEMS[3:]]
    transferred = transfer(earlier, dataset(tmp_path / "log", Shelf(visits(30, 2, seed=1), shop)))
    for item in ITEMS[3:]:
        old, new = earlier.number_of(item.item_id), transferred.number_of(item.item_id)
        assert np.array_equal(transferred.item_vectors[new], earlier.item_vectors[old])
    chairs = torch.tensor([earlier.group_names.index("chairs")])
    mean, _ = earlier.posterior.prior.predictive(chairs)
    new = transferred.number_of("a new chair")
    assert transferred.item_vectors[new] == pytest.approx(mean[0].detach().numpy())


def test_a_source_without_slates_lately_is_no_obstacle(earlier: SlateModel, tmp_path: Path) -> None:
    found = visits(30, 2)
    others = [replace(one, slate=replace(one.slate, source="mail")) for one in found]
    log = dataset(tmp_path / "log", Shelf(others))
    transferred = transfer(earlier, log)
    assert transferred.source_names == ["mail", "search"]
    lengths = np.diff(log.user_offsets)
    judging = log.with_ends(lengths // 2, lengths // 2)
    assert score(transferred, judging, 0).log_likelihood.count > 100


def test_a_night_starts_where_answers_moved_items(earlier: SlateModel, tmp_path: Path) -> None:
    models = Models.of(tmp_path, "main")
    runs.save(earlier, models.path("1"))
    version = Version.of("1", runs.load(models.path("1")), models)
    assert as_learned(version) is version.model
    known, columns = earlier.item_ids[4], earlier.config.dimensions + 1
    ids: list[int | str] = ["a new chair", str(known), "a new chair"]
    means = np.arange(3 * columns, dtype=np.float32).reshape(3, columns)
    scales = np.full((3, columns), 0.25, np.float32)
    LearnedItems(9, np.array([90, 4, 91]), ids, means, scales).write(models.path("1"))
    moved = as_learned(version)
    shop = [Item("a new chair", "chairs"), *ITEMS]
    log = dataset(tmp_path / "log", Shelf(visits(30, 2, seed=1), shop))
    started = transfer(moved, log)
    for item, row in (("a new chair", 2), (str(known), 1)):
        number = started.number_of(item)
        assert np.array_equal(started.item_vectors[number], means[row, :-1])
        assert started.item_scales[number] == pytest.approx(0.25)
    other = str(earlier.item_ids[5])
    assert np.array_equal(
        started.item_vectors[started.number_of(other)],
        earlier.item_vectors[5],
    )


def test_numbers_become_text(earlier: SlateModel, tmp_path: Path) -> None:
    numbered = replace(earlier, item_ids=list(range(len(ITEMS))))
    version = Version.of("1", numbered, Models.of(tmp_path, "main"))
    assert version.model.item_ids[:2] == ["0", "1"]


def test_the_best_version_is_read_if_it_is_young_and_none_of_those_judged_anyway(
    tmp_path: Path,
) -> None:
    models, fitted = Models.of(tmp_path, "main"), a_model()

    def version(number: int, **retraining: object) -> Version:
        path = models.path(str(number))
        path.mkdir(parents=True)
        runs.write_model(fitted, path, {"retraining": retraining})
        return Version.of(str(number), fitted, models)

    first = version(1, until=100)
    second, third = version(2, until=200, best="1"), version(3, until=300, best="1")
    found = best_version(models, [third, second], since=50)
    assert found is not None
    assert found.name == "1"
    assert best_version(models, [third, second], since=150) is None
    assert best_version(models, [third, first], since=50) is None
    assert best_version(models, [first], since=50) is None
    shutil.rmtree(models.path("1"))
    assert best_version(models, [third, second], since=50) is None
