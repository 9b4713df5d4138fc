"""A real browser for the tests of pages."""

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.debian import found_or_installed

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def _chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """A headless Chromium."""
    api = pytest.importorskip(
        "playwright.sync_api", reason="NOT TESTED IN A BROWSER: playwright is not installed"
    )
    program = found_or_installed(_chromium, "chromium")
    if program is None:
        pytest.skip("NOT TESTED IN A BROWSER: there is no Chromium, and none can be installed")
    with api.sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        launched = playwright.chromium.launch(executable_path=program, args=options)
        yield launched
        launched.close()
