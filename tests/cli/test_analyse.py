"""`slatewise analyse`, as a person types it."""

import json
from pathlib import Path

import pytest

from slatewise.service.settings import ArmConfig
from slatewise.service.store import Store
from tests.cli.conftest import Run
from tests.service.analysis.log import fill
from tests.service.analysis.test_estimates import MIX, run_arm

SETTINGS = """
[arms.only]
strategy = "epsilon-mix"
epsilon = 0.5
[arms.resting]
share = 0
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a service that ran for a while, and its settings."""
    folder = tmp_path_factory.mktemp("analyse")
    run_arm(folder / "shop", MIX, 80)
    (folder / "service.toml").write_text(SETTINGS)
    return folder


def test_tables_show_rates_variety_days_and_an_arm_that_did_not_run(folder: Path, run: Run) -> None:
    target = "--estimate", "strategy=greedy", "--slates", 100, "--draws", 20
    code, out, errors = run(
        "analyse", folder / "shop", "--config", folder / "service.toml", *target
    )
    assert (code, errors) == (0, "")
    for words in ("only", "Against only", "Variety", "by day", "greedy over model main", "ips"):
        assert words in out
    assert "From 100 slates" in out


def test_json_has_the_same_numbers(folder: Path, run: Run) -> None:
    where = "analyse", folder / "shop", "--config", folder / "service.toml"
    code, out, _ = run(*where, "--json", "--estimate", "strategy=greedy", "--slates", 50)
    found = json.loads(out)
    assert code == 0
    assert found["arms"]["only"]["slates"] == 160
    assert found["arms"]["resting"]["click_rate"]["value"] is None
    day = next(iter(found["daily"].values()))["only"]
    assert day["diversity"]["items"] == found["arms"]["only"]["diversity"]["items"]
    assert day["click_rate"]["value"] == found["arms"]["only"]["click_rate"]["value"]
    assert found["estimates"][0]["slates"] == 50
    assert set(found["estimates"][0]["estimates"]) == {
        "ips",
        "self-normalised",
        "doubly robust",
        "per position",
    }


def test_a_time_without_slates_is_said_to_be_one(folder: Path, run: Run) -> None:
    code, out, _ = run("analyse", folder / "shop", "--until", "2020-01-01")
    assert code == 0
    assert "served no slate in this period" in out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--reference", "nothing"), "no arm 'nothing'"),
        (("--estimate", "greedy"), "which arm to estimate"),
        (("--estimate", "strategy=best"), "strategy"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(
    folder: Path, run: Run, words: tuple[str, str], problem: str
) -> None:
    code, _, errors = run("analyse", folder / "shop", *words)
    assert code == 2
    assert problem in errors


def test_a_directory_without_a_service_is_refused(tmp_path: Path, run: Run) -> None:
    code, _, errors = run("analyse", tmp_path)
    assert code == 2
    assert "is not the directory of a service" in errors
    assert not list(tmp_path.iterdir())


def test_a_log_without_chance_is_refused_for_other_arms(tmp_path: Path, run: Run) -> None:
    run_arm(tmp_path / "shop", ArmConfig(strategy="greedy"), 10)
    code, out, _ = run("analyse", tmp_path / "shop", "--estimate", "strategy=thompson")
    assert code == 0
    assert "20 left out: made without chance" in out


def test_an_experiment_of_several_days_is_shown_day_by_day(tmp_path: Path, run: Run) -> None:
    (tmp_path / "shop").mkdir()
    store = Store.open(f"sqlite:///{tmp_path}/shop/store.sqlite")
    rows = [(f"u{n}", ("main", "other")[n % 2], float(n % 3), n % 5 == 0) for n in range(600)]
    fill(store, sorted(rows, key=lambda row: row[2]))
    store.close()
    (tmp_path / "two.toml").write_text("[arms.main]\n[arms.other]\n")
    code, out, _ = run("analyse", tmp_path / "shop", "--config", tmp_path / "two.toml")
    assert code == 0
    assert "2024-10-06" in out
    assert "Groups, items by day" in out
    assert "other: go on: about" in out
    since = "--since", "2024-10-05", "--reference", "other"
    code, out, _ = run("analyse", tmp_path / "shop", "--config", tmp_path / "two.toml", *since)
    assert "2024-10-04" not in out
    assert "main: go on" in out
