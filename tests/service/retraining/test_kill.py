"""Killed at any moment, a night leaves a whole model serving, and the next one clears up."""

import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from slatewise.service.models import CURRENT, Models
from slatewise.service.retraining.workspace import FOLDER
from tests.service.retraining.world import Shelf, night, settings, visits

SHELF = Shelf(visits(users=30))
PROCESSES = multiprocessing.get_context("forkserver")
# What a first fit would load; each process that is killed begins with it.
PROCESSES.set_forkserver_preload(["tests.service.retraining.world", "torch._dynamo", "numba"])
STEPS: dict[str, Callable[[Path], bool]] = {
    "the log is being written": lambda service: (service / FOLDER / "log.parquet").exists(),
    "the dataset is being made": lambda service: any((service / FOLDER).glob("*dataset*")),
    "training": lambda service: (service / FOLDER / "dataset").exists(),
    "the model is being written": lambda service: (service / FOLDER / "main").exists(),
    "it is being copied": lambda service: (service / "models" / "main" / ".2.partial").exists(),
    "it has its place": lambda service: (service / "models" / "main" / "2").exists(),
    "it is being promoted": lambda service: '"version": "2"' in current(service),
}


def current(service: Path) -> str:
    return (service / "models" / "main" / CURRENT).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A service after its first night, at the end of day 2."""
    directory = tmp_path_factory.mktemp("kill") / "service"
    night(directory, SHELF, 2)
    return directory


def retrain_elsewhere(service: Path) -> None:
    night(service, SHELF, 3, settings(promote="always"))


def kill_when(service: Path, is_time: Callable[[], bool]) -> bool:
    """Retrain in another process and kill it; return whether it was still at work."""
    process = PROCESSES.Process(target=retrain_elsewhere, args=(service,))
    process.start()
    assert process.pid is not None
    while not is_time() and process.is_alive():
        time.sleep(0.0005)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    return process.exitcode == -signal.SIGKILL


def check(service: Path) -> str:
    """See that a whole model serves and that the next night is as any; return its version."""
    loaded = Models.of(service, "main").load()
    assert loaded is not None
    assert not loaded.problems
    assert loaded.version in ("1", "2")
    found = night(service, SHELF, 4, settings(promote="always"))
    assert found.outcome == "promoted"
    assert found.started_from == loaded.version
    assert not (service / FOLDER).exists()
    assert not list((service / "models" / "main").glob(".*.partial"))
    return loaded.version


@pytest.mark.parametrize("step", STEPS)
def test_a_night_that_is_killed_at_a_step_leaves_a_whole_model(
    trained: Path, tmp_path: Path, step: str
) -> None:
    service = Path(shutil.copytree(trained, tmp_path / "service"))
    killed = kill_when(service, lambda: STEPS[step](service))
    early = step not in ("it has its place", "it is being promoted")
    assert killed or not early
    version = check(service)
    assert not early or version == "1"


def test_a_night_that_is_killed_at_any_moment_leaves_a_whole_model(
    trained: Path, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    for number in range(4):
        service = Path(shutil.copytree(trained, tmp_path / f"service {number}"))
        end = time.monotonic() + rng.uniform(0, 3)
        kill_when(service, lambda end=end: time.monotonic() > end)  # type: ignore[misc]
        check(service)
