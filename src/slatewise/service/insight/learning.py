"""What models learned and when: reports of nights, training curves, certainty by views."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from slatewise.errors import SlatewiseError
from slatewise.service.insight.projection import Ints, sample, scales_of
from slatewise.service.nights.report import REPORTS
from slatewise.service.serving.live import Live
from slatewise.service.serving.models import CurrentVersion, Models
from slatewise.training import runs

SAMPLE: Final = 200_000
"""Items whose certainty is averaged by views."""
CURVES: Final = 8
"""Newest versions whose training is reported."""


@dataclass(frozen=True)
class VersionReport:
    """How a version was trained."""

    version: str
    epochs: int | None
    """None where that is not known"""
    best_epoch: int | None
    validation: float | None
    """log-likelihood per interaction of held-out users, at the best epoch"""
    curve: list[float]
    """the same after each epoch; empty where it was not kept"""
    started_from: str | None
    """the version whose posterior training set out from"""
    reliability: list[dict[str, Any]]
    """of validation users, after calibration; empty where `slatewise train` did not make it"""


@dataclass(frozen=True)
class ViewsBin:
    """Items that training saw about equally often."""

    least: int
    """views"""
    most: int
    items: int
    low: float
    """10 % quantile of their posterior standard deviations"""
    median: float
    high: float
    """90 % quantile"""


def night_reports(directory: Path, model: str, most: int) -> list[dict[str, Any]]:
    """Return the newest reports of nights, newest first; one that cannot be read is left out."""
    files = sorted((Models.of(directory, model).directory / REPORTS).glob("*.json"))
    reports = []
    for file in files[: -most - 1 : -1]:
        try:
            reports.append(dict(json.loads(file.read_text(encoding="utf-8"))))
        except (OSError, ValueError, TypeError):
            continue
    return reports


def last_night(directory: Path, model: str) -> dict[str, Any] | None:
    """Summarise the last night of a model; None before the first."""
    for report in night_reports(directory, model, 1):
        return {name: report.get(name) for name in ("time", "outcome", "why", "serving", "seconds")}
    return None


def current_version(directory: Path, model: str) -> CurrentVersion | None:
    """Return which trained version serves, since when and why; None before the first."""
    return Models.of(directory, model).current()


def version_reports(directory: Path, model: str) -> list[VersionReport]:
    """Return how the newest versions were trained, newest first."""
    models = Models.of(directory, model)
    return [_version(models, name) for name in models.versions()[: -CURVES - 1 : -1]]


def _version(models: Models, name: str) -> VersionReport:
    path = models.path(name)
    try:
        run = runs.read_run(path)
    except SlatewiseError:  # it was deleted just now
        run = {}
    metrics = run.get("metrics") or {}
    return VersionReport(
        version=name,
        epochs=metrics.get("epochs"),
        best_epoch=metrics.get("best_epoch"),
        validation=metrics.get("validation_log_likelihood"),
        curve=metrics.get("curve") or _logged_curve(path),
        started_from=(run.get("retraining") or {}).get("started_from"),
        reliability=run.get("reliability") or [],
    )


def _logged_curve(path: Path) -> list[float]:
    """Return the curve of a run that was made by `slatewise train`."""
    try:
        lines = (path / runs.LOG).read_text(encoding="utf-8").splitlines()
        return [float(json.loads(line)["validation"]) for line in lines]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def scales_by_views(live: Live) -> list[ViewsBin]:
    """Return how certain a version is of items on offer, by how often training saw them.

    Of a large catalogue, of a sample. Bins are 0, 1, 2 to 3, 4 to 7 and so on.
    """
    live.count_views()
    return live.consistently(lambda: _scales_by_views(live))


def _scales_by_views(live: Live) -> list[ViewsBin]:
    rows = sample(np.flatnonzero(live.table.available), SAMPLE)
    views, scales = live.catalogue.views_of(rows), scales_of(live.table, rows)
    bins: Ints = np.where(views > 0, np.log2(np.maximum(views, 1)).astype(np.int64) + 1, 0)
    found = []
    for number in np.unique(bins).tolist():
        inside = scales[bins == number].astype(np.float64)
        low, median, high = np.quantile(inside, [0.1, 0.5, 0.9]).tolist()
        least = 0 if number == 0 else 1 << (number - 1)
        found.append(ViewsBin(least, max(2 * least - 1, least), len(inside), low, median, high))
    return found


def plain(values: list[VersionReport] | list[ViewsBin]) -> list[dict[str, Any]]:
    """Return reports as plain values."""
    return [asdict(value) for value in values]
