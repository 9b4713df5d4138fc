"""What forward selection keeps, leaves and says, in a world whose only cause is known."""

import json
from pathlib import Path

import numpy as np
import pytest

from slatewise.data import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.evaluation.bootstrap import Estimate
from slatewise.model.config import ModelConfig
from slatewise.selection import SELECTION, Choice, Selection, SelectionConfig, read_choice, select
from slatewise.selection.candidates import added, candidates_of
from slatewise.selection.forward import _round, _ScoredChoice
from slatewise.training import TrainingConfig
from tests.evaluation.test_logits import choosing_rows
from tests.model.terms.logs import dataset_of, rows_of

MODEL = ModelConfig(dimensions=2, dynamics="linear", prior="flat")
QUICK = SelectionConfig(epochs=4)
TRAINING = TrainingConfig(learning_rate=0.05)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    """A log where what was clicked before, and the position, decide."""
    return dataset_of(tmp_path_factory.mktemp("forward") / "log", choosing_rows())


@pytest.fixture(scope="module")
def found(dataset: SlateDataset) -> Selection:
    return select(dataset, MODEL, QUICK, training=TRAINING)


def test_the_causes_are_kept_and_the_rest_is_not(dataset: SlateDataset, found: Selection) -> None:
    assert {"history", "position"} <= {*found.model.terms}
    assert not {"bias", "popularity", "propensity"} & {*found.model.terms}
    assert found.rounds[0].added_to == "slate-linear-flat"
    settled = {tried.name: tried for _, tried in found.last_results()}
    assert settled["history"].low > 0
    assert set(settled) == {*candidates_of(MODEL, dataset)[0]}


def test_the_same_seed_chooses_the_same_for_the_same_reasons(dataset: SlateDataset) -> None:
    small = SelectionConfig(interactions=1_000, judged=300, epochs=1, judged_share=0.1)
    first, again = (select(dataset, MODEL, small, training=TRAINING, seed=3) for _ in range(2))
    assert first.to_json() == again.to_json()
    assert first.to_json() != select(dataset, MODEL, small, training=TRAINING, seed=4).to_json()


def test_a_choice_is_read_back(found: Selection, tmp_path: Path) -> None:
    assert read_choice(tmp_path, MODEL) is None
    found.write(tmp_path)
    assert read_choice(tmp_path, MODEL) == Choice(found.model)
    stored = json.loads((tmp_path / SELECTION).read_text())
    assert stored["rounds"][0]["tried"][0]["name"] == "bias"
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
    assert names == ["bias", "propensity", "evidence from front page", "evidence from search"]
    assert set(impossible) == {"popularity", "position"}
    grown = added(added(Choice(ModelConfig(terms=("history",))), "bias"), "evidence from search")
    assert (grown.model.terms, grown.model.evidence) == (("history", "bias"), ("search",))
    assert not grown.described


def test_features_bring_the_bias_they_speak_of(dataset: SlateDataset) -> None:
    names, _ = candidates_of(MODEL, dataset, described=True)
    assert "features" in names
    assert "features" not in candidates_of(MODEL, dataset)[0]
    described = added(Choice(MODEL), "features")
    assert (described.model.terms, described.described) == (("bias",), True)
    assert described.name == "slate-linear-flat+bias+features"
    assert added(added(Choice(MODEL), "bias"), "features") == described


def judged(value: float, spread: float) -> _ScoredChoice:
    """A score whose difference from 0 has an interval of twice the spread."""
    replicates = value + spread * np.linspace(-1, 1, 101)
    return _ScoredChoice(Choice(ModelConfig()), Estimate.of(value, replicates, 1, "users"))


def test_only_a_gain_that_can_be_told_from_none_and_is_worth_it_is_kept() -> None:
    tried = {
        "sure": judged(0.02, 0.01),
        "surest": judged(0.03, 0.01),
        "noisy": judged(0.05, 0.1),
        "tiny": judged(0.0005, 0.0001),
    }
    outcomes = {one.name: one.outcome for one in _round(judged(0, 0), tried, 0.001).tried}
    assert outcomes == {
        "sure": "tried again",
        "surest": "kept",
        "noisy": "tried again",
        "tiny": "hopeless",
    }
    del tried["sure"], tried["surest"]
    outcomes = {one.name: one.outcome for one in _round(judged(0, 0), tried, 0.001).tried}
    assert outcomes == {"noisy": "not kept", "tiny": "hopeless"}
