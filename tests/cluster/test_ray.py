"""A local Ray of two workers: one start for all tests of this module."""

import os
import re
import signal
import threading
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
import torch
from typer.testing import CliRunner

from slatewise.cli import app
from slatewise.cli.cluster import on_ray
from slatewise.cluster import TrainingJob, iterate_on_cluster, map_on_cluster, run_on_cluster
from slatewise.cluster.training import TrainingWorker
from slatewise.data import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.errors import SlatewiseError
from slatewise.experiments.store import StudyResult
from slatewise.experiments.study import Bench, Study, StudyConfig, Summary, Unit, run_study
from slatewise.model.config import ModelConfig
from slatewise.simulation import load_config, write_log
from slatewise.training import StoppedError, fit, runs
from slatewise.training.config import TrainingConfig
from slatewise.training.loop import Progress
from slatewise.training.peers import Peers
from tests.cluster.work import doubled
from tests.data.test_parts import assert_same_files, damaged_log
from tests.training.test_peers import together

pytestmark = pytest.mark.filterwarnings("ignore:::ray")
SETTINGS = """
[model]
dimensions = 3
dynamics = "linear"
likelihood = "slate"
terms = []
[training]
batch_users = 75
max_epochs = 12
patience = 12
optimisation = "joint"
"""
MODEL = ModelConfig(**tomllib.loads(SETTINGS)["model"])
TRAINING = TrainingConfig(**tomllib.loads(SETTINGS)["training"])


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(
        num_cpus=2,
        num_gpus=2,  # asked for and given out, if not there
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
        object_store_memory=80_000_000,
    )
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    folder = tmp_path_factory.mktemp("ray")
    write_log(load_config("tiny"), folder / "log")
    return prepare(folder / "log" / "log.parquet", folder / "log" / "items.parquet", folder / "ds")


def test_a_killed_worker_and_ctrl_c_change_nothing(
    dataset: SlateDataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The run goes on from its checkpoint, and ends where two undisturbed workers end."""
    monkeypatch.setattr("slatewise.cluster.training._LOOK", 0.02)  # an epoch takes no longer
    run = tmp_path / "run"
    lost: list[psutil.Process] = []
    stopped: list[psutil.Process] = []

    def observe(at: Progress) -> None:
        workers = training_processes()
        if not lost and 0 < at.step < at.steps:
            assert capfd.readouterr() == ("", "")
            workers[1].kill()
            lost.extend(workers)
        elif lost and not set(workers) & set(lost):
            stopped.extend(workers)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(StoppedError, match="stopped"):
        on_ray("local", 2)(
            dataset, MODEL, TRAINING, run=run, observer=observe, seed=4, checkpoint_seconds=0.0
        )
    said = "A worker was lost: new ones go on from the checkpoint.\n"
    assert capfd.readouterr().out.count(said) == 1  # Ray also says how it was lost
    assert len(lost) == len(stopped) == 2
    assert not psutil.wait_procs([*lost, *stopped], timeout=60)[1]

    (tmp_path / "run.toml").write_text(SETTINGS)
    options = ["--ray", "local", "--workers", 2, "--seed", 4, "--resume"]
    command("train", dataset.path, run, "--config", tmp_path / "run.toml", *options)
    found = runs.load(run)

    def undisturbed(peers: Peers) -> dict[str, torch.Tensor]:
        return fit(dataset, MODEL, TRAINING, seed=4, peers=peers).posterior.tensors()

    expected, _ = together(2, undisturbed)
    for name, tensor in found.posterior.tensors().items():
        assert torch.equal(tensor, expected[name]), name
    alone = fit(dataset, MODEL, TRAINING, seed=4).metrics["validation_log_likelihood"]
    assert found.metrics["validation_log_likelihood"] == pytest.approx(alone, abs=0.02)


def training_processes() -> list[psutil.Process]:
    """Return the workers of this module's cluster."""
    started = psutil.Process().children(recursive=True)
    return [process for process in started if process.name().startswith("ray::TrainingWo")]


@pytest.mark.parametrize(
    ("checkpoint", "said"), [(True, "go on from the checkpoint"), (False, "begin anew")]
)
def test_what_new_workers_start_from_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: bool, said: str
) -> None:
    tries: list[bool] = []

    def attempt(self: TrainingJob, *_: object) -> None:
        tries.append(self.resume)
        if len(tries) == 1:
            if checkpoint:
                (tmp_path / runs.CHECKPOINT).touch()
            raise ray.exceptions.ActorDiedError

    monkeypatch.setattr(TrainingJob, "_attempt", attempt)
    heard: list[str] = []
    TrainingJob(tmp_path, tmp_path, MODEL, TRAINING).train(2, notice=heard.append)
    assert heard == [f"A worker was lost: new ones {said}."]
    assert tries == [False, checkpoint]


def test_a_worker_has_a_gpu_and_its_error_ends_all(
    dataset: SlateDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trying again would not help."""

    class Refusing(TrainingWorker):
        def train(self, rank: int, size: int, address: str, job: TrainingJob) -> None:
            if rank == 0:
                time.sleep(600)
            raise SlatewiseError(f"{job.device} {ray.get_gpu_ids()}", "Look elsewhere.")

    monkeypatch.setattr("slatewise.cluster.training.TrainingWorker", Refusing)
    options = ["--ray", "local", "--workers", "2", "--device", "cuda", "--terms", "none"]
    done = CliRunner().invoke(app, ["train", str(dataset.path), str(tmp_path / "run"), *options])
    assert isinstance(done.exception, SlatewiseError)
    assert re.match(r"cuda \[[01]\]\nLook elsewhere\.$", str(done.exception))
    assert "A worker was lost" not in done.output


def test_ctrl_c_ends_waiting_for_a_larger_cluster(dataset: SlateDataset, tmp_path: Path) -> None:
    heard: list[str] = []

    def notice(text: str) -> None:
        heard.append(text)
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()

    job = TrainingJob(dataset.path, tmp_path / "run", MODEL, TRAINING, device="cuda")
    with pytest.raises(KeyboardInterrupt):
        job.train(3, notice=notice)
    assert heard == ["The cluster has 2 GPUs for 3 workers: training waits for more."]


def test_tasks_run_side_by_side_and_errors_come_back() -> None:
    heard: list[int] = []
    run_on_cluster(doubled, [1, 2, 3], 2, lambda: heard.append(1))
    assert len(heard) == 3
    assert map_on_cluster(doubled, [5, 1, 4]) == [10, 2, 8]
    with pytest.raises(SlatewiseError, match="-1 is negative"):
        run_on_cluster(doubled, [1, -1], 2)


def test_a_log_read_on_the_cluster_makes_the_same_dataset(tmp_path: Path) -> None:
    items = damaged_log(tmp_path / "log")
    here, there = tmp_path / "here", tmp_path / "there"
    prepare(tmp_path / "log", items, here)
    prepare(tmp_path / "log", items, there, elsewhere=iterate_on_cluster)
    assert_same_files(here, there)


def _run(config: StudyConfig, unit: Unit, bench: Bench) -> dict[str, list[dict[str, Any]]]:
    halves = bench.each(doubled, [unit.seed, unit.seed + 1])
    return {"found": [{"seed": unit.seed, "value": value} for value in halves]}


TOY = Study(
    "toy",
    "Numbers doubled",
    StudyConfig,
    lambda config: [Unit(seed) for seed in config.seeds],
    _run,
    lambda config, tables: Summary(),
)


def test_the_units_of_a_study_run_on_the_cluster_to_the_same_tables(tmp_path: Path) -> None:
    config = StudyConfig(seeds=(3, 1, 2))
    here = run_study(TOY, config, tmp_path / "here")
    there = run_study(
        TOY,
        config,
        tmp_path / "there",
        jobs=2,
        side_by_side=run_on_cluster,
        each=map_on_cluster,
    )
    assert there.tables["found"].equals(here.tables["found"])
    assert here.tables["found"]["value"].to_list() == [6, 8, 2, 4, 4, 6]


def command(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output + repr(done.exception)
    return done.output


def test_a_log_is_prepared_on_the_cluster(dataset: SlateDataset, tmp_path: Path) -> None:
    """What `--ray` prepares is what one machine does."""
    log = dataset.path.parent / "log"
    files = log / "log.parquet", log / "items.parquet"
    command("prepare", *files, tmp_path / "ds", "--ray", "local")
    assert SlateDataset.open(tmp_path / "ds").content_hash == dataset.content_hash


def test_a_search_runs_on_the_cluster(dataset: SlateDataset, tmp_path: Path) -> None:
    settings = "first = 1\nstarts = 1\nresamples = 20\n[training]\nmax_epochs = 1\n"
    (tmp_path / "tune.toml").write_text(settings)
    options = ["--dataset", dataset.path, "--trials", 1, "--config", tmp_path / "tune.toml"]
    command("experiment", "tune", tmp_path / "out", *options, "--ray", "local")
    found = StudyResult.load(tmp_path / "out" / "tune").tables["trials"]
    fitted = fit(dataset, ModelConfig(), TrainingConfig(max_epochs=1), seed=0)
    assert found["value"].to_list() == [fitted.metrics["validation_log_likelihood"]]
