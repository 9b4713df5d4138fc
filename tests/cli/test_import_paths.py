"""Baselines, strategies, variants and studies of one's own, as a person types them."""

import json
import sys
from pathlib import Path

import polars as pl
import pytest

from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.simulation import load_config, write_log
from tests.cli.conftest import Run
from tests.conftest import Write

BASELINE = """
import numpy as np

from slatewise.evaluation import BaseRate, Predictions, Slates


class Even:
    name = "even"

    def fit(self, dataset):
        self.items = dataset.num_items

    def predict(self, interactions, scored):
        slates = Slates.of(interactions, scored)
        assert self.items > slates.items.max()
        utilities = np.zeros(len(slates.items))
        return Predictions.from_utilities(slates, utilities, np.zeros(len(slates)))


class Fitted(BaseRate):
    name = "base rate again"


class Twin(BaseRate):
    pass
"""
STRATEGY = """
import numpy as np

from slatewise.slates import named_strategy


class Backwards:
    name = "backwards"

    def slates(self, ranker, users, k):
        return named_strategy("greedy").slates(ranker, users, k)[:, ::-1].copy()
"""
STUDY = """
from slatewise.experiments.findings import Finding
from slatewise.experiments.study import Study, StudyConfig, Summary, Unit


class CountConfig(StudyConfig):
    most: int = 3


def units(config):
    return [Unit(seed) for seed in config.seeds]


def run(config, unit, bench):
    return {"counts": [{"seed": unit.seed, "count": n} for n in range(config.most)]}


def summarise(config, tables):
    return Summary(headline="counts")


COUNT = Study("count", "Counting", CountConfig, units, run, summarise)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    write_log(load_config("tiny"), folder / "log")
    split = SplitConfig(valid_share=0.2, test_share=0.2)
    prepare(folder / "log", folder / "log", folder / "set", division=split)
    (folder / "quick.toml").write_text(
        "[model]\ndimensions = 3\nterms = []\n[training]\nmax_epochs = 2\n"
    )
    return folder


@pytest.fixture
def trained(run: Run, folder: Path) -> Path:
    if not (folder / "run").exists():
        assert (
            run("train", folder / "set", folder / "run", "--config", folder / "quick.toml")[0] == 0
        )
    return folder / "run"


def test_evaluate_against_a_baseline_of_ones_own(
    run: Run, folder: Path, trained: Path, write_module: Write
) -> None:
    mine = write_module(BASELINE)
    evaluate = ("evaluate", trained, folder / "set", "--samples", 1, "--json")
    code, text, _ = run(*evaluate, "--against", f"{mine}:Even", "--against", f"{mine}:Fitted")
    assert code == 0
    found = json.loads(text)
    assert {"even", "base rate again", "co-click", "all features"} <= found.keys()
    again = found["base rate again"]["metrics"]["log_likelihood"]["value"]
    assert again == found["base rate"]["metrics"]["log_likelihood"]["value"]
    code, text, _ = run(*evaluate, "--against", f"{mine}:Even", "--against", "popularity")
    assert code == 0
    assert [name for name in json.loads(text) if "gru" not in name] == [
        *("popularity", "even", "verdict")
    ]
    code, _, errors = run(*evaluate, "--against", f"{mine}:Twin")
    assert code == 2
    assert "two baselines are called 'base rate'" in errors
    code, _, errors = run(*evaluate, "--against", f"{mine}:Slates")
    assert code == 2
    assert "Slates has no method `fit`: a baseline needs fit(dataset)" in errors


def test_evaluate_against_models_of_others(run: Run, folder: Path, trained: Path) -> None:
    code, text, _ = run(
        *("evaluate", trained, folder / "set", "--samples", 1, "--json"),
        *("--against", "bpr, popularity"),
    )
    assert code == 0
    found = json.loads(text)
    assert [name for name in found if "gru" not in name] == ["popularity", "bpr", "verdict"]
    assert found["verdict"]["baseline"] in ("popularity", "bpr")
    assert found["bpr"]["metrics"]["recall@20"]["value"] > 0


def test_a_comparator_without_its_library_is_refused_at_once(
    run: Run, folder: Path, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    code, _, errors = run("evaluate", trained, folder / "set", "--against", "lightgbm")
    assert code == 2
    assert "pip install '.[compare]'" in errors


def test_recommend_by_a_strategy_of_ones_own(
    run: Run, trained: Path, folder: Path, write_module: Write
) -> None:
    mine = write_module(STRATEGY)
    clicks = pl.read_parquet(folder / "log" / "log.parquet")["click"].drop_nulls()[:3]
    asked = ("recommend", trained, "--clicks", ",".join(map(str, clicks)), "--k", 4)
    shown = {}
    for name in ("greedy", f"{mine}:Backwards"):
        code, text, _ = run(*asked, "--strategy", name)
        assert code == 0
        words = [line.split() for line in text.splitlines()]
        shown[name] = [line[0] for line in words if line and line[0].isdigit()]
    greedy, backwards = shown.values()
    assert len(greedy) == 4
    assert backwards == greedy[::-1]


def test_the_offline_study_with_models_and_baselines_of_ones_own(
    run: Run, folder: Path, tmp_path: Path, write_module: Write
) -> None:
    mine = write_module(
        BASELINE + "from slatewise.model.config import ModelConfig\n"
        "SMALL = ModelConfig(dimensions=2, dynamics='linear', likelihood='all-item')\n"
    )
    (tmp_path / "flat.toml").write_text("[model]\nprior = 'flat'\ndimensions = 2\n")
    (tmp_path / "study.toml").write_text("resamples = 20\n[training]\nmax_epochs = 1\n")
    command = ["experiment", "offline", tmp_path / "out", "--config", tmp_path / "study.toml"]
    command += ["--dataset", folder / "set", "--seeds", "0", "--variant", "flat=flat.toml"]
    command += ["--variant", f"{mine}:SMALL", "--against", f"{mine}:Even", "--against", "co-click"]
    code, printed, errors = run(*command, "--jobs", 2)  # processes find the module too
    assert code == 0, errors
    table = pl.read_parquet(tmp_path / "out" / "offline" / "table1.parquet")
    assert table["recommender"].to_list() == ["flat", "SMALL", "co-click", "even"]
    assert table["log-likelihood"][1] == "–"  # all-item
    assert "even" in printed
    (tmp_path / "flat.toml").write_text("[model]\nprior = 'flat'\ndimensions = 3\n")
    code, _, errors = run(*command)
    assert code == 2
    assert "was started with another 'models'" in errors


def test_a_strategy_of_ones_own_in_the_online_study(
    run: Run, tmp_path: Path, write_module: Write
) -> None:
    mine = write_module(STRATEGY)
    (tmp_path / "study.toml").write_text(
        f'preset = "tiny"\nusers = 150\nwindow = 7\ndays = 1\nown_days = 1\nresamples = 20\n'
        f'variants = ["slate-linear-hier"]\nstrategies = ["greedy", "{mine}:Backwards"]\n'
        "[training]\nmax_epochs = 1\n[nightly]\nmax_epochs = 1\n"
    )
    options = ("--config", tmp_path / "study.toml", "--seeds", "0")
    code, printed, errors = run("experiment", "online-strategies", tmp_path / "out", *options)
    assert code == 0, errors
    assert "slate-linear-hier-backwards" in printed


def test_a_study_of_ones_own(run: Run, tmp_path: Path, write_module: Write) -> None:
    mine = write_module(STUDY)
    (tmp_path / "study.toml").write_text('preset = "tiny"\nmost = 2\n')
    options = ("--config", tmp_path / "study.toml", "--jobs", 2)
    code, printed, errors = run("experiment", f"{mine}:COUNT", tmp_path / "out", *options)
    assert code == 0, errors
    assert printed.rstrip().endswith(f"Study: {tmp_path / 'out' / 'count'}")
    assert len(pl.read_parquet(tmp_path / "out" / "count" / "counts.parquet")) == 6
    code, printed, _ = run("report", tmp_path / "out", "--format", "markdown")
    assert code == 0
    assert "Counting" in (tmp_path / "out" / "report.md").read_text()
