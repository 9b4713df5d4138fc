"""What a selection keeps, leaves out and says, in a world whose only cause is known."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slatewise.data import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.evaluation.bootstrap import Estimate
from slatewise.model.config import ModelConfig
from slatewise.model.registry import TERMS
from slatewise.selection import (
    SELECTION,
    Comparison,
    ModelChoice,
    Selection,
    SelectionConfig,
    leave_out,
    read_choice,
    select,
)
from slatewise.selection.candidates import candidates_of, with_all, without
from slatewise.selection.record import ANOTHER_SEED
from slatewise.training import TrainingConfig
from slatewise.training.sizes import SLATE_TERMS
from tests.evaluation.test_logits import choosing_rows
from tests.model.terms.logs import dataset_of, rows_of

MODEL = ModelConfig(dimensions=2, dynamics="linear", prior="flat")
QUICK = SelectionConfig(epochs=4)
TRAINING = TrainingConfig(learning_rate=0.05)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    """A log where what was clicked before, and the position, decide."""
    return dataset_of(tmp_path_factory.mktemp("leave-out") / "log", choosing_rows())


@pytest.fixture(scope="module")
def found(dataset: SlateDataset) -> Selection:
    return select(dataset, MODEL, QUICK, training=TRAINING)


def test_the_causes_are_kept_and_the_rest_is_not(dataset: SlateDataset, found: Selection) -> None:
    assert {"history", "position"} <= {*found.model.terms}
    assert not {"bias", "popularity"} & {*found.model.terms}
    gains = {one.name: one for one in found.results}
    usual = gains["propensity"]  # no cause, but where some slates have no click, training takes it
    assert usual.kept == (usual.high >= QUICK.least_gain)
    assert gains["history"].low > 0
    assert set(gains) == {*candidates_of(MODEL, dataset)[0]}


def test_the_choice_is_compared_with_baselines_and_with_itself(found: Selection) -> None:
    beside = {one.name: one for one in found.comparisons}
    assert beside["the model without candidates"].low > 0
    assert beside["base rate"].low > 0
    assert abs(beside[ANOTHER_SEED].gain) < 0.05


def test_a_baseline_that_predicts_better_is_named(found: Selection) -> None:
    luckier = Comparison("all features", -1.0, -0.1, -0.2, -0.05)
    beside = [*found.comparisons, luckier, Comparison(ANOTHER_SEED, -1.0, -0.1, -0.2, -0.05)]
    assert luckier in replace(found, comparisons=beside).better
    assert ANOTHER_SEED not in {one.name for one in replace(found, comparisons=beside).better}


def test_parts_that_stand_in_for_each_other_are_kept_together(
    dataset: SlateDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each alone can be done without; both together cannot."""

    def judge(self: object, choice: ModelChoice, stage: str, **options: object) -> Estimate:
        value = 0.0 if {"bias", "co_clicks"} & {*choice.model.terms} else -0.1
        return Estimate.of(value, value + 0.001 * np.linspace(-1, 1, 101), 1, "users")

    monkeypatch.setattr(leave_out._Trials, "judge", judge)
    monkeypatch.setattr(leave_out._Trials, "judge_baselines", lambda self: {})
    found = select(dataset, MODEL, QUICK, training=TRAINING)
    assert all(one.kept for one in found.results if one.name != "network")
    assert {"bias", "co_clicks"} <= {*found.model.terms}


def test_the_same_seed_chooses_the_same_for_the_same_reasons(dataset: SlateDataset) -> None:
    small = SelectionConfig(interactions=1_000, judged=300, epochs=1, judged_share=0.1)
    terms = ("bias", "co_clicks", "popularity", "propensity", "history")
    model = MODEL.changed(terms=terms, evidence=tuple(dataset.source_names))
    first, again, other = (
        select(dataset, model, small, training=TRAINING, seed=seed).to_json() for seed in (3, 3, 4)
    )
    assert first == again != other


def test_a_choice_is_read_back(found: Selection, tmp_path: Path) -> None:
    assert read_choice(tmp_path, MODEL) is None
    found.write(tmp_path)
    assert read_choice(tmp_path, MODEL) == ModelChoice(found.model)
    stored = json.loads((tmp_path / SELECTION).read_text())
    assert stored["candidates"][0]["name"] == found.results[0].name
    assert stored["comparisons"][0]["name"] == "the model without candidates"
    assert len(stored["notes"]) == 2
    (tmp_path / SELECTION).write_text("{}")
    with pytest.raises(SlatewiseError, match="damaged"):
        read_choice(tmp_path, MODEL)


def test_what_a_log_cannot_have_is_not_tried(tmp_path: Path) -> None:
    rows = [row | {"slate": row["slate"][:1]} for row in rows_of(0)]  # type: ignore[index]
    for row in rows:
        row["click"] = row["click"] if row["click"] in row["slate"] else None  # type: ignore[operator]
    dataset = dataset_of(tmp_path / "log", rows, clock=False)
    names, impossible = candidates_of(ModelConfig(terms=("history",)), dataset)
    sources = ["evidence from front page", "evidence from search"]
    assert names == ["bias", "co_clicks", "propensity", "source", *sources]
    assert {"popularity", "position"} <= set(impossible)
    grown = with_all(ModelChoice(ModelConfig(terms=("history",))), ["bias", "evidence from search"])
    assert (grown.model.terms, grown.model.evidence) == (("history", "bias"), ("search",))
    assert not grown.described
    assert without(grown, "evidence from search").model.evidence == ()
    assert without(grown, "bias").model.terms == ("history",)


def test_features_bring_the_bias_they_speak_of(dataset: SlateDataset) -> None:
    names, _ = candidates_of(MODEL, dataset, described=True)
    assert "features" in names
    assert "features" not in candidates_of(MODEL, dataset)[0]
    described = with_all(ModelChoice(MODEL), ["features"])
    assert (described.model.terms, described.described) == (("bias",), True)
    assert described.name == "slate-linear-flat+bias+features"
    assert with_all(ModelChoice(MODEL), ["bias", "features"]) == described
    assert without(described, "features") == ModelChoice(described.model)
    assert without(described, "bias") == ModelChoice(MODEL)


def test_what_sees_whole_slates_is_tried_beside_what_was_chosen(
    dataset: SlateDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network that explains all that popularity does must not push out what ranks."""

    def judge(self: object, choice: ModelChoice, stage: str, **options: object) -> Estimate:
        terms = {*choice.model.terms}
        value = 0.2 if "network" in terms else 0.1 if "popularity" in terms else 0.0
        value -= 0.002 * len(terms - {"network", "popularity"})
        return Estimate.of(value, value + 0.001 * np.linspace(-1, 1, 101), 1, "users")

    monkeypatch.setattr(leave_out._Trials, "judge", judge)
    monkeypatch.setattr(leave_out._Trials, "judge_baselines", lambda self: {})
    monkeypatch.setattr(TERMS["network"], "obstacle", lambda dataset: None)
    found = select(dataset, MODEL, QUICK, training=TRAINING)
    assert found.model.terms == ("popularity", "network")
    assert [one.name for one in found.results if one.kept] == ["popularity", "network"]


@pytest.mark.parametrize(("value", "kept"), [(0.0, True), (-0.002, False)])
def test_a_network_stays_unless_a_gain_is_ruled_out(
    dataset: SlateDataset, monkeypatch: pytest.MonkeyPatch, value: float, kept: bool
) -> None:
    """Its trial saw a part of what it will learn from."""

    def judge(self: object, choice: ModelChoice, stage: str, **options: object) -> Estimate:
        found = value if "network" in choice.model.terms else 0.0
        found -= 0.002 * len({*choice.model.terms} - {"network"})
        spread = 0.002 if "network" in choice.model.terms else 0.0
        return Estimate.of(found, found + spread * np.linspace(-1, 1, 101), 1, "users")

    monkeypatch.setattr(leave_out._Trials, "judge", judge)
    monkeypatch.setattr(leave_out._Trials, "judge_baselines", lambda self: {})
    monkeypatch.setattr(TERMS["network"], "obstacle", lambda dataset: None)
    found = select(dataset, MODEL, QUICK, training=TRAINING)
    assert found.model.terms == (("network",) if kept else ())
    assert [one.name for one in found.results if one.kept] == ["network"] * kept


def test_terms_that_training_takes_stay_unless_a_gain_is_ruled_out(
    dataset: SlateDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others, such as bias, have to gain for certain."""
    values = {"history": 0.0, "position": -0.002, "bias": 0.0, "co_clicks": 0.002}

    def judge(self: object, choice: ModelChoice, stage: str, **options: object) -> Estimate:
        waves = {name: np.roll(np.linspace(-1, 1, 101), 13 * i) for i, name in enumerate(values)}
        own = [name for name in values if name in choice.model.terms]
        value = sum(values[name] for name in own)
        replicates = value + sum((0.0015 * waves[name] for name in own), np.zeros(101))
        return Estimate.of(value, replicates, 1, "users")

    monkeypatch.setattr(leave_out._Trials, "judge", judge)
    monkeypatch.setattr(leave_out._Trials, "judge_baselines", lambda self: {})
    found = select(dataset, MODEL, QUICK, training=TRAINING)
    assert found.model.terms == ("co_clicks", "history")
    assert {one.name for one in found.results if one.kept} == {"co_clicks", "history"}


@pytest.mark.parametrize(("beside", "kept"), [(0.01, True), (0.0, True), (-0.002, False)])
def test_the_default_terms_are_chosen_unless_the_choice_gains_over_all_of_them(
    dataset: SlateDataset, monkeypatch: pytest.MonkeyPatch, beside: float, kept: bool
) -> None:
    """History seems to lose as long as the network is not beside it."""
    usual = [name for name in SLATE_TERMS if TERMS[name].default_obstacle(dataset) is None]
    monkeypatch.setattr(TERMS["network"], "obstacle", lambda dataset: None)
    monkeypatch.setattr(TERMS["network"], "default_obstacle", lambda dataset: None)
    usual.append("network")

    def judge(self: object, choice: ModelChoice, stage: str, **options: object) -> Estimate:
        terms = {*choice.model.terms}
        value = -0.005 * ("history" in terms) + 0.02 * ("network" in terms)
        value += (0.005 + beside) * ({"history", "network"} <= terms)
        return Estimate.of(value, value + 1e-4 * np.linspace(-1, 1, 101), 1, "users")

    monkeypatch.setattr(leave_out._Trials, "judge", judge)
    monkeypatch.setattr(leave_out._Trials, "judge_baselines", lambda self: {})
    found = select(dataset, MODEL, QUICK, training=TRAINING)
    assert {one.name for one in found.results if one.kept} == ({*usual} if kept else {"network"})
    assert {*found.model.terms} == ({*usual} if kept else {"network"})
    beside_it = {one.name: one.gain for one in found.comparisons}
    assert (leave_out.DEFAULT in beside_it) is not kept


def test_a_term_that_another_model_names_by_its_import_path_is_no_candidate(
    dataset: SlateDataset,
) -> None:
    before = candidates_of(MODEL, dataset)
    named = "tests.contract.toys:Beside"
    assert TERMS[named].obstacle(dataset) is None
    assert candidates_of(MODEL, dataset) == before
    assert candidates_of(MODEL.changed(terms=(named,)), dataset) == before
    TERMS.register(TERMS[named])
    assert TERMS[named].name in candidates_of(MODEL, dataset)[0]
