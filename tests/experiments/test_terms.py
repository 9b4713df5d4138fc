"""The study of terms: what is run, and what follows from the numbers."""

from typing import Any

import numpy as np
import pytest

from slatewise.data import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.experiments.storing import Row, StudyResult, Tables
from slatewise.experiments.study import find_study, run_study, study_config
from slatewise.experiments.terms import (
    ALL,
    ALONE,
    AUTO,
    MODELS,
    TermsConfig,
    summarise,
    units,
)
from slatewise.report.sections import terms as section

QUICK: dict[str, Any] = {
    "seeds": (0,),
    "users": 120,
    "resamples": 50,
    "model": {"dimensions": 2, "dynamics": "linear"},
    "training": {"max_epochs": 1, "validation_draws": 1},
    "selection": {"epochs": 1, "interactions": 500, "judged": 200, "least_gain": 0.5},
}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    study = find_study("terms")
    config = study_config(study, None, **(QUICK | {"worlds": ["tiny-outside", "news"]}))
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
    full = "slate-linear-hier+bias+history+popularity+propensity+position+evidence"
    assert models[ALL] == f"{full}+features"
    bare = result.tables["training"].filter(world="tiny-outside", recommender=ALL)
    assert bare["model"].to_list() == [full]


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
    assert len(shown.figures) == 4
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


def drawn(values: dict[str, float], spread: float, worth: dict[str, float]) -> Tables:
    """Rows as units would leave them, of two seeds, each value with resamples around it."""
    rng = np.random.default_rng(0)
    scores: list[Row] = []
    replicates: list[Row] = []
    for seed in (0, 1):
        for name, value in values.items():
            head = {"seed": seed, "recommender": f"news/{name}", "calibrated": True}
            head |= {"metric": "log_likelihood", "world": "news"}
            for calibrated in (True, False):
                head = head | {"calibrated": calibrated}
                scores.append(head | {"source": "all sources", "value": value})
                noise = spread * rng.standard_normal(200)
                replicates.append(head | {"values": (value + noise).tolist()})
    worths: list[Row] = [
        {"seed": seed, "world": "news", "term": term, "worth": found + 0.001 * (2 * seed - 1)}
        for seed in (0, 1)
        for term, found in worth.items()
    ]
    return {"scores": scores, "replicates": replicates, "worths": worths}


def test_findings_follow_from_the_gains_and_their_intervals() -> None:
    values = dict.fromkeys(MODELS.values(), -1.0) | {"+popularity": -0.9, "+bias": -1.001}
    values |= {"+evidence": -1.2, "base rate": -1.1, "all features": -0.86, ALL: -0.85, AUTO: -0.85}
    values["popularity"] = -1.3  # the baseline
    config = TermsConfig.build({"worlds": ["news"]}, "test")
    found = summarise(config, drawn(values, 1e-4, dict.fromkeys(ALONE, 0.05)))
    verdicts = {finding.question: finding.verdict for finding in found.findings}
    question = "Does {} help in news, where its cause is worth 0.050?"
    assert verdicts[question.format("popularity")] == "above"
    assert verdicts[question.format("bias")] == "below"
    assert verdicts[question.format("position")] == "cannot tell"
    best = "Is --auto better than the best baseline, all features, in news?"
    assert verdicts[best] == "above"
    assert verdicts["Is --auto better than all terms together in news?"] == "cannot tell"
    against = {row["baseline"]: row["value"] for row in found.tables["against"]}
    assert against == pytest.approx({"all features": 0.01, "base rate": 0.25, "popularity": 0.45})


def test_a_term_without_a_cause_is_held_against_what_it_may_cost() -> None:
    values = dict.fromkeys((*MODELS.values(), "base rate"), -1.0)
    values |= {"+position": -1.01, "+popularity": -1.001}
    worth = dict.fromkeys(ALONE, 0.0) | {"position": 0.0019, "bias": 0.002}
    found = summarise(TermsConfig.build({"worlds": ["news"]}, "test"), drawn(values, 1e-4, worth))
    verdicts = {finding.question: finding.verdict for finding in found.findings}
    question = "Without a cause in news, does {} cost less than 0.002 nats?"
    assert verdicts[question.format("popularity")] == "above"
    assert verdicts[question.format("position")] == "below"
    assert question.format("bias") not in verdicts
    causes = {row["model"]: row["cause"] for row in found.tables["gains"]}
    assert (causes["+bias"], causes["+position"], causes[ALL]) == (True, False, None)


def test_without_a_simulator_nobody_knows_the_causes() -> None:
    values = dict.fromkeys((*MODELS.values(), "base rate"), -1.0)
    found = summarise(TermsConfig.build({"worlds": ["news"]}, "test"), drawn(values, 1e-4, {}))
    assert "Does position help in news?" in [finding.question for finding in found.findings]
