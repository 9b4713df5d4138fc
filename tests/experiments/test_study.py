"""A toy study whose units cost nothing shows what the framework promises."""

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from slatewise.errors import InputError, SlatewiseError
from slatewise.experiments import posterior
from slatewise.experiments.findings import Finding
from slatewise.experiments.posterior import PosteriorConfig
from slatewise.experiments.store import StudyResult, Tables
from slatewise.experiments.study import (
    STUDIES,
    Bench,
    Study,
    StudyConfig,
    Summary,
    Unit,
    find_study,
    run_study,
    study_config,
)


class ToyConfig(StudyConfig):
    factor: float = 2.0
    """What seeds are multiplied by."""


class Toy:
    """Remembers which units were run, and can be told to break at one."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.breaks_at = ""

    def units(self, config: ToyConfig) -> list[Unit]:
        return [Unit(seed, part) for seed in config.seeds for part in ("a", "b")]

    def run(self, config: ToyConfig, unit: Unit, bench: Bench) -> Tables:
        if unit.name == self.breaks_at:
            (bench.scratch / "checkpoint").write_text("half")
            raise KeyboardInterrupt
        self.ran.append(unit.name)
        row = {"seed": unit.seed, "part": unit.part, "value": config.factor * unit.seed}
        return {"values": [row], "odd": [{"nan": float("nan"), "list": [1.0, float("inf")]}]}

    def summarise(self, config: ToyConfig, tables: Tables) -> Summary:
        total = sum(row["value"] for row in tables["values"])
        finding = Finding("Is it positive?", "sum", total, total - 1, total + 1)
        return Summary({"total": [{"total": total}]}, [finding], headline="total")

    @property
    def study(self) -> Study[ToyConfig]:
        return Study("toy", "A toy", ToyConfig, self.units, self.run, self.summarise)


@pytest.fixture
def toy() -> Toy:
    return Toy()


def config(**values: object) -> ToyConfig:
    return ToyConfig.build({"seeds": (0, 1), **values}, "test")


def test_a_study_gathers_all_units_in_their_order(toy: Toy, tmp_path: Path) -> None:
    result = run_study(toy.study, config(seeds=(3, 1)), tmp_path)
    assert result.tables["values"]["value"].to_list() == [6.0, 6.0, 2.0, 2.0]
    assert result.tables["total"].rows() == [(16.0,)]
    assert [finding.verdict for finding in result.findings] == ["above"]
    about = json.loads((tmp_path / "toy" / "study.json").read_text())
    assert about["finished"] is True
    assert about["seeds"] == [3, 1]
    assert list(about["units"]) == ["seed-3-a", "seed-3-b", "seed-1-a", "seed-1-b"]
    assert all(unit["seconds"] >= 0 for unit in about["units"].values())


def test_the_raw_numbers_are_there_as_parquet_and_json(toy: Toy, tmp_path: Path) -> None:
    run_study(toy.study, config(), tmp_path)
    parquet = pl.read_parquet(tmp_path / "toy" / "values.parquet").rows(named=True)
    assert json.loads((tmp_path / "toy" / "values.json").read_text()) == parquet
    odd = pl.read_parquet(tmp_path / "toy" / "odd.parquet")
    assert odd["nan"].null_count() == odd.height
    assert odd["list"].to_list() == [[1.0, None]] * odd.height


def test_a_stopped_study_goes_on_with_what_is_missing(toy: Toy, tmp_path: Path) -> None:
    toy.breaks_at = "seed-1-a"
    with pytest.raises(KeyboardInterrupt):
        run_study(toy.study, config(), tmp_path)
    assert toy.ran == ["seed-0-a", "seed-0-b"]
    assert (tmp_path / "toy" / "unfinished" / "seed-1-a" / "checkpoint").read_text() == "half"
    with pytest.raises(InputError, match="not a finished study"):
        StudyResult.load(tmp_path / "toy")
    toy.breaks_at = ""
    run_study(toy.study, config(), tmp_path)
    assert toy.ran == ["seed-0-a", "seed-0-b", "seed-1-a", "seed-1-b"]
    assert not (tmp_path / "toy" / "unfinished").exists()


def test_stopping_changes_no_number(toy: Toy, tmp_path: Path) -> None:
    toy.breaks_at = "seed-0-b"
    with pytest.raises(KeyboardInterrupt):
        run_study(toy.study, config(), tmp_path / "stopped")
    toy.breaks_at = ""
    run_study(toy.study, config(), tmp_path / "stopped")
    run_study(toy.study, config(), tmp_path / "whole")
    for file in ("values.json", "total.json", "findings.json"):
        stopped, whole = (tmp_path / folder / "toy" / file for folder in ("stopped", "whole"))
        assert stopped.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"value": 2.0', '"value": 3.0'),
        lambda text: "[]",
    ],
    ids=["cut", "changed", "something else"],
)
def test_a_damaged_unit_is_run_again_and_named(
    damage: Callable[[str], str], toy: Toy, tmp_path: Path
) -> None:
    run_study(toy.study, config(), tmp_path)
    file = tmp_path / "toy" / "units" / "seed-1-a.json"
    before = file.read_text()
    file.write_text(damage(before))
    assert file.read_text() != before
    toy.ran, notices = [], list[str]()
    result = run_study(toy.study, config(), tmp_path, notice=notices.append)
    assert toy.ran == ["seed-1-a"]
    assert notices == ["Unit seed-1-a is damaged and is run again."]
    assert result.tables["total"].rows() == [(4.0,)]


def test_other_settings_in_the_same_place_are_refused(toy: Toy, tmp_path: Path) -> None:
    run_study(toy.study, config(), tmp_path)
    with pytest.raises(SlatewiseError, match=r"another 'factor' \(2.0, not 5.0\)") as error:
        run_study(toy.study, config(factor=5.0), tmp_path)
    assert "another directory" in error.value.remedy
    assert StudyResult.load(tmp_path / "toy").tables["total"].rows() == [(4.0,)]


def test_seeds_may_be_added(toy: Toy, tmp_path: Path) -> None:
    run_study(toy.study, config(), tmp_path)
    toy.ran = []
    result = run_study(toy.study, config(seeds=(0, 1, 2)), tmp_path)
    assert toy.ran == ["seed-2-a", "seed-2-b"]
    assert result.tables["total"].rows() == [(12.0,)]


def test_a_place_with_other_files_is_not_touched(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "thesis.txt").write_text("mine")
    with pytest.raises(SlatewiseError, match="something other"):
        run_study(toy.study, config(), tmp_path)
    assert [file.name for file in (tmp_path / "toy").iterdir()] == ["thesis.txt"]


def test_progress_counts_units(toy: Toy, tmp_path: Path) -> None:
    seen = []
    run_study(toy.study, config(), tmp_path, progress=lambda *where: seen.append(where))
    assert seen == [("toy", done, 4) for done in range(5)]


def test_several_jobs_give_the_same_numbers(tmp_path: Path) -> None:
    asked = PosteriorConfig.build(
        {"preset": "tiny", "training": {"max_epochs": 2}, "resamples": 20, "seeds": (0, 1)}, "test"
    )
    seen = []
    run_study(
        posterior.STUDY, asked, tmp_path / "two", jobs=2, progress=lambda *at: seen.append(at)
    )
    run_study(posterior.STUDY, asked, tmp_path / "one")
    assert seen == [("posterior", done, 2) for done in range(3)]
    for file in ("correlation.json", "histogram.json", "findings.json"):
        two, one = (tmp_path / folder / "posterior" / file for folder in ("two", "one"))
        assert two.read_bytes() == one.read_bytes()


def test_options_win_over_the_file_and_none_over_nothing(toy: Toy, tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text("seeds = [7]\nfactor = 3.0\n[simulation.catalogue]\nitems = 150\n")
    found = study_config(toy.study, file, preset="tiny", seeds=None, factor=4.0)
    assert (found.seeds, found.factor) == ((7,), 4.0)
    world = found.simulated(7)
    assert (world.catalogue.items, world.catalogue.groups, world.users) == (150, 10, 300)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"preset": "huge"}, "no preset 'huge'"),
        ({"truth": "wishful"}, "truth"),
        ({"seeds": []}, "seeds"),
        ({"seeds": [1, 1]}, "a seed is given twice"),
        ({"simulation": {"catalogue": {"items": 3}}}, "cannot share 3 items"),
        ({"model": {"sigma": 1}}, "no such setting"),
        ({"colour": "red"}, "no such setting"),
    ],
)
def test_settings_that_cannot_be_run_are_refused_before_anything_is(
    values: dict[str, object], problem: str
) -> None:
    with pytest.raises(SlatewiseError, match=problem):
        config(**values)


def test_an_unknown_study_is_answered_with_the_known_ones() -> None:
    with pytest.raises(SlatewiseError, match="no study 'offlin'") as error:
        find_study("offlin")
    assert all(name in error.value.remedy for name in STUDIES)


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_is_found_under_its_own_name(name: str) -> None:
    study = find_study(name)
    assert study.name == name
    names = [unit.name for unit in study.units(study.config())]
    assert len(names) == len(set(names)) > 0


def test_a_unit_cannot_leave_its_folder() -> None:
    with pytest.raises(SlatewiseError, match="cannot be the name"):
        Unit(0, "../../etc")
