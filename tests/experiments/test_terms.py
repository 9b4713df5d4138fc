"""The study of terms: what is run, and what follows from the numbers."""

from typing import Any

import pytest

from slatewise.data import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.experiments.store import StudyResult
from slatewise.experiments.study import find_study, run_study, study_config
from slatewise.experiments.term_gains import ALL, MODELS
from slatewise.experiments.terms import TermsConfig, units
from slatewise.report.sections import terms as section

QUICK: dict[str, Any] = {
    "seeds": (0,),
    "users": 80,
    "resamples": 50,
    "model": {"dimensions": 2, "dynamics": "linear"},
    "training": {"max_epochs": 1, "validation_draws": 1},
    "selection": {"epochs": 1, "interactions": 500, "judged": 200, "least_gain": 0.5},
}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    study = find_study("terms")
    config = study_config(study, None, **(QUICK | {"worlds": ["tiny-outside", "news"]}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slatewise.model.network.fitting.EPOCHS", 1)  # of the network, for speed
        return run_study(study, config, tmp_path_factory.mktemp("terms"))


BARE = [name for name in MODELS.values() if name != "+features"]
"""The models of a world that tells no features of items."""


def test_every_model_and_baseline_is_judged_in_every_world(result: StudyResult) -> None:
    likelihoods = result.tables["likelihoods"]
    for world, models in (("tiny-outside", BARE), ("news", list(MODELS.values()))):
        names = likelihoods.filter(world=world, calibrated=True)["recommender"].to_list()
        assert names[: len(models)] == models
        assert {"smoothed CTR", "all features", "decayed popularity"} < {*names}
    assert {row["world"] for row in result.tables["chosen"].to_dicts()} == {"tiny-outside", "news"}
    assert result.tables["chosen"].filter(term="features")["world"].to_list() == ["news"]


def test_models_have_what_their_names_say(result: StudyResult) -> None:
    trained = result.tables["training"].filter(world="news")
    models = dict(trained.select("recommender", "model").iter_rows())
    assert models["+bias"] == "slate-linear-hier+bias"
    assert models["+features"] == "slate-linear-hier+bias+features"
    full = {"bias", "history", "popularity", "position", "propensity", "evidence"}
    assert full | {"features"} <= {*models[ALL].split("+")}
    bare = result.tables["training"].filter(world="tiny-outside", recommender=ALL)
    parts = {*bare["model"].item().split("+")}
    assert full | {"source"} <= parts
    assert "features" not in parts


def test_the_worth_of_causes_stands_beside_the_gains(result: StudyResult) -> None:
    gains = result.tables["gains"]
    worths = dict(gains.filter(world="tiny-outside").select("model", "worth").iter_rows())
    assert worths["+position"] > 0.01
    assert worths["+propensity"] < 1e-9
    assert worths["auto"] is None
    named = result.tables["worths"].filter(world="tiny-outside", term="position")
    assert worths["+position"] == named["worth"][0]
    assert f"({worths['+position']:.3f})" in str(result.tables["headline"].to_dicts())


def test_the_section_shows_every_world(result: StudyResult) -> None:
    shown = section.section(result)
    assert len(shown.figures) == 6
    learned = shown.figures[-1]
    assert learned.title == "news: what the network learned"
    assert len(learned.data) == 7
    assert len(shown.figures[0].data[1]["y"]) == len(BARE) - 1
    assert "*" in str(shown.figures[0].data)
    assert [row[0] for row in shown.tables[0].rows][: len(MODELS) - 1] == list(MODELS.values())[1:]


def test_a_dataset_takes_the_place_of_the_worlds(tiny: SlateDataset) -> None:
    config = TermsConfig.build({"dataset": tiny.path, "seeds": (3,)}, "test")
    parts = {tuple(unit.part.split("+")) for unit in units(config)}
    assert {place for place, _ in parts} == {"dataset"}
    assert not {"worth", "features"} & {part for _, part in parts}


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"preset": "tiny"}, "worlds of its own"), ({"worlds": ["moon"]}, "no world 'moon'")],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SlatewiseError, match=message):
        TermsConfig.build(changes, "test")
