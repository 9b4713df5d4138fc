"""Studies to report on, and a real browser to look at the report with."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slatewise.experiments import offline, posterior
from slatewise.experiments.findings import Finding
from slatewise.experiments.store import Tables
from slatewise.experiments.study import Bench, Study, StudyConfig, Summary, Unit, run_study

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NASTY = "<script>alert('shoes & \"boots\"')</script>"
"""A name that somebody may have given a group."""


def _units(config: StudyConfig) -> list[Unit]:
    return [Unit(seed) for seed in config.seeds]


def _run(config: StudyConfig, unit: Unit, bench: Bench) -> Tables:
    return {"groups": [{"seed": unit.seed, "group": NASTY, "views": 1_234, "rate": -0.125}]}


def _summarise(config: StudyConfig, tables: Tables) -> Summary:
    finding = Finding(f"Is {NASTY} seen?", f"views of {NASTY}", 0.2, -0.1, 0.5, paper="above")
    return Summary({"lists": [{"name": "a", "values": [1.0, 2.0]}]}, [finding])


TOY = Study("toy", f"A toy about {NASTY}", StudyConfig, _units, _run, _summarise)


@pytest.fixture(scope="session")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the offline and posterior studies, and one the report does not know."""
    out = tmp_path_factory.mktemp("report")
    common = {"preset": "tiny", "training": {"max_epochs": 2}, "resamples": 50}
    few = {"seeds": (0,), "variants": ("slate-gru-hier", "slate-linear-hier", "all-item-gru-hier")}
    run_study(offline.STUDY, offline.OfflineConfig.build(common | few, "test"), out)
    run_study(
        posterior.STUDY, posterior.PosteriorConfig.build(common | {"seeds": (0, 1)}, "test"), out
    )
    run_study(TOY, StudyConfig(seeds=(4,), preset="tiny"), out)
    return out


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
