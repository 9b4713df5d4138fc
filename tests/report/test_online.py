"""The sections of the online studies, from studies of sixty people."""

from pathlib import Path
from typing import Any

import pytest

from slatewise.experiments.store import StudyResult
from slatewise.experiments.study import find_study, run_study, study_config
from slatewise.report import build_report
from slatewise.report.sections import missing_search, online_models, online_strategies
from tests.experiments.worlds import SMALL

STUDIES: dict[str, dict[str, Any]] = {
    "online-models": {"variants": ["slate-gru-hier"], "days": 2},
    "missing-search": {
        **{"window": 2, "before": 1, "lost": 2, "after": 1, "shares": (0.5,)},
        # Two days without searches leave users one slate or two: all of it validates.
        "split": {"valid_share": 0.2, "test_share": 0.0, "prefix": 0},
    },
    "online-strategies": {"variants": ["slate-gru-hier"], "days": 1, "own_days": 2},
}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("online")
    for name, changes in STUDIES.items():
        study = find_study(name)
        run_study(study, study_config(study, None, **(SMALL | changes)), folder)
    return folder


def test_figure_2_has_every_day_of_every_arm(out: Path) -> None:
    result = StudyResult.load(out / "online-models")
    figure = online_models.section(result).figures[1]
    line = figure.data[-1]
    assert line["x"] == [1, 2]
    assert line["y"] == result.tables["daily"]["value"].to_list()


def test_figure_3_marks_the_lost_days(out: Path) -> None:
    shown = missing_search.section(StudyResult.load(out / "missing-search"))
    grey = shown.figures[0].layout["shapes"][0]
    assert (grey["x0"], grey["x1"]) == (1.5, 3.5)
    assert shown.tables[0].paper
    assert [figure.file for figure in shown.figures] == ["daily", "sweep", "sweep"]


def test_both_ways_of_learning_have_a_table(out: Path) -> None:
    shown = online_strategies.section(StudyResult.load(out / "online-strategies"))
    first, second = (table.title for table in shown.tables)
    assert "Table 3" in first
    assert "own" in second
    assert len(shown.figures) == 2 + 4


def test_the_page_has_all_three(out: Path) -> None:
    page = build_report(out).read_text(encoding="utf-8")
    for title in ("Table 1, right", "Table 2", "Table 3", "Figure 2", "Figure 3"):
        assert title in page
