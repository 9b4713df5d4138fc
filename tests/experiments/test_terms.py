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
    AUTO,
    CAUSES,
    EVIDENCE,
    MODELS,
    TERMS,
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
    config = study_config(study, None, **(QUICK | {"worlds": ["tiny", "tiny-outside"]}))
    return run_study(study, config, tmp_path_factory.mktemp("terms"))


def test_every_model_and_baseline_is_judged_in_every_world(result: StudyResult) -> None:
    likelihoods = result.tables["likelihoods"]
    for world in ("tiny", "tiny-outside"):
        names = likelihoods.filter(world=world, calibrated=True)["recommender"].to_list()
        assert names[: len(MODELS)] == list(MODELS.values())
        assert {"smoothed CTR", "all features", "decayed popularity"} < {*names}
    assert {row["world"] for row in result.tables["chosen"].to_dicts()} == {"tiny", "tiny-outside"}
    models = dict(result.tables["training"].select("recommender", "model").iter_rows())
    assert models["+bias"] == "slate-linear-hier+bias"
    assert models[ALL] == "slate-linear-hier+bias+history+popularity+propensity+position+evidence"


def test_the_section_shows_every_world(result: StudyResult) -> None:
    shown = section.section(result)
    assert len(shown.figures) == 4
    assert len(shown.figures[0].data[1]["y"]) == len(MODELS) - 1
    assert [row[0] for row in shown.tables[0].rows][: len(MODELS) - 1] == list(MODELS.values())[1:]


def test_a_dataset_takes_the_place_of_the_worlds(tiny: SlateDataset) -> None:
    config = TermsConfig.build({"dataset": tiny.path, "seeds": (3,)}, "test")
    assert {unit.part.partition("+")[0] for unit in units(config)} == {"dataset"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"preset": "tiny"}, "worlds of its own"), ({"worlds": ["moon"]}, "no world 'moon'")],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SlatewiseError, match=message):
        TermsConfig.build(changes, "test")


def drawn(values: dict[str, float], spread: float) -> Tables:
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
    return {"scores": scores, "replicates": replicates}


def test_findings_follow_from_the_gains_and_their_intervals() -> None:
    values = dict.fromkeys(MODELS.values(), -1.0) | {"+popularity": -0.9, "+bias": -1.001}
    values |= {"+evidence": -1.2, "base rate": -1.1, "all features": -0.86, ALL: -0.85, AUTO: -0.85}
    values["popularity"] = -1.3  # the baseline
    config = TermsConfig.build({"worlds": ["news"]}, "test")
    found = summarise(config, drawn(values, 1e-4))
    verdicts = {finding.question: finding.verdict for finding in found.findings}
    assert verdicts["Does popularity help in news?"] == "above"
    assert verdicts["Does bias help in news?"] == "below"
    assert verdicts["Does position help in news?"] == "cannot tell"
    best = "Is --auto better than the best baseline, all features, in news?"
    assert verdicts[best] == "above"
    assert verdicts["Is --auto better than all terms together in news?"] == "cannot tell"
    assert not any(EVIDENCE in question for question in verdicts)  # nobody searches there
    against = {row["baseline"]: row["value"] for row in found.tables["against"]}
    assert against == pytest.approx({"all features": 0.01, "base rate": 0.25, "popularity": 0.45})


def test_a_term_without_a_cause_is_held_against_what_it_may_cost() -> None:
    values = dict.fromkeys((*MODELS.values(), "base rate"), -1.0)
    tables = drawn(values | {"+position": -1.01, "+popularity": -1.001}, 1e-4)
    for rows in tables.values():
        for row in rows:
            row["recommender"] = row["recommender"].replace("news/", "video/")
    found = summarise(TermsConfig.build({"worlds": ["video"]}, "test"), tables)
    verdicts = {finding.question: finding.verdict for finding in found.findings}
    question = "Without a cause in video, does {} cost less than 0.002 nats?"
    assert verdicts[question.format("popularity")] == "above"
    assert verdicts[question.format("position")] == "below"


def test_every_world_of_the_study_has_its_causes_listed() -> None:
    assert set(TermsConfig().worlds) == set(CAUSES)
    assert {cause for causes in CAUSES.values() for cause in causes} <= {*TERMS, EVIDENCE}
