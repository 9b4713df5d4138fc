"""The study of exposure: what fills a log, what is known of users, what follows."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from slatewise.errors import SlatewiseError
from slatewise.experiments.exposure import (
    COMPARED,
    MODELS,
    Cells,
    ExposureConfig,
    fill_log,
)
from slatewise.experiments.platform import Platform
from slatewise.experiments.store import StudyResult
from slatewise.experiments.study import find_study, run_study, study_config
from slatewise.report.sections import exposure as section
from tests.experiments.worlds import CHURN, SMALL, bench

QUICK: dict[str, Any] = SMALL | {
    "users": 60,
    "simulation": {},
    "shares": [0.5],
    "models": ["slate", "slate+bias", "slate+search"],
}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    study = find_study("exposure")
    return run_study(study, study_config(study, None, **QUICK), tmp_path_factory.mktemp("exposure"))


def test_every_model_is_judged_under_every_kind(result: StudyResult) -> None:
    rates = result.tables["rates"].filter(pl.col("search_share").is_null())
    assert rates.height == 3 * 3
    assert rates["value"].is_between(0, 1).all()
    compared = [pair for pair in COMPARED if {*pair} <= {"slate", "slate+bias", "slate+search"}]
    assert len(result.findings) == 3 * len(compared)
    shown = section.section(result)
    assert len(shown.figures) == 3
    assert [row[0] for row in shown.tables[0].rows] == ["slate", "slate+bias", "slate+search"]


def platform(folder: Path, kind: str, **changes: Any) -> Platform:
    config = ExposureConfig.build(QUICK | {"window": 6} | changes, "test")
    world = config.simulated(0).model_copy(update={"search_share": 0.3})
    folder.mkdir()
    made = Platform(config, world, days=1, arms=1, folder=folder)
    fill_log(config, made, kind, 0, bench(folder / "bench"))
    return made


def recommended(made: Platform, days: range) -> set[tuple[int, ...]]:
    slates = pl.concat([made.log.days[day] for day in days]).filter(source="recommendation")
    return {tuple(slate[:3]) for slate in slates["slate"].to_list()}


def test_a_feedback_loop_begins_at_random_and_goes_on_with_models(tmp_path: Path) -> None:
    loop, chance = platform(tmp_path / "loop", "feedback"), platform(tmp_path / "chance", "random")
    assert sorted(loop.log.days) == sorted(chance.log.days) == list(range(-6, 0))
    first, later = range(-6, -4), range(-4, 0)
    assert recommended(loop, first) == recommended(chance, first)
    # A model shows many users the same; chance hardly ever does.
    shown, drawn = recommended(loop, later), recommended(chance, later)
    assert len(shown) < 0.7 * len(drawn)


def test_where_items_come_and_go_one_page_is_promoted_to_all(tmp_path: Path) -> None:
    made = platform(tmp_path / "promoted", "promoted", simulation=CHURN, users=200, window=3)
    log = pl.concat(made.log.days.values()).filter(source="recommendation")
    pages = log.group_by("time").agg(pl.col("slate").list.first().n_unique().alias("first"))
    assert log.height > pages.height
    assert (pages["first"] == 1).all()
    assert log["slate"].list.first().n_unique() > 1  # what is new goes on top
    page = log.filter(pl.col("time") == pl.col("time").max())["slate"].list.get(0)[0]
    assert made.market.life is not None
    hours = made.moment(-0.5 / 12).hours
    published = made.market.life.published
    assert published[page] == published[published <= hours].max()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kinds": ["magic"]}, "no kind 'magic'"),
        ({"models": ["magic"]}, "no model 'magic'"),
        ({"shares": [1.0]}, "between 0 and 1"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SlatewiseError, match=message):
        ExposureConfig.build(changes, "test")


def test_differences_are_those_of_the_rates() -> None:
    config = ExposureConfig.build(
        {"seeds": (0,), "kinds": ["random"], "shares": [0.2, 0.8]}, "test"
    )
    rng = np.random.default_rng(0)
    level = {model: 0.1 * number for number, model in enumerate(MODELS)}
    judged = [
        {"seed": 0, "kind": "random", "search_share": share, "arm": model}
        | {"users": list(range(50)), "expected": (value + share / 10 + rng.normal(0, 1e-3, 50))}
        for share in config.shares
        for model, value in level.items()
    ]
    found = Cells(config, judged)
    for row in found.differences():
        assert row["value"] == pytest.approx(level[row["first"]] - level[row["second"]], abs=2e-3)
    whole = {row["model"]: row["value"] for row in found.rates() if row["search_share"] is None}
    assert whole == pytest.approx({model: value + 0.05 for model, value in level.items()}, abs=1e-3)
