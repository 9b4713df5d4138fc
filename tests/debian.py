"""Programs that Debian has, installed where that is allowed."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")


def found_or_installed(find: Callable[[], Found | None], package: str) -> Found | None:
    """Find a program, or install its package; None where it is not there and cannot be."""
    found = find()
    if found is not None or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return found
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "-o", "DPkg::Lock::Timeout=300", "install", "-y", "-qq", package]
    # One process of the tests after the other: of two, one would find the lists of packages locked,
    # and miss its own.
    with (Path(tempfile.gettempdir()) / "slatewise-apt.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if (found := find()) is None:
            for command in (["apt-get", "-qq", "update"], install):
                with suppress(subprocess.TimeoutExpired):
                    subprocess.run(
                        command, env=quiet, capture_output=True, check=False, timeout=600
                    )
            found = find()
    return found
