from pathlib import Path
from typing import Any

import polars as pl
import pytest

from slatewise.config import read_toml
from slatewise.data.dataset import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.evaluation import ModelRecommender, evaluate
from slatewise.experiments.store import StudyResult
from slatewise.experiments.study import run_study
from slatewise.experiments.tuning import search
from slatewise.experiments.tuning.config import TuneConfig
from slatewise.experiments.tuning.search import STUDY, best_trial
from slatewise.experiments.tuning.trials import Trial, TrialLog
from slatewise.model.config import ModelConfig
from slatewise.training import fit
from slatewise.training.config import TrainingConfig
from tests.experiments.conftest import QUICK
from tests.experiments.tuning.conftest import MakeTrial
from tests.model.terms.logs import dataset_of, rows_of

SMALL: dict[str, Any] = {"trials": 5, "first": 3, "starts": 2, "resamples": 50, "training": QUICK}


def config(dataset: SlateDataset, **changes: object) -> TuneConfig:
    return TuneConfig.build({**SMALL, "dataset": dataset.path, **changes}, "test")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory, tiny: SlateDataset) -> Path:
    """A search for two variants that ran in one go."""
    folder = tmp_path_factory.mktemp("search")
    run_study(STUDY, config(tiny, variants=("slate-gru-hier", "slate-gru-flat")), folder)
    return folder


@pytest.fixture
def result(out: Path) -> StudyResult:
    return StudyResult.load(out / "tune")


def test_the_defaults_come_first_then_sobol_then_the_surrogate(result: StudyResult) -> None:
    trials = result.tables["trials"].filter(variant="slate-gru-hier")
    assert trials["trial"].to_list() == [0, 1, 2, 3, 4]
    assert trials["origin"].to_list() == ["defaults", "sobol", "sobol", "model", "model"]
    default = ModelConfig()
    row = trials.row(0, named=True)
    assert row["learning_rate"] == TrainingConfig().rate
    for name in ("sigma_max", "temperature", "sigma_rnn", "kappa_mu", "kappa_sigma"):
        assert row[name] == getattr(default, name)
        assert trials[name].n_unique() > 2


def test_every_variant_has_the_same_budget(result: StudyResult) -> None:
    trials = result.tables["trials"]
    assert trials["variant"].value_counts()["count"].to_list() == [5, 5]
    assert trials["epochs"].max() == QUICK["max_epochs"]
    assert result.tables["dataset"].height == 1
    flat = trials.filter(variant="slate-gru-flat")
    assert flat["kappa_mu"].null_count() == flat.height
    assert flat["sigma_v"].null_count() == 0


def test_a_trial_is_the_training_that_its_settings_give(
    result: StudyResult, tiny: SlateDataset
) -> None:
    fitted = fit(tiny, ModelConfig(), TrainingConfig(**QUICK), seed=0)
    first = result.tables["trials"].row(0, named=True)
    assert first["value"] == fitted.metrics["validation_log_likelihood"]


@pytest.mark.parametrize("variant", ["slate-gru-hier", "slate-gru-flat"])
def test_the_best_settings_train_to_the_value_of_the_best_trial(
    out: Path, result: StudyResult, tiny: SlateDataset, variant: str
) -> None:
    document = read_toml(out / "tune" / f"best-{variant}-seed-0.toml")
    model = ModelConfig.build(document["model"], "model")
    training = TrainingConfig.build(document["training"], "training")
    assert model.name == variant
    fitted = fit(tiny, model, training, seed=0)
    trials = result.tables["trials"].filter(variant=variant)
    assert fitted.metrics["validation_log_likelihood"] == trials["value"].max()


def test_a_stopped_search_goes_on_with_the_trials_it_would_have_had(
    result: StudyResult, tiny: SlateDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []
    train = search.run_trial

    def stop_at_fourth(*arguments: Any, **options: Any) -> Trial:
        ran.append(options["number"])
        if options["number"] == 3 and ran.count(3) == 1:
            raise KeyboardInterrupt
        return train(*arguments, **options)

    monkeypatch.setattr(search, "run_trial", stop_at_fourth)
    with pytest.raises(KeyboardInterrupt):
        run_study(STUDY, config(tiny), tmp_path)
    aside = tmp_path / "tune" / "unfinished" / "seed-0-slate-gru-hier"
    kept = TrialLog(aside / "trials.json").trials
    assert [trial.number for trial in kept] == [0, 1, 2]
    assert all(trial.seconds > 0 for trial in kept)
    resumed = run_study(STUDY, config(tiny), tmp_path)
    assert ran == [0, 1, 2, 3, 3, 4]
    # The other search also has a flat variant, whose setting is a column of its own.
    whole = result.tables["trials"].filter(variant="slate-gru-hier").drop("sigma_v")
    assert resumed.tables["trials"].equals(whole)
    contours = result.tables["contours"].filter(variant="slate-gru-hier")
    assert resumed.tables["contours"].equals(contours)


def test_the_best_is_held_against_the_defaults_on_test_users(
    result: StudyResult, tiny: SlateDataset
) -> None:
    judged = result.tables["judged"].filter(variant="slate-gru-hier", metric="log_likelihood")
    assert judged["start"].to_list() == [0, 0, 1, 1]
    defaults = fit(tiny, ModelConfig(), TrainingConfig(**QUICK), seed=2_000)
    expected = evaluate(ModelRecommender(defaults), tiny, part="test", resamples=50)
    row = judged.row(by_predicate=(pl.col("start") == 1) & (pl.col("settings") == "defaults"))
    assert row[judged.columns.index("value")] == expected["log_likelihood"].value
    sides = judged.pivot("settings", index="start", values="value")
    finding = result.findings[0]
    assert "log-likelihood, found minus defaults" in finding.measure
    assert finding.value == pytest.approx((sides["found"] - sides["defaults"]).mean())
    assert finding.low <= finding.value <= finding.high


def test_worlds_are_pooled_one_by_one(tmp_path: Path) -> None:
    settings = {**SMALL, "trials": 1, "preset": "tiny", "seeds": (0, 1)}
    found = run_study(STUDY, TuneConfig.build(settings, "test"), tmp_path)
    assert found.tables["trials"]["seed"].to_list() == [0, 1]
    assert found.findings[0].note == "0 of 2 seeds above 0"
    # The only trial has the defaults: there is nothing to gain.
    assert found.tables["differences"]["value"].to_list() == [0.0, 0.0]
    assert "contours" not in found.tables


def test_hitrate_can_be_searched_for_and_is_warned_of(tiny: SlateDataset, tmp_path: Path) -> None:
    chosen = config(tiny, objective="hitrate", trials=2, starts=1, k=7)
    found = run_study(STUDY, chosen, tmp_path)
    fitted = fit(tiny, ModelConfig(), TrainingConfig(**QUICK), seed=0)
    expected = evaluate(ModelRecommender(fitted), tiny, part="validation", k=7)
    first = found.tables["trials"].row(0, named=True)
    assert first["value"] == expected["hitrate@7"].value
    assert first["validation"] == fitted.metrics["validation_log_likelihood"]
    assert "hitrate" in found.tables["headline"].columns
    assert all("chosen by hitrate" in finding.note for finding in found.findings)


def test_a_model_without_its_sources_is_left_out_and_named(
    tiny: SlateDataset, tmp_path: Path
) -> None:
    unknown = config(
        tiny, variants=("source-aware-gru-hier",), model={"exposure": {"carousel": 1.0}}
    )
    found = run_study(STUDY, unknown, tmp_path)
    assert found.tables["left_out"]["why"].to_list() == ["no slate comes from 'carousel'"]
    assert not found.findings


def test_a_search_without_a_completed_trial_is_refused(make_trial: MakeTrial) -> None:
    assert best_trial([make_trial(0, -2.0), make_trial(1, -1.0), make_trial(2, None)]).number == 1
    with pytest.raises(SlatewiseError, match="no trial came to its end"):
        best_trial([make_trial(0, None)])


@pytest.mark.parametrize("objective", ["hitrate", "validation-likelihood"])
def test_a_model_with_popularity_and_history_can_be_tuned(objective: str, tmp_path: Path) -> None:
    log = dataset_of(tmp_path / "log", rows_of(0))
    terms = {"terms": ["popularity", "history"], "half_lives": [2.0], "dimensions": 3}
    small = {"trials": 1, "first": 1, "starts": 1, "model": terms, "k": 3}
    run_study(
        STUDY,
        config(log, variants=("slate-gru-hier",), objective=objective, **small),
        tmp_path / "out",
    )
    (trial,) = StudyResult.load(tmp_path / "out" / "tune").tables["trials"].to_dicts()
    assert trial["status"] == "completed"


def test_trials_that_run_at_once_are_handed_over_together(
    tiny: SlateDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_trial: MakeTrial
) -> None:
    handed: list[list[int]] = []

    def each(work: Any, tasks: Any) -> list[Any]:
        handed.append([number for number, _, _ in tasks])
        return [work(task) for task in reversed(tasks)][::-1]

    def tried(*arguments: Any, number: int, **options: Any) -> Trial:
        return make_trial(number, -1.6 - number / 100, arguments[2])

    monkeypatch.setattr(search, "run_trial", tried)
    settings = config(tiny, trials=5, first=5, at_once=2, starts=1)
    found = run_study(STUDY, settings, tmp_path, each=each)
    assert handed == [[0, 1], [2, 3], [4]]
    trials = found.tables["trials"]
    assert trials["trial"].to_list() == [0, 1, 2, 3, 4]
    assert trials["learning_rate"].n_unique() == 5
