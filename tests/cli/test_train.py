"""`slatewise train` and `slatewise evaluate`, as a person types them."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from slatewise.cli import train
from slatewise.data import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.model.network import fitting
from slatewise.simulation import load_config, write_log
from slatewise.slates import Recommender
from slatewise.training import load, trainer
from slatewise.training.loop import Progress
from tests.cli.conftest import Run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a tiny dataset and a quick configuration."""
    folder = tmp_path_factory.mktemp("train")
    write_log(load_config("tiny"), folder / "log")
    prepare(folder / "log", folder / "log", folder / "set")
    quick = "dimensions = 3\n[training]\nmax_epochs = 3\nbatch_users = 100\n"
    (folder / "quick.toml").write_text(f'[model]\nlikelihood = "slate"\nterms = []\n{quick}')
    (folder / "usual.toml").write_text(f"[model]\nnetwork_units = 4\n{quick}")
    (folder / "plain.toml").write_text(f"[model]\n{quick}")
    return folder


def test_who_is_held_out_whole_is_not_told_to_make_the_prefix_smaller(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = SlateDataset.open(folder / "set")
    dataset.meta = {**dataset.meta, "split": {**dataset.meta["split"], "prefix": 0}}
    train._warn_of_few(dataset)
    text = capsys.readouterr().out
    assert "larger --valid-share" in text
    assert "prefix" not in text


def test_train_then_evaluate(run: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    options = ["--config", folder / "quick.toml", "--dynamics", "linear", "--prior", "flat"]
    code, text, _ = run("train", folder / "set", out, *options)
    assert code == 0
    assert "slate-linear-flat" in text
    assert "validation log-likelihood" in text
    assert "Warning: only" in text  # 300 users, of whom 5 % are held out
    assert "or a smaller --prefix" in text
    model = load(out)
    assert (model.config.dynamics, model.config.dimensions) == ("linear", 3)
    assert model.calibration is not None
    code, text, _ = run("evaluate", out, folder / "set", "--samples", 2)
    assert code == 0
    for part in ("base rate", "smoothed CTR", "co-click", "2 draws", "P(click) by source"):
        assert part in text
    said = " ".join(text.split())
    assert "Model: slate-linear-flat" in said
    code, text, _ = run("evaluate", out, folder / "set", "--samples", 2, "--json", "--k", 5)
    assert code == 0
    judged, verdict = (json.loads(text)[name] for name in ("slate-linear-flat", "verdict"))
    assert verdict["metric"] == "log_likelihood"
    own = judged["calibrated"]["metrics"]["log_likelihood"]["value"]
    best = json.loads(text)[verdict["baseline"]]["metrics"]["log_likelihood"]["value"]
    assert verdict["difference"]["value"] == pytest.approx(own - best)
    baseline = f"the baseline '{verdict['baseline']}'"
    sentence = verdict["sentence"].replace(verdict["baseline"], baseline)
    assert sentence.replace(verdict["model"], "the model") in said
    assert 'train with ranking = "next-click"' in said  # counting finds more of what was shown
    assert judged["metrics"]["recall@5"]["value"] >= 0
    assert judged["calibrated"]["metrics"]["log_likelihood"]["count"] == judged["interactions"]


def test_a_log_with_slates_gets_terms_unless_none_are_asked_for(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "EPOCHS", 1)
    options = ["--config", folder / "usual.toml"]
    _, text, errors = run("train", folder / "set", tmp_path / "usual", *options)
    assert "fitting the term network" in errors
    said = " ".join(text.split())
    assert "Terms for this log: history, network, position" in said
    assert "popularity (items stay on offer)" in said
    fitted = load(tmp_path / "usual")
    usual = fitted.config
    best = f"{fitted.history[-1]['best']:.4f}".replace("-", "−")
    assert f"in training with exposure {best}" in said  # what the progress showed
    own = f"{fitted.metrics['validation_log_likelihood']:.4f}".replace("-", "−")
    assert f"validation log-likelihood of choices {own}" in said
    assert usual.terms == ("history", "network", "position", "propensity", "source")
    assert (usual.likelihood, usual.temperature) == ("source-aware", 1.0)  # it has searches
    plain = ["--config", folder / "plain.toml", "--terms", "none"]
    _, text, _ = run("train", folder / "set", tmp_path / "paper", *plain)
    assert "Terms" not in text
    assert load(tmp_path / "paper").config.terms == ()
    code, _, errors = run("train", folder / "set", tmp_path / "wrong", "--terms", "bias, bais")
    assert (code, "'bais'" in errors) == (2, True)


def test_an_all_item_model_says_what_its_likelihood_is_not(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    run("train", folder / "set", out, "--config", folder / "quick.toml", "--likelihood", "all-item")
    _, text, _ = run("evaluate", out, folder / "set", "--samples", 1)
    assert "no usable P(click)" in " ".join(text.split())
    assert "Difference in recall@20" in " ".join(text.split())
    assert "next-click" not in text
    against = ("evaluate", out, folder / "set", "--samples", 1, "--against", "position only")
    code, text, _ = run(*against)
    assert (code, "One step ahead" in text) == (0, True)
    assert "No verdict: recall@20 decides, and position only cannot rank" in " ".join(text.split())
    assert json.loads(run(*against, "--json")[1])["verdict"] is None


def test_a_dot_product_is_trained_evaluated_and_makes_slates(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    dot = ("--config", folder / "quick.toml", "--relevance", "dot", "--dynamics", "linear")
    assert run("train", folder / "set", out, *dot)[0] == 0
    judged = ("--samples", 1, "--against", "popularity")
    code, text, _ = run("evaluate", out, folder / "set", *judged)
    assert code == 0
    assert "Model: slate-dot-linear-hier" in text
    assert "Verdict: the model" in " ".join(text.split())
    asked = ("--clicks", "3,17", "--k", 4, "--strategy", "greedy", "--explain")
    code, text, _ = run("recommend", out, *asked)
    assert (code, "dot: how much it points the user's way" in text) == (0, True)
    model = load(out)
    best = Recommender(model).recommend([3, 17], 4, strategy="greedy")
    assert all(str(item) in text for item in best.items)
    vectors = model.item_vectors.astype(np.float64)
    near = model.similar_items(3, 2)
    products = vectors @ vectors[model.number_of(3)]
    products[model.number_of(3)] = -np.inf
    assert [item for item, _ in near] == [model.item_ids[n] for n in np.argsort(-products)[:2]]


def test_resuming_from_the_command_line(run: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    options = ["--config", folder / "quick.toml"]
    assert run("train", folder / "set", out, *options)[0] == 0
    code, _, errors = run("train", folder / "set", out, *options)
    assert (code, "exists already" in errors, "--resume" in errors) == (2, True, True)
    assert run("train", folder / "set", out, *options, "--resume")[0] == 0
    code, _, errors = run("train", folder / "set", out, *options, "--resume", "--seed", 5)
    assert (code, "another seed" in errors) == (2, True)


def test_a_run_that_is_there_is_refused_before_anything_is_fitted(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "slatewise.selection.plan_fit", lambda *args, **options: pytest.fail("fitted")
    )
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").touch()
    code, _, errors = run("train", folder / "set", tmp_path / "run")
    assert (code, "exists already" in errors) == (2, True)
    code, _, errors = run("train", folder / "set", tmp_path / "other", "--resume")
    assert (code, "no checkpoint to resume from" in errors) == (2, True)


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("[model]\nsize = 3\n", "'size': there is no such setting", "dimensions"),
        ("[training]\npatience = 0\n", "'patience'", "Correct"),
        ("[modle]\n", "unknown section 'modle'", "[model]"),
        ("model = 3\n", "unknown section 'model'", "[model]"),
        ("[model]\ndynamics = 'linear'\nhidden = 3\n", "hidden", "Correct"),
        ("model", "not TOML", "Correct"),
    ],
)
def test_mistakes_in_the_configuration(
    text: str, message: str, remedy: str, run: Run, folder: Path, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(text)
    code, _, errors = run("train", folder / "set", tmp_path / "run", "--config", config)
    assert code == 2
    assert message in errors
    assert remedy in errors
    assert not (tmp_path / "run").exists()


def test_devices_and_runs_that_are_not_there(run: Run, folder: Path, tmp_path: Path) -> None:
    code, _, errors = run("train", folder / "set", tmp_path / "run", "--device", "abacus")
    assert (code, "abacus" in errors, "cuda" in errors) == (2, True, True)
    code, _, errors = run("evaluate", tmp_path, folder / "set")
    assert (code, "not a run" in errors) == (2, True)


def test_tensorboard_gets_every_epoch(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    options = ["--config", folder / "quick.toml", "--tensorboard"]
    assert run("train", folder / "set", out, *options)[0] == 0
    events = EventAccumulator(str(out / "tensorboard"))
    events.Reload()
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    logged = [event.value for event in events.Scalars("validation")]
    assert logged == pytest.approx([record["validation"] for record in log])
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    code, _, errors = run("train", folder / "set", tmp_path / "other", *options)
    assert (code, "pip install '.[tensorboard]'" in errors) == (2, True)


def test_resuming_leaves_the_epochs_on_the_board_as_they_are(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the last checkpoint is of the second epoch, and the third is on the board twice."""
    out = tmp_path / "run"
    write = trainer._Checkpoint.write

    def until_second(self: Any, work: Any) -> None:
        if len(work.progress.history) <= 1:
            write(self, work)

    monkeypatch.setattr(trainer, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(trainer._Checkpoint, "write", until_second)
    options = ["--config", folder / "quick.toml", "--tensorboard"]
    assert run("train", folder / "set", out, *options)[0] == 0
    ended = len(list((out / "tensorboard").iterdir()))
    assert run("train", folder / "set", out, *options, "--resume")[0] == 0
    assert len(list((out / "tensorboard").iterdir())) > ended
    events = EventAccumulator(str(out / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("validation")] == [0, 1, 2]


def test_ctrl_c_saves_and_says_how_to_go_on(run: Run, folder: Path, tmp_path: Path) -> None:
    slowly = (  # or it could be done before Ctrl-C comes
        "import time\n"
        "from slatewise.cli import main\n"
        "from slatewise.training import trainer\n"
        "maybe = trainer._Checkpoint.maybe\n"
        "trainer._Checkpoint.maybe = lambda *a: (maybe(*a), time.sleep(2))\n"
        "main()\n"
    )
    command = [sys.executable, "-c", slowly, "train", folder / "set", tmp_path / "run"]
    with subprocess.Popen(
        [*command, "--config", folder / "quick.toml"], stdout=subprocess.PIPE
    ) as work:
        log = tmp_path / "run" / "checkpoint.safetensors"
        while not log.exists():
            assert work.poll() is None
            time.sleep(0.01)
        work.send_signal(signal.SIGINT)
        out, _ = work.communicate(timeout=300)
    assert work.returncode == 130
    assert b"--resume" in out
    resumed = run(
        "train", folder / "set", tmp_path / "run", "--config", folder / "quick.toml", "--resume"
    )
    assert resumed[0] == 0
    whole = run("train", folder / "set", tmp_path / "whole", "--config", folder / "quick.toml")
    assert whole[0] == 0
    vectors = [load(tmp_path / name).item_vectors for name in ("run", "whole")]
    assert (vectors[0] == vectors[1]).all()


def test_exposure_is_given_on_the_command_line(run: Run, folder: Path, tmp_path: Path) -> None:
    aware = ["--config", folder / "quick.toml", "--likelihood", "source-aware"]
    given = ["--exposure", "search=0.4", "--exposure", "recommendation=0.1"]
    code, text, _ = run("train", folder / "set", tmp_path / "run", *aware, *given)
    assert code == 0
    assert "Exposure: recommendation=0.1, search=0.4" in text
    assert load(tmp_path / "run").config.exposure == {"search": 0.4, "recommendation": 0.1}
    code, _, errors = run("train", folder / "set", tmp_path / "no", *aware, "--exposure", "search")
    assert code == 2
    assert "--exposure search: this is not SOURCE=WEIGHT." in errors
    code, _, errors = run("train", folder / "set", tmp_path / "no", *aware, "--exposure", "mail=1")
    assert code == 2
    assert "exposure names 'mail', which is not a source of the log" in errors


def test_a_new_stage_shows_no_best_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(train, "_SECONDS_BETWEEN_LINES", 0)
    bar = train._Bar("model", patience=8)
    ended = [{"stage": 0, "validation": -1.75}]
    bar.show(Progress(stage=0, epoch=1, step=1, steps=9, best=-1.75, history=ended))
    bar.show(Progress(stage=1, epoch=0, step=1, steps=9, history=ended))
    first, second = capsys.readouterr().err.splitlines()
    assert "−1.7500, best −1.7500 · patience 8" in first
    assert second == "model: stage 2 epoch 1 · step 1 of 9"


def test_a_worker_leaves_the_others_before_its_process_ends(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    joining, leaving = "init_process_group", "destroy_process_group"
    monkeypatch.setattr(torch.distributed, joining, lambda *_, **__: calls.append(joining))
    monkeypatch.setattr(torch.distributed, leaving, lambda: calls.append(leaving))
    monkeypatch.setattr(train.console, "quiet", False)
    assert run("train", folder / "no-dataset", folder / "never")[0] != 0
    assert calls == [joining, leaving]
