from pathlib import Path

import polars as pl
import pytest

from slatewise.experiments.store import StudyResult
from slatewise.experiments.study import run_study
from slatewise.experiments.tuning.config import TuneConfig
from slatewise.experiments.tuning.search import STUDY
from slatewise.report import build_report
from slatewise.report.sections.tune import section


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tune")
    small = {"preset": "tiny", "trials": 4, "first": 3, "starts": 1, "resamples": 20}
    run_study(STUDY, TuneConfig.build({**small, "training": {"max_epochs": 2}}, "test"), out)
    return out


@pytest.fixture
def result(found: Path) -> StudyResult:
    return StudyResult.load(found / "tune")


def test_the_surrogate_is_drawn_as_it_was_stored(result: StudyResult) -> None:
    drawn = {figure.title: figure for figure in section(result).figures}
    assert list(drawn) == [
        "How the search went: slate-gru-hier, seed 0",
        "τ and κ_μ: slate-gru-hier, seed 0",
        "σ_max and learning rate: slate-gru-hier, seed 0",
    ]
    surface = drawn["τ and κ_μ: slate-gru-hier, seed 0"].data[0]
    stored = result.tables["contours"].filter(figure=6)
    for row, column in ((0, 3), (7, 0), (24, 24)):
        place = stored.filter(x=surface["x"][column], y=surface["y"][row])
        assert place["mean"].to_list() == [surface["z"][row][column]]
        assert place["deviation"].to_list() == [surface["customdata"][row][column]]


def test_every_trial_is_a_mark_at_its_place(result: StudyResult) -> None:
    trials = result.tables["trials"]
    marks = section(result).figures[1].data[1:]
    places = {place for mark in marks for place in zip(mark["x"], mark["y"], strict=True)}
    assert places == set(trials.select("temperature", "kappa_mu").iter_rows())
    course = section(result).figures[0].data[0]
    assert course["y"] == trials["value"].cum_max().to_list()


def test_the_paper_stands_beside_what_was_found(result: StudyResult) -> None:
    shown = {table.title: table for table in section(result).tables}
    settings = shown["The settings found, beside the paper's"]
    rate = next(row for row in settings.rows if "learning rate" in row)
    assert "0.000434" in rate
    assert "[1e-4, 1e-1]" in rate
    assert len(shown["All trials"].rows) == 4


def test_the_page_has_the_search(found: Path) -> None:
    page = build_report(found).read_text(encoding="utf-8")
    assert "Tuning: settings found by Bayesian optimisation" in page
    assert "σ_max and learning rate: slate-gru-hier, seed 0" in page


def test_stopped_trials_are_counted_and_crossed_out(result: StudyResult) -> None:
    last = pl.col("trial") == 3
    status = pl.when(last).then(pl.lit("stopped")).otherwise("status").alias("status")
    tables = result.tables | {"trials": result.tables["trials"].with_columns(status)}
    shown = section(StudyResult(result.name, result.about, tables, result.findings))
    assert "Of 4 trials 3 came to their end, 1 were stopped" in " ".join(shown.paragraphs)
    chosen = next(mark for mark in shown.figures[0].data if "surrogate" in mark["name"])
    assert chosen["marker"]["symbol"] == ["x"]
    assert "stopped" in chosen["text"][0]


def test_choosing_by_hitrate_is_warned_of(result: StudyResult) -> None:
    about = result.about | {"settings": result.about["settings"] | {"objective": "hitrate"}}
    warned = section(StudyResult(result.name, about, result.tables, result.findings))
    assert "for comparison only" in warned.paragraphs[-1]
    assert not any("for comparison only" in text for text in section(result).paragraphs)
