"""The study of exposure: what fills a log, what is known of users, what follows."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from slatewise.errors import SlatewiseError
from slatewise.experiments.exposure import (
    COMPARED,
    MODELS,
    Cells,
    ExposureConfig,
    _fill,
    histories,
    judge_greedy,
)
from slatewise.experiments.model_policy import maker_after
from slatewise.experiments.platform import Platform
from slatewise.experiments.store import StudyResult
from slatewise.experiments.study import find_study, run_study, study_config
from slatewise.model.config import ModelConfig
from slatewise.report.sections import exposure as section
from slatewise.training import TrainingConfig, fit
from tests.experiments.worlds import SMALL, bench

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


def platform(folder: Path, kind: str) -> Platform:
    config = ExposureConfig.build(QUICK | {"window": 6}, "test")
    world = config.simulated(0).model_copy(update={"search_share": 0.3})
    folder.mkdir()
    made = Platform(config, world, days=1, arms=1, folder=folder)
    _fill(config, made, kind, 0, bench(folder / "bench"))
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


def test_histories_are_in_the_order_of_time() -> None:
    log = pl.DataFrame(
        {
            "user_id": [7, 7, 3, 7, 7],
            "time": [1, 3, 1, 2, 4],
            "slate": [[1, 2], [5], [9], [3, 4], [6, 7]],
            "click": [2, 5, None, None, None],
            "source": ["search", "search", "search", "recommendation", "search"],
        }
    )
    known = histories(log, np.array([7, 8]), ["recommendation", "search"])
    assert [row.clicked.tolist() for row in known] == [[2, 5], []]
    moves = known[0].moves(np.array([0, 1]))
    assert moves.kinds.tolist() == [-1, 0, -1, 1]  # a click, and slates without one by source
    slates = np.split(moves.items, moves.offsets[1:-1])
    assert [slate.tolist() for slate in slates] == [[2], [3, 4], [5], [6, 7]]
    assert len(known[1].moves(np.array([0, 1])).kinds) == 0


def test_evidence_reaches_the_slates_that_are_judged(tmp_path: Path) -> None:
    made = platform(tmp_path / "platform", "random")
    dataset, who = made.log.dataset(0), made.population.present(0)
    model = fit(
        dataset,
        ModelConfig(dimensions=3, dynamics="linear", evidence=("search",)),
        TrainingConfig(max_epochs=1),
    )
    known = histories(made.log.before(0), who, dataset.source_names)
    rates = []
    for strength in (0.0, 3.0):
        with torch.no_grad():
            model.posterior.shared["evidence"].mean.fill_(strength)
        rates.append(
            judge_greedy(
                maker_after(model, dataset),
                made.market,
                made.population.users,
                who,
                known,
            )
        )
    moved = rates[0] != rates[1]
    searched = [0 in user.moves(np.array([-1, 0])).kinds for user in known]
    assert dataset.source_names[1] == "search"
    assert moved.any()
    assert not moved[~np.array(searched)].any()


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
