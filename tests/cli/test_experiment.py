import json
import re
from pathlib import Path
from typing import Any

import pytest

from slatewise.experiments import posterior
from slatewise.experiments.study import STUDIES
from tests.cli.conftest import Run

SETTINGS = 'preset = "tiny"\nresamples = 50\n[training]\nmax_epochs = 2\n'


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    file = tmp_path / "study.toml"
    file.write_text(SETTINGS)
    return file


def test_the_help_names_every_study(run: Run) -> None:
    code, printed, _ = run("experiment", "--help")
    assert code == 0
    named = set(re.findall(r"[\w-]+", printed.partition("Options")[0]))
    assert named >= set(STUDIES)


def test_a_study_and_its_report(run: Run, settings: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ("--seeds", "0,3", "--config", settings, "--truth", "outside")
    code, printed, _ = run("experiment", "posterior", out, *options)
    assert code == 0
    assert "rank correlation" in printed
    assert "Do views narrow the posterior of an item?" in printed
    assert re.search(r"^distance to the group mean .* \[\S+, \S+\] *$", printed, re.MULTILINE)
    assert printed.rstrip().endswith(f"Study: {out / 'posterior'}")
    about = json.loads((out / "posterior" / "study.json").read_text())
    assert about["seeds"] == [0, 3]
    assert about["settings"]["truth"] == "outside"
    code, printed, _ = run("report", out)
    assert code == 0
    assert f"Report: {out / 'report.html'}" in printed
    code, printed, _ = run("report", out, "--format", "markdown")
    assert code == 0
    assert (out / "report.md").is_file()


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(
    run: Run, settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, calls = posterior.fit_variant, list[int]()

    def pressed(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(*arguments)

    monkeypatch.setattr(posterior, "fit_variant", pressed)
    command = ("experiment", "posterior", tmp_path / "out", "--config", settings)
    code, printed, _ = run(*command)
    assert code == 130
    assert "finished units are kept (1). Resume with the same command." in printed
    code, _, _ = run(*command)
    assert code == 0
    assert len(calls) == 4  # two of three seeds were left


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("nonsense",), "no study 'nonsense'"),
        (("posterior", "--seeds", "0;1"), "not whole numbers"),
        (("posterior", "--preset", "vast"), "no preset 'vast'"),
        (("offline", "--run", "somewhere"), "no such setting"),
    ],
)
def test_what_cannot_be_run_is_refused_in_words(
    arguments: tuple[str, ...], problem: str, run: Run, tmp_path: Path
) -> None:
    code, _, errors = run("experiment", arguments[0], tmp_path / "out", *arguments[1:])
    assert code == 2
    assert problem in errors
    assert "remedy:" in errors
    assert not (tmp_path / "out").exists()


def test_a_report_of_nothing_is_refused_in_words(run: Run, tmp_path: Path) -> None:
    code, _, errors = run("report", tmp_path)
    assert code == 2
    assert "no study" in errors
