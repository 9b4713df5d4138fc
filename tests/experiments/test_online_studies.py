"""The three online studies from their units to their findings, in worlds of sixty people."""

from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from slatewise.cli import experiment
from slatewise.errors import SlatewiseError
from slatewise.experiments.missing_search import AFTER, BEFORE, LEAVING, LOST, MISSING
from slatewise.experiments.store import StudyResult
from slatewise.experiments.study import (
    Unit,
    find_study,
    run_study,
    study_config,
)
from tests.experiments.worlds import CHURN, SMALL, bench


def config(name: str, **changes: Any) -> Any:
    return study_config(find_study(name), None, **(SMALL | changes))


def result(name: str, folder: Path, **changes: Any) -> StudyResult:
    return run_study(find_study(name), config(name, **changes), folder)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    folder = tmp_path_factory.mktemp("models")
    variants = ["slate-gru-hier", "all-item-gru-hier"]
    return result("online-models", folder, variants=variants, days=2, seeds=(0, 1))


@pytest.fixture(scope="module")
def missing(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    folder = tmp_path_factory.mktemp("missing")
    short = {"window": 3, "before": 1, "lost": 1, "after": 1, "shares": (0.8, 0.0)}
    return result("missing-search", folder, **short)


@pytest.fixture(scope="module")
def strategies(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    folder = tmp_path_factory.mktemp("strategies")
    few = {"variants": ["slate-gru-hier"], "days": 1, "own_days": 3, "own_users": 50}
    return result("online-strategies", folder, **few)


def test_models_are_set_beside_the_paper(models: StudyResult) -> None:
    table = models.tables["table1"]
    assert table["paper: click rate"].to_list() == ["15.6 %", "17.0 %"]
    assert table["algorithm"].to_list() == ["slate-gru-hier-greedy", "all-item-gru-hier-greedy"]
    assert models.tables["shown"]["seed"].unique().sort().to_list() == [0, 1]


def test_days_add_up_to_the_whole(models: StudyResult) -> None:
    daily = models.tables["daily"]
    for row in models.tables["rates"].filter(measure="clicks").to_dicts():
        mine = daily.filter(arm=row["arm"])
        assert mine["served"].sum() == row["served"]
        assert mine["clicks"].sum() == row["clicks"]


def test_only_questions_about_arms_that_are_there_are_asked(models: StudyResult) -> None:
    assert len(models.findings) == 1
    assert models.findings[0].paper == "above"


def test_periods_say_when_the_window_lacks_the_lost_days() -> None:
    settings = config("missing-search", window=28, before=7, lost=7, after=7)
    periods = settings.periods()
    assert [day for days in periods.values() for day in days] == list(range(49))
    lost = set(periods[LOST])
    for name, days in periods.items():
        for day in days:
            gone = lost & set(range(day - 28, day))
            if name in (BEFORE, AFTER):
                assert not gone
            if name == MISSING:
                assert gone == lost
            if name == LEAVING:
                assert 0 < len(gone) < 7


def test_the_lost_days_are_missing_from_the_nights_that_need_them(missing: StudyResult) -> None:
    periods = config("missing-search", window=3, before=1, lost=1, after=1).periods()
    shares = {
        row["day"]: row["search_share"]
        for row in missing.tables["nights"].filter(variant="slate-gru-hier").to_dicts()
    }
    assert all(shares[day] < 0.77 for day in periods[MISSING])
    assert all(shares[day] > 0.7 for day in (*periods[BEFORE], *periods[AFTER]))
    assert max(shares[day] for day in periods[MISSING]) < min(
        shares[day] for day in (*periods[BEFORE], *periods[AFTER])
    )


def test_relative_click_rates_are_those_of_the_two_arms(missing: StudyResult) -> None:
    rates = {
        (row["arm"], row["period"]): row["value"]
        for row in missing.tables["rates"].filter(measure="expected").to_dicts()
    }
    for row in missing.tables["relative"].filter(measure="expected").to_dicts():
        all_item, slate = (
            rates[f"{name}-gru-hier-greedy", row["period"]] for name in ("all-item", "slate")
        )
        assert row["value"] == pytest.approx(all_item / slate)


def test_every_share_of_search_is_judged_on_everybody(missing: StudyResult) -> None:
    shares = missing.tables["shares"]
    assert shares.select("search_share", "arm").rows() == [
        (share, f"{name}-gru-hier") for share in (0.8, 0.0) for name in ("slate", "all-item")
    ]
    for row in shares.to_dicts():
        assert len(row["users"]) == len(row["expected"]) > 40
        assert all(0 < probability < 1 for probability in row["expected"])
    swept = missing.tables["sweep"].to_dicts()
    mean = np.mean(shares["expected"].to_list()[0])
    assert swept[0]["value"] == pytest.approx(mean)


def test_a_week_lost_and_every_share_are_findings(missing: StudyResult) -> None:
    papers = [finding.paper for finding in missing.findings]
    assert papers == ["above", "below", "above", "below", None, None]
    assert all(finding.reference == 1 for finding in missing.findings)


def test_strategies_are_compared_with_greedy_in_both_parts(strategies: StudyResult) -> None:
    assert [finding.paper for finding in strategies.findings] == ["above", "equal", None, None]
    assert strategies.tables["table3_pooled"]["paper: click rate"].to_list() == [
        "20.2 %",
        "20.9 %",
        "20.0 %",
    ]
    headline = strategies.tables["headline"]
    assert not any("[" in str(value) for row in headline.rows() for value in row)
    assert "expected, last day" in strategies.tables["table3_own"].columns


def test_the_table_of_strategies_fits_80_columns(
    strategies: StudyResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With the longest names that the study has.
    rows = strategies.tables["headline"].with_columns(
        pl.col("algorithm").str.replace("^slate", "all-item")
    )
    screen = Console(width=80, file=StringIO())
    monkeypatch.setattr(experiment, "console", screen)
    with screen.capture() as printed:
        screen.print(experiment._shown("Online", replace(strategies, tables={"headline": rows})))
    lines = printed.get().splitlines()
    assert len(lines) == 2 + len(rows)  # title and headings: no cell is broken
    assert max(map(len, lines)) <= 80
    for line, row in zip(lines[2:], rows.iter_rows(), strict=True):
        assert line.split() == " ".join(row).split()


def test_arms_that_learn_alone_have_the_same_people_and_warm_up(strategies: StudyResult) -> None:
    own = strategies.tables["nights"].filter(part="own", day=0)
    assert own.height == 3
    assert own["interactions"].n_unique() == 1
    assert own["validation_log_likelihood"].n_unique() == 1
    for day in range(3):  # chance is the same for all; what they are shown is not
        shown = strategies.tables["shown"].filter(part="own", day=day)
        assert shown["users"].n_unique() == shown["slates"].n_unique() == 1
        assert shown["expected"].n_unique() == 3


def test_diversity_is_averaged_over_slates(strategies: StudyResult) -> None:
    slates = strategies.tables["slates"].filter(part="own")
    for row in strategies.tables["varied"].filter(part="own").to_dicts():
        mine = slates.filter(arm=row["arm"])
        weights = mine["slates"].to_numpy()
        groups = np.average(mine["distinct_groups"].to_numpy(), weights=weights)
        assert row["distinct_groups"] == pytest.approx(groups)
        assert 0 < row["coverage"] <= 1


def test_a_part_of_no_days_is_left_out() -> None:
    study = find_study("online-strategies")
    assert study.units(config("online-strategies", own_days=0)) == [Unit(0, "pooled")]
    own = study.units(config("online-strategies", days=0))
    assert len(own) == 6
    assert all(unit.part.startswith("own-") for unit in own)


@pytest.mark.parametrize(
    ("name", "changes", "problem"),
    [
        ("online-models", {"dataset": "somewhere"}, "does not answer"),
        ("online-models", {"item_features": True}, "no features"),
        ("online-models", {"variants": ["slate-lstm"]}, "no variant"),
        ("online-strategies", {"strategies": ["random"]}, "no strategy"),
        ("online-strategies", {"strategies": ["greedy", "greedy"]}, "given twice"),
        ("missing-search", {"lost": 1, "shares": [1.5]}, "from 0 to 1"),
        ("missing-search", {"lost": 5}, "more days are lost"),
        ("online-strategies", {"days": 0, "own_days": 0}, "nothing would be run"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    name: str, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SlatewiseError, match=problem):
        config(name, **changes)


def test_both_truths_can_be_chosen(tmp_path: Path) -> None:
    study = find_study("missing-search")
    for truth in ("paper", "outside"):
        settings = config("missing-search", truth=truth, lost=1)
        tables = study.run(settings, Unit(0, "share-0.5"), bench(tmp_path / truth))
        assert len(tables["shares"]) == 2


def test_studies_run_where_items_come_and_go(tmp_path: Path) -> None:
    world = {**CHURN, "catalogue": CHURN["catalogue"] | {"mislabelled": 1.0}}
    few = {"variants": ["slate-linear-hier"], "strategies": ["greedy", "in-slate-thompson"]}
    terms = {"dimensions": 3, "terms": ["bias", "popularity", "co_clicks"]}
    churn = {"simulation": world, "model": terms, "item_features": True, "days": 2, "own_days": 0}
    found = result("online-strategies", tmp_path, **few, **churn)
    assert found.tables["shown"].height == 2 * 2
    # Of what is shown on the second day, some had not been published when the night began.
    assert (found.tables["slates"]["little_seen"] > 0).all()
    assert all("no verdict from 1 world" in one.sentence() for one in found.findings)


def test_the_demo_of_exploring_has_the_worlds_that_a_verdict_takes() -> None:
    """Over five worlds the interval of its nine days has 0 in it, over eight it has not."""
    file = Path(__file__).parents[2] / "examples" / "exploring.toml"
    settings = study_config(find_study("online-strategies"), file)
    assert len(settings.seeds) >= 8
