"""`slatewise train --auto`, as a person types it."""

import json
import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from slatewise.cli import show
from slatewise.cli.term_selection import _trials
from slatewise.data.preparation import prepare
from slatewise.selection import leave_out
from slatewise.simulation import load_config, write_log
from slatewise.training import load, trainer
from tests.cli.conftest import Run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a tiny dataset and a quick configuration."""
    folder = tmp_path_factory.mktemp("auto")
    write_log(load_config("tiny", truth="outside", users=120), folder / "log")
    prepare(folder / "log", folder / "log", folder / "set")
    (folder / "quick.toml").write_text(
        "[model]\ndimensions = 2\ndynamics = 'linear'\nevidence = ['search', 'recommendation']\n"
        # Which leaves two terms to be tried.
        "terms = ['co_clicks', 'contrast', 'history', 'popularity', 'propensity', 'source']\n"
        "[training]\nmax_epochs = 1\nbatch_users = 100\n"
    )
    return folder


def test_terms_are_chosen_said_kept_and_trained(run: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    options = ["--auto", "--config", folder / "quick.toml"]
    code, text, progress = run("train", folder / "set", out, *options)
    assert code == 0
    trials = [line for line in progress.splitlines() if line.startswith("choosing terms: ")]
    assert "with everything (trial 1 of 9; " in trials[0]
    assert "another seed (trial 9 of 9; " in trials[-1]
    assert all("s more)" in line for line in trials[2:])
    for part in (
        "Gain of each term",
        "position",
        "split by user",
        "Chosen: source-aware-linear-hier",
    ):
        assert part in " ".join(text.split())
    stored, model = json.loads((out / "selection.json").read_text()), load(out)
    assert stored["chosen"]["terms"] == list(model.config.terms)
    assert stored["name"] == model.config.name
    assert model.config.evidence == ("search", "recommendation")
    code, _, errors = run("train", folder / "set", out, *options)
    assert (code, "exists already" in errors) == (2, True)


def test_resuming_goes_on_with_what_was_chosen(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, whole = tmp_path / "run", tmp_path / "whole"
    options = ["--auto", "--config", folder / "quick.toml"]
    stop = trainer.Training.advance

    def one_step(work: trainer.Training) -> object:
        for step in stop(work):
            yield step
            if work.posterior.config.likelihood == "source-aware":  # the chosen one, not a trial
                raise trainer.StoppedError("stopped")

    options += ["--likelihood", "source-aware"]
    with monkeypatch.context() as patch:
        patch.setattr(trainer.Training, "advance", one_step)
        assert run("train", folder / "set", out, *options)[0] == 130
    chosen = (out / "selection.json").read_text()
    with monkeypatch.context() as patch:
        patch.setattr("slatewise.selection.leave_out.fit", None)  # nothing is tried again
        assert run("train", folder / "set", out, *options, "--resume")[0] == 0
    assert (out / "selection.json").read_text() == chosen
    assert run("train", folder / "set", whole, *options)[0] == 0
    assert (load(out).item_vectors == load(whole).item_vectors).all()


def test_a_choice_that_was_stopped_goes_on_and_leaves_nothing_behind(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, whole = tmp_path / "run", tmp_path / "whole"
    options = ["--auto", "--config", folder / "quick.toml"]
    assert "nothing in" in run("train", folder / "set", out, *options, "--resume")[2]
    fit, fits = leave_out.fit, [0]

    def stopping(*arguments: object, **settings: object) -> object:
        fits[0] += 1
        if fits[0] == 3:
            raise KeyboardInterrupt
        return fit(*arguments, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(leave_out, "fit", stopping)
    code, text, _ = run("train", folder / "set", out, *options)
    assert (code, "Resume with the same command and --resume" in text) == (130, True)
    assert not out.exists()
    fits[0] = 10
    assert run("train", folder / "set", out, *options, "--resume")[0] == 0
    resumed = fits[0] - 10
    fits[0] = 10
    assert run("train", folder / "set", whole, *options)[0] == 0
    assert fits[0] - 10 > resumed
    assert (out / "selection.json").read_text() == (whole / "selection.json").read_text()
    assert (load(out).item_vectors == load(whole).item_vectors).all()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "whole"]


def test_a_gpu_is_refused_before_anything_is_tried(run: Run, folder: Path, tmp_path: Path) -> None:
    code, _, errors = run("train", folder / "set", tmp_path / "run", "--auto", "--device", "cuda")
    assert (code, "the trials of --auto run on the CPU" in errors) == (2, True)
    assert not (tmp_path / "run").exists()


def test_on_a_terminal_of_80_columns_the_bar_has_all_it_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = StringIO()
    terminal = Console(file=shown, force_terminal=True, width=80, color_system=None)
    monkeypatch.setattr(show, "Console", lambda **_: terminal)
    with _trials() as report:
        report("without evidence from recommendation", 3, 17)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.getvalue())
    line = next(line for line in re.split(r"[\r\n]", plain) if "recommendation" in line)
    assert len(line) <= 80
    assert line.startswith("choosing terms: without evidence from recommendation ")
    assert re.search(r" 3/17 \d:\d\d:\d\d -:--:--$", line.rstrip())


def test_without_a_terminal_every_trial_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with _trials() as report:
        for done, trial in enumerate(("with everything", "without bias", "baselines")):
            report(trial, done, 3)
    assert capsys.readouterr().err.splitlines() == [
        "choosing terms: with everything (trial 1 of 3; 0 s so far; "
        "a new installation compiles code first, for a minute)",
        "choosing terms: without bias (trial 2 of 3; 0 s so far)",
        "choosing terms: baselines (trial 3 of 3; 0 s so far, about 0 s more)",
    ]
