"""The grid of claims can be stopped, moved and resumed, and only whole worlds count."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from slatewise.experiments.claims import STUDY
from slatewise.experiments.findings import WORLDS
from slatewise.experiments.store import Store

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(FOLDER))
    known = set(sys.modules)
    yield importlib.import_module("claims")
    for name in {"claims", "harness", "drawing"} & (set(sys.modules) - known):
        del sys.modules[name]


def test_the_grids_of_the_examples_have_worlds_enough_for_a_verdict(claims: Any) -> None:
    for file in (FOLDER.parent / "examples").glob("claims*.toml"):
        config = claims.config_of(None, file)
        assert len(config.seeds) >= WORLDS
        assert {0.0, 0.8} <= set(config.shares)


def test_worlds_that_are_not_finished_are_left_out_after_a_move(
    claims: Any, tmp_path: Path
) -> None:
    config = claims.config_of("0,1")
    store = Store(tmp_path / "here")
    store.begin({"settings": {}})
    for unit in STUDY.units(config)[:-1]:
        store.keep(unit.name, {"nights": [{"seed": unit.seed}]}, 3.0, 6.0)
    claims.pack(tmp_path / "here", tmp_path / "units.json.gz", {"commit": "abc"})
    claims.unpack(tmp_path / "there", tmp_path / "units.json.gz")
    found, tables, minutes = claims.gathered(config, tmp_path / "there")
    assert found.seeds == (0,)
    assert {row["seed"] for row in tables["nights"]} == {0}
    assert minutes == pytest.approx(len(STUDY.units(config)) / 2 * 6 / 60)
    assert '"abc"' in (tmp_path / "there" / "run.json").read_text()


def test_the_boundary_runs_where_the_sign_changes(claims: Any, tmp_path: Path) -> None:
    cell = claims.drawing.Cell
    cells = [[cell(0.02, True), cell(-0.01, True)], [cell(0.03, True), cell(0.01, False)]]
    panel = claims.drawing.Map("a claim", ["0 %", "80 %"], ["48 h", "for ever"], cells)
    claims.drawing.maps(tmp_path / "map.svg", "maps", [[panel]])
    drawn = ElementTree.parse(tmp_path / "map.svg").getroot()
    lines = [one for one in drawn if one.tag.endswith("line")]
    assert [one.get("stroke-dasharray") is None for one in lines] == [True, False]
    assert {"+2.0*", "−1.0*", "+1.0"} <= {one.text for one in drawn if one.tag.endswith("text")}


def test_rows_stand_by_holms_correction(claims: Any) -> None:
    def row(value: float, reach: float) -> dict[str, Any]:
        holds = "holds" if value > reach else "cannot be told"
        ends = {"low": value - reach, "high": value + reach}
        return {"value": value, **ends, "holds": holds, "by_seed": [value] * 6}

    rows = [row(1.0, 0.9), row(1.0, 0.1), row(0.1, 0.5), row(1.0, 0.45), row(0.0, 0.0)]
    claims.correct(rows)
    # Student's t with 5 degrees of freedom; one of .05 has the edge of its interval at 0.
    assert rows[0]["p"] == pytest.approx(2 * 0.01778, abs=1e-4)
    assert [one["stands"] for one in rows] == [False, True, False, True, False]
    edge = row(1.0, 1.0)
    claims.correct([edge])
    assert edge["p"] == pytest.approx(0.05, abs=1e-6)
