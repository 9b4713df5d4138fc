"""Killed at any moment, a night leaves a whole model serving, and the next one clears up."""

import importlib
import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slatewise.service.serving.models import Models
from slatewise.service.store.workspace import FOLDER
from tests.service.nights.world import Shelf, night, settings, visits

SHELF = Shelf(visits(users=30))
PROCESSES = multiprocessing.get_context("forkserver")
# What a first fit would load; each process that is killed begins with it.
PROCESSES.set_forkserver_preload(["tests.service.nights.world", "torch._dynamo", "numba"])

NIGHT = "slatewise.service.nights"
STEPS = {
    "the first rows of the log are written": (f"{NIGHT}.window", "_write_items", "before"),
    "the log is there": (f"{NIGHT}.window", "export_window", "after"),
    "the dataset is half made": ("slatewise.data.parts", "order_by_time", "after"),
    "the dataset is there": (f"{NIGHT}.window", "prepare", "after"),
    "the model was trained": (f"{NIGHT}.night", "fit_recipe", "after"),
    "the model was judged": (f"{NIGHT}.night", "decide", "before"),
    "the model is half written": ("slatewise.training.runs", "write_tensors", "after"),
    "the model is half copied": ("shutil", "copystat", "after"),
    "the model has its place": (f"{NIGHT}.night", "Models.promote", "before"),
    "the model is half promoted": ("slatewise.service.serving.models", "_write", "after"),
    "the model serves": (f"{NIGHT}.night", "Models.promote", "after"),
}
"""A function at whose first call the process dies, before it or after it."""


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def retrain_and_die(service: Path, place: str, name: str, when: str) -> None:
    owner: Any = importlib.import_module(place)
    *path, name = name.split(".")
    for part in path:
        owner = getattr(owner, part)
    original = getattr(owner, name)

    def dying(*arguments: object, **more: object) -> None:
        if when == "after":
            original(*arguments, **more)
        die()

    setattr(owner, name, dying)
    retrain_once(service)


def retrain_once(service: Path) -> None:
    night(service, SHELF, 3, settings(promote="always"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A service after its first night, at the end of day 2."""
    directory = tmp_path_factory.mktemp("kill") / "service"
    night(directory, SHELF, 2)
    return directory


def check(service: Path) -> str:
    """See that a whole model serves and that the next night is as any; return its version."""
    loaded = Models.of(service, "main").load()
    assert loaded is not None
    assert not loaded.problems
    found = night(service, SHELF, 4, settings(promote="always"))
    assert found.outcome == "promoted"
    assert found.started_from == loaded.version
    assert not (service / FOLDER).exists()
    assert not list((service / "models" / "main").glob(".*.partial"))
    return loaded.version


@pytest.mark.parametrize("step", STEPS)
def test_a_night_that_dies_at_a_step_leaves_a_whole_model(
    trained: Path, tmp_path: Path, step: str
) -> None:
    service = Path(shutil.copytree(trained, tmp_path / "service"))
    process = PROCESSES.Process(target=retrain_and_die, args=(service, *STEPS[step]))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert (service / FOLDER).exists()
    assert check(service) == ("2" if step == "the model serves" else "1")


def test_a_night_that_is_killed_at_any_moment_leaves_a_whole_model(
    trained: Path, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    for number in range(4):
        service = Path(shutil.copytree(trained, tmp_path / f"service {number}"))
        process = PROCESSES.Process(target=retrain_once, args=(service,))
        process.start()
        wait_for(lambda: (service / FOLDER).exists() or not process.is_alive())  # noqa: B023
        time.sleep(rng.uniform(0, 1.5))
        with suppress(ProcessLookupError):  # it was done before
            os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
        assert check(service) in ("1", "2")


def wait_for(is_so: Callable[[], bool]) -> None:
    while not is_so():
        time.sleep(0.001)
