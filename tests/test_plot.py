"""Figures, tables and short forms of objects at hand."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import slatewise
from slatewise.errors import SlatewiseError
from slatewise.evaluation import calibrate, fit_baselines
from slatewise.experiments.store import StudyResult
from slatewise.training.tracking import epoch_observer, mlflow_observer, wandb_observer
from tests.evaluation.drawing import toy_world

CONFIG = slatewise.ModelConfig(likelihood="slate", dimensions=3, terms=("bias",))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> slatewise.SlateDataset:
    return toy_world(tmp_path_factory.mktemp("plot") / "world")


@pytest.fixture(scope="module")
def model(dataset: slatewise.SlateDataset) -> slatewise.SlateModel:
    return slatewise.fit(dataset, CONFIG, slatewise.TrainingConfig(max_epochs=3))


@pytest.fixture(scope="module")
def evaluations(
    dataset: slatewise.SlateDataset, model: slatewise.SlateModel
) -> dict[str, slatewise.evaluation.Evaluation]:
    ours = slatewise.ModelRecommender(model, log=dataset)
    baseline = fit_baselines(dataset)["smoothed CTR"]
    return {
        "model": slatewise.evaluate(
            ours, dataset, resamples=50, calibration=calibrate(ours, dataset)
        ),
        "smoothed CTR": slatewise.evaluate(baseline, dataset, resamples=50),
    }


def test_items_are_counted_once_by_their_views_and_scale(model: slatewise.SlateModel) -> None:
    for measure in ("scale", "distance"):
        figure = slatewise.plot.posterior_by_views(model, measure)
        assert np.sum(figure.data[0].customdata) == int((model.views > 0).sum())
    with pytest.raises(SlatewiseError, match="no measure 'spread'"):
        slatewise.plot.posterior_by_views(model, "spread")


def test_the_relevance_is_highest_at_the_user_and_that_of_the_model(
    model: slatewise.SlateModel,
) -> None:
    figure = slatewise.plot.relevance(slatewise.Recommender(model), [model.item_ids[0]])
    contour, items, user = figure.data
    heights = np.asarray(contour.z)
    row, column = np.unravel_index(heights.argmax(), heights.shape)
    assert abs(contour.x[column] - user.x[0]) <= contour.x[1] - contour.x[0]
    assert abs(contour.y[row] - user.y[0]) <= contour.y[1] - contour.y[0]
    corner = np.exp(-np.hypot(contour.x[0], contour.y[0]))
    assert heights[0, 0] == pytest.approx(corner, rel=1e-4)
    assert len(items.x) == len(model.item_ids)


def test_paired_differences_are_those_of_the_estimates(
    evaluations: dict[str, slatewise.evaluation.Evaluation],
) -> None:
    figure = slatewise.plot.paired(evaluations, "smoothed CTR")
    first, second = (evaluations[name]["log_likelihood"] for name in ("model", "smoothed CTR"))
    difference = first - second
    assert list(figure.data[0].x) == pytest.approx([difference.value])
    assert figure.data[0].error_x.array[0] == pytest.approx(difference.high - difference.value)
    with pytest.raises(SlatewiseError, match="no evaluation 'nothing'"):
        slatewise.plot.paired(evaluations, "nothing")


def test_reliability_shows_each_source_before_and_after_calibration(
    evaluations: dict[str, slatewise.evaluation.Evaluation],
) -> None:
    figure = slatewise.plot.reliability(evaluations["model"])
    names = {trace.name for trace in figure.data}
    assert any("as it is" in name for name in names)
    assert any("calibrated" in name for name in names)


def test_training_curves_end_at_zero_below_their_best(
    model: slatewise.SlateModel, tmp_path: Path, dataset: slatewise.SlateDataset
) -> None:
    figure = slatewise.plot.training_curves({"ours": model})
    assert slatewise.plot.training_curves(model).data[0].name == model.config.name
    assert len(figure.data[0].x) == len(model.history) == 3
    assert max(figure.data[0].y) == 0
    slatewise.save(model, tmp_path / "saved")
    with pytest.raises(SlatewiseError, match="no record of their training"):
        slatewise.plot.training_curves({"saved": slatewise.load(tmp_path / "saved")})
    training = slatewise.TrainingConfig(max_epochs=3)
    slatewise.fit(dataset, CONFIG, training, run=tmp_path / "run")
    loaded = slatewise.load(tmp_path / "run")
    kept = [epoch["validation"] for epoch in loaded.history]
    assert kept == [epoch["validation"] for epoch in model.history]


def test_a_study_without_days_is_refused() -> None:
    with pytest.raises(SlatewiseError, match="has no days"):
        slatewise.plot.daily_rates(StudyResult("offline", {}, {}, []))


def test_an_evaluation_is_a_frame_of_numbers(
    evaluations: dict[str, slatewise.evaluation.Evaluation],
) -> None:
    found = evaluations["model"]
    table = found.table()
    row = table.filter(metric="log_likelihood", source="all sources", calibrated=False)
    assert row["value"].item() == found["log_likelihood"].value
    assert table.filter(calibrated=True).height > 0
    assert table.height == table.unique(["metric", "source", "calibrated"]).height


def test_objects_are_short_in_a_console_and_tables_in_a_notebook(
    model: slatewise.SlateModel, evaluations: dict[str, slatewise.evaluation.Evaluation]
) -> None:
    slate = slatewise.Recommender(model).recommend([], 3, seed=1)
    for shown in (model, evaluations["model"], slate):
        assert len(repr(shown)) < 250
        assert shown._repr_html_().count("<tr>") > 3
    assert "+bias; 3 dimensions" in repr(model)
    assert all(str(item) in repr(slate) for item in slate.items)


def test_trackers_get_every_epoch_once(
    dataset: slatewise.SlateDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[tuple[int, float]] = []
    fake = SimpleNamespace(
        log_metrics=lambda metrics, step: logged.append((step, metrics["validation"])),
        log=lambda metrics, step: logged.append((step, metrics["validation"])),
    )
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    training = slatewise.TrainingConfig(max_epochs=2)
    for observer in (mlflow_observer(), wandb_observer(), epoch_observer(fake.log)):
        logged.clear()
        model = slatewise.fit(dataset, CONFIG, training, observer=observer)
        assert logged == [(n, epoch["validation"]) for n, epoch in enumerate(model.history)]
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(SlatewiseError, match="MLflow is not installed"):
        mlflow_observer()
