"""One log, one model: the same by the command line, from Python, and in the first night."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import slatewise
from slatewise import ModelConfig, SlateDataset, TrainingConfig
from slatewise.cli import app
from slatewise.selection import plan_fit
from slatewise.service.nights.recipe import recipe_of
from slatewise.service.settings import ModelSpec
from slatewise.training import runs
from tests.evaluation.drawing import toy_world

QUICK = "[model]\ndimensions = 2\n[training]\nmax_epochs = 1\n"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    return toy_world(tmp_path_factory.mktemp("fitting") / "world")


def test_the_command_and_python_fit_the_same_model(dataset: SlateDataset, tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text(QUICK)
    arguments = ["train", str(dataset.path), str(tmp_path / "command"), "--config", str(settings)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    model, training = ModelConfig(dimensions=2), TrainingConfig(max_epochs=1)
    fitted = slatewise.fit(dataset, model, training, run=tmp_path / "python")
    command, python = (runs.load(tmp_path / name) for name in ("command", "python"))
    assert "history" in python.config.terms
    assert python.calibration == command.calibration == json.loads(json.dumps(fitted.calibration))
    assert python.calibration is not None
    assert python.config == command.config == fitted.config
    assert python.terms.to_json() == command.terms.to_json()
    names = ("posterior.safetensors", "run.json")
    one, other = ((tmp_path / name) for name in ("command", "python"))
    assert (one / names[0]).read_bytes() == (other / names[0]).read_bytes()


def test_the_first_night_fits_what_train_fits(dataset: SlateDataset) -> None:
    plan = plan_fit(dataset)
    recipe = recipe_of(
        ModelSpec(), dataset, None, None, fresh=False, seed=0, progress=lambda *_: None
    )
    assert plan.model.terms
    assert (recipe.model, recipe.training) == (plan.model, plan.training)
    assert recipe.notes == [*plan.notes]


def test_terms_that_are_given_stay(dataset: SlateDataset) -> None:
    assert plan_fit(dataset, ModelConfig(terms=())).model.terms == ()
    assert plan_fit(dataset, ModelConfig(terms=("bias",))).model.terms == ("bias",)


def test_what_people_searched_for_makes_the_likelihood_source_aware(dataset: SlateDataset) -> None:
    assert dataset.source_names == ["search"]
    plan = plan_fit(dataset)
    assert (plan.model.likelihood, plan.model.temperature) == ("source-aware", 1.0)
    assert any("source-aware" in note for note in plan.notes)
    assert plan_fit(dataset, ModelConfig(likelihood="slate")).model.likelihood == "slate"
