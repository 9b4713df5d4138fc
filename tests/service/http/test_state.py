"""The files that workers share."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slatewise.errors import SlatewiseError
from slatewise.service.http.state import FOLDER, LOCK, shared_state

HOLD = """
import sys, pathlib, time
from slatewise.service.http.state import shared_state
with shared_state(pathlib.Path(sys.argv[1])) as folder:
    print(folder, flush=True)
    time.sleep(60)
"""


def folders(directory: Path) -> set[Path]:
    return {lock.parent for lock in (directory / FOLDER).glob(f"*/{LOCK}")}


def test_state_is_in_the_service_s_directory_and_gone_afterwards(tmp_path: Path) -> None:
    with shared_state(tmp_path) as one, shared_state(tmp_path) as other:
        assert one != other
        assert folders(tmp_path) == {one, other}
        assert one.stat().st_mode & 0o077 == 0
    assert not folders(tmp_path)


def test_what_a_killed_supervisor_left_is_removed_and_a_living_one_keeps_its_own(
    tmp_path: Path,
) -> None:
    held = subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True
    )
    assert held.stdout is not None
    theirs = Path(held.stdout.readline().strip())
    with shared_state(tmp_path) as mine:
        assert folders(tmp_path) == {mine, theirs}
    os.kill(held.pid, signal.SIGKILL)
    held.communicate()
    with shared_state(tmp_path) as mine:
        assert folders(tmp_path) == {mine}


def test_a_directory_that_cannot_be_written_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("in the way")
    with pytest.raises(SlatewiseError, match="cannot be written"), shared_state(tmp_path):
        pass
