"""One at a time, and nothing left behind."""

import inspect
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slatewise.errors import SlatewiseError
from slatewise.service.store.workspace import FOLDER, clear_leftovers, workspace

HOLDER = """
import importlib.util, sys, time
from pathlib import Path
spec = importlib.util.spec_from_file_location("workspace", sys.argv[2])  # without torch
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
with module.workspace(Path(sys.argv[1]), "loaded") as folder:
    (folder / "copy").write_text("what people did")
    (folder.parent / "held").touch()
    time.sleep(60)
"""


def hold(directory: Path) -> "subprocess.Popen[bytes]":
    source = inspect.getfile(workspace.__wrapped__)  # type: ignore[attr-defined]
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(directory), source])
    while not (directory / "held").exists():
        assert process.poll() is None
        time.sleep(0.01)
    return process


def test_the_folder_is_empty_at_first_and_gone_at_the_end_whatever_happens(tmp_path: Path) -> None:
    def work() -> None:
        with workspace(tmp_path) as folder:
            assert list(folder.iterdir()) == []
            assert folder.stat().st_mode & 0o077 == 0
            (folder / "copy").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert not (tmp_path / FOLDER).exists()


def test_a_second_one_is_refused_while_the_first_lives_and_not_when_it_was_killed(
    tmp_path: Path,
) -> None:
    process = hold(tmp_path)
    try:
        with (
            pytest.raises(
                SlatewiseError, match=f"loaded already, by process {process.pid}"
            ) as refused,
            workspace(tmp_path),
        ):
            pass
        assert "Wait" in refused.value.remedy
        assert not clear_leftovers(tmp_path)
        assert (tmp_path / FOLDER / "copy").exists()
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert (tmp_path / FOLDER / "copy").exists()
    with workspace(tmp_path) as folder:
        assert list(folder.iterdir()) == []


def test_leftovers_of_a_killed_process_can_be_cleared_without_another_night(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "copy").touch()
    assert clear_leftovers(tmp_path)
    assert not (tmp_path / FOLDER).exists()
