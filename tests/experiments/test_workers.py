"""Work for other processes must be found by its name there: it stands at the top level."""

import multiprocessing
import os
import time
from functools import partial
from pathlib import Path

import pytest

from slatewise.errors import SlatewiseError
from slatewise.experiments.workers import run_in_processes


def leave(folder: Path, task: int) -> None:
    (folder / str(task)).write_text(str(os.getpid()))


def fail(folder: Path, task: int) -> None:
    if task == 0:
        raise SlatewiseError("no such thing.", "Ask for another.")
    time.sleep(60)
    leave(folder, task)


def die(task: int) -> None:
    os._exit(9)


def test_every_task_is_done_once_and_elsewhere(tmp_path: Path) -> None:
    heard: list[int] = []
    run_in_processes(partial(leave, tmp_path), range(5), 2, lambda: heard.append(1))
    assert sorted(file.name for file in tmp_path.iterdir()) == list("01234")
    assert len(heard) == 5
    processes = {file.read_text() for file in tmp_path.iterdir()}
    assert str(os.getpid()) not in processes
    assert len(processes) <= 2


def test_the_first_failure_ends_all_at_once_and_arrives_in_words(tmp_path: Path) -> None:
    start = time.monotonic()
    with pytest.raises(SlatewiseError, match="no such thing") as error:
        run_in_processes(partial(fail, tmp_path), range(4), 2)
    assert error.value.remedy == "Ask for another."
    assert time.monotonic() - start < 50  # nobody slept to the end
    assert not list(tmp_path.iterdir())
    assert not multiprocessing.active_children()


def test_a_process_that_dies_is_noticed() -> None:
    with pytest.raises(SlatewiseError, match="died") as error:
        run_in_processes(die, range(2), 2)
    assert "--jobs" in error.value.remedy
