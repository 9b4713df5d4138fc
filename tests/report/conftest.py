"""Studies to report on."""

from pathlib import Path

import pytest

from slatewise.experiments import offline, posterior
from slatewise.experiments.findings import Finding
from slatewise.experiments.store import Tables
from slatewise.experiments.study import Bench, Study, StudyConfig, Summary, Unit, run_study

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
