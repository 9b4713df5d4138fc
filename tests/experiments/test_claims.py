"""Where the paper's claims hold: the grid, the answers, and the maps."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from slatewise.errors import SlatewiseError
from slatewise.experiments.claims import NO, OPEN, STUDY, TURN, YES, ClaimsConfig, regimes
from slatewise.experiments.store import Row, StudyResult
from slatewise.experiments.study import run_study, study_config
from slatewise.report import build_report
from slatewise.report.sections import claims
from tests.experiments.worlds import SMALL

GRID: dict[str, Any] = {
    **{"lives": (0.0, 48.0), "shares": (0.0, 0.8)},
    "simulation": {"days": 10},
}


def shown(rates: dict[tuple[float, float], dict[str, float]]) -> list[Row]:
    """Return what arms of given click rates were judged by, in three worlds of 40 users."""
    rows = []
    for (life, search), arms in rates.items():
        for seed in range(3):
            noise = np.random.default_rng([seed, int(10 * search)]).normal(0, 0.002, 40)
            for arm, rate in arms.items():
                rows.append(
                    {"life": life, "search": search, "kind": "site", "part": "pooled", "arm": arm}
                    | {"seed": seed, "day": 0, "users": list(range(40)), "slates": [1] * 40}
                    | {"expected": (rate + noise).tolist(), "served": [1] * 40, "clicks": [0] * 40}
                )
    return rows


def nights(rates: dict[tuple[float, float], Any]) -> list[Row]:
    """Return a night of each site, with 7 views an item."""
    return [
        {"life": life, "search": search, "kind": "site", "part": "pooled", "views_per_item": 7.0}
        for life, search in rates
    ]


def test_a_claim_holds_where_its_interval_is_above_zero_and_turns_where_it_turns() -> None:
    config = ClaimsConfig.build(SMALL | GRID | {"days": 1, "seeds": (0, 1, 2)}, "test")
    slate, linear = "slate-gru-hier-greedy", "slate-linear-hier-greedy"
    all_item, thompson = "all-item-gru-hier-greedy", "slate-gru-hier-in-slate-thompson"
    lasting = {slate: 0.2, linear: 0.18, thompson: 0.2}
    passing = {slate: 0.2, linear: 0.21, thompson: 0.24}
    rates = {
        (0.0, 0.0): lasting | {all_item: 0.15},
        (0.0, 0.8): lasting | {all_item: 0.25},
        (48.0, 0.0): passing | {all_item: 0.25},
        (48.0, 0.8): passing | {all_item: 0.25},
    }
    found = STUDY.summarise(config, {"shown": shown(rates), "nights": nights(rates)})
    holds = {
        (row["claim"], row["life"], row["search"]): row["holds"] for row in found.tables["map"]
    }
    assert [holds["gru", life, 0.0] for life in (0.0, 48.0)] == [YES, NO]
    assert [holds["all-item", 0.0, share] for share in (0.0, 0.8)] == [NO, YES]
    assert [holds[TURN, life, 0.0] for life in (0.0, 48.0)] == [YES, NO]
    assert [holds["in-slate", life, 0.8] for life in (0.0, 48.0)] == [OPEN, YES]
    assert {row["views_per_item"] for row in found.tables["map"]} == {7.0}
    turned = next(row for row in found.tables["map"] if row["claim"] == TURN)
    assert turned["by_seed"] == pytest.approx([0.1] * 3)
    assert turned["low"] > 0.09
    means = {
        (row["claim"], row["axis"], row["level"]): row["value"] for row in found.tables["means"]
    }
    assert means["gru", "all", "all"] == pytest.approx(0.005)
    assert means["gru", "life", "48.0"] == pytest.approx(-0.01)
    assert means["all-item", "search", "0.8"] == pytest.approx(0.05)
    notes = {finding.question: finding.note for finding in found.findings}
    assert "lives of 48 h, 80% search" in notes["In most regimes: in-slate Thompson over greedy?"]
    assert found.tables["headline"][0][YES] == 2


def test_the_lead_may_grow_and_not_turn() -> None:
    config = ClaimsConfig.build(SMALL | GRID | {"days": 1, "seeds": (0, 1, 2)}, "test")
    slate, all_item = "slate-gru-hier-greedy", "all-item-gru-hier-greedy"
    rates = {
        (0.0, 0.0): {slate: 0.2, all_item: 0.2},
        (0.0, 0.8): {slate: 0.2, all_item: 0.25},
    }
    found = STUDY.summarise(config, {"shown": shown(rates), "nights": nights(rates)})
    turned = next(row for row in found.tables["map"] if row["claim"] == TURN)
    assert turned["low"] > 0
    assert turned["holds"] == OPEN


def test_the_report_says_what_a_site_should_expect() -> None:
    config = ClaimsConfig.build(SMALL | GRID | {"days": 1, "seeds": (0, 1, 2)}, "test")
    slate, linear = "slate-gru-hier-greedy", "slate-linear-hier-greedy"
    rates = {
        (life, search): {slate: 0.2, linear: 0.2 - (0.03 if life else -0.01)}
        for life in (0.0, 48.0)
        for search in (0.0, 0.8)
    }
    found = STUDY.summarise(config, {"shown": shown(rates), "nights": nights(rates)})
    tables = {name: pl.DataFrame(rows) for name, rows in found.tables.items()}
    about = {"title": "Claims", "settings": config.model_dump(mode="json")}
    (text,) = claims.section(StudyResult("claims", about, tables, [])).paragraphs[2:]
    assert text == (
        "GRU dynamics over linear ones: it holds in 2 of 4 sites, the opposite in 2. Over all "
        "sites expect +1.0 [+1.0, +1.0] points. It depends most on the life of items: "
        "for ever −1.0 [−1.0, −1.0]; 48 h +3.0 [+3.0, +3.0]."
    )


@pytest.mark.parametrize("worlds", [1, 2])
def test_nothing_follows_from_few_worlds(worlds: int) -> None:
    config = ClaimsConfig.build(SMALL | GRID | {"days": 1}, "test")
    arms = {"slate-gru-hier-greedy": 0.4, "slate-linear-hier-greedy": 0.1}
    rows = [row for row in shown({(0.0, 0.0): arms}) if row["seed"] < worlds]
    found = STUDY.summarise(config, {"shown": rows, "nights": nights({(0.0, 0.0): arms})})
    assert [row["holds"] for row in found.tables["map"]] == [OPEN]
    assert "no regime" in found.findings[0].note


def test_the_grid_has_every_site_and_its_settings() -> None:
    groups = {"simulation": {"catalogue": {"groups": 7}}}
    kinds = {"usual": {"offered": 100}, "busy": {"offered": 60, "slates_a_day": 5.0} | groups}
    config = ClaimsConfig.build(SMALL | GRID | {"own_days": 2, "kinds": kinds}, "test")
    assert len(regimes(config)) == 8
    assert len(STUDY.units(config)) == 8 * 3
    sites = [regime.of(config) for regime in regimes(config)]
    worlds = [site.simulated(0) for site in sites]
    assert [world.search_share for world in worlds[:4]] == [0.0, 0.8, 0.0, 0.8]
    assert [world.life.hours for world in worlds[:4]] == [0.0, 0.0, 48.0, 48.0]
    assert [round(world.alive) for world in worlds] == [100] * 4 + [60] * 4
    assert [site.slates_a_day for site in sites[3:5]] == [config.slates_a_day, 5.0]
    assert [world.catalogue.groups for world in worlds[4:]] == [7] * 4
    with pytest.raises(SlatewiseError, match="few-life-48-search-0: simulation: about"):
        ClaimsConfig.build(SMALL | GRID | {"lives": (48.0,), "kinds": {"few": {"offered": 9}}}, "")
    with pytest.raises(SlatewiseError, match="kinds"):
        ClaimsConfig.build(SMALL | GRID | {"kinds": {"no/name": {}}}, "test")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run a grid of one site."""
    folder = tmp_path_factory.mktemp("claims")
    site = {"lives": (0.0,), "shares": (0.3,), "kinds": {"site": {"offered": 200}}, "days": 1}
    run_study(STUDY, study_config(STUDY, None, **(SMALL | site)), folder)
    return folder


def test_the_study_runs_and_is_drawn(out: Path) -> None:
    result = StudyResult.load(out / "claims")
    assert set(result.tables["map"]["claim"]) == {"gru", "all-item", "in-slate"}
    drawn = claims.section(result)
    assert len(drawn.figures) == 3
    assert drawn.figures[0].data[0]["x"] == ["30%"]
    assert "*" not in drawn.figures[0].data[0]["text"][0][0]  # one world says nothing
    row = result.tables["map"].row(0, named=True)
    assert row["views_per_item"] > 0
    assert {"smallest", "live_slates"} <= set(row)
    assert "Where: GRU dynamics over linear ones" in build_report(out).read_text(encoding="utf-8")
