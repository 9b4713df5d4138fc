"""A real browser for the tests of pages."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def _chromium() -> str | None:
    """Find Chromium, or install Debian's where that is allowed."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    for attempt in range(2):
        found = next(filter(None, map(shutil.which, names)), None)
        may_install = os.geteuid() == 0 and shutil.which("apt-get") is not None
        if found or attempt or not may_install:
            return found
        install = ["apt-get", "-o", "DPkg::Lock::Timeout=300", "install", "-y", "-qq", "chromium"]
        quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for command in (["apt-get", "-qq", "update"], install):
            subprocess.run(command, env=quiet, capture_output=True, check=False, timeout=600)
    return None


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """A headless Chromium."""
    api = pytest.importorskip(
        "playwright.sync_api", reason="NOT TESTED IN A BROWSER: playwright is not installed"
    )
    program = _chromium()
    if program is None:
        pytest.skip("NOT TESTED IN A BROWSER: there is no Chromium, and none can be installed")
    with api.sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        launched = playwright.chromium.launch(executable_path=program, args=options)
        yield launched
        launched.close()
