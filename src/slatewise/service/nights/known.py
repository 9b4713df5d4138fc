"""The versions that a new model is held against: the one that serves, and the one before it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slatewise.errors import SlatewiseError
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.selection import SELECTION
from slatewise.service.nights.carrying import by_text
from slatewise.service.serving.models import Models
from slatewise.training import runs


@dataclass(frozen=True)
class Known:
    """A version that could be read."""

    version: str
    model: SlateModel
    """its items known by text"""
    path: Path

    @property
    def until(self) -> int | None:
        """The time until which it has learned from the log; None if it was made elsewhere."""
        until = self._retraining.get("until")
        return None if until is None else int(until)

    @property
    def config(self) -> ModelConfig:
        """What it is, with sources that it was trained without because they had no slates."""
        intended = self._retraining.get("model")
        if intended is None:
            return self.model.config
        return ModelConfig.build(intended, str(self.path / runs.RUN))

    @property
    def training(self) -> dict[str, Any]:
        """How it was fitted; empty if that is not known."""
        return dict(runs.read_run(self.path).get("training", {}))

    @property
    def selection(self) -> Path | None:
        """The record of how its terms were chosen; None if they were not."""
        file = self.path / SELECTION
        return file if file.exists() else None

    @property
    def _retraining(self) -> dict[str, Any]:
        return dict(runs.read_run(self.path).get("retraining", {}))


def known_versions(models: Models) -> tuple[list[Known], list[str]]:
    """Read the version that serves and the one before it, as far as they are whole.

    Also return what is wrong with those that are not.
    """
    serving = models.load()
    now = models.current()
    if serving is None or now is None:
        return [], _damage(models)
    found = [Known(serving.version, by_text(serving.model), models.path(serving.version))]
    past = (now.version, *now.previous)
    for version in past[past.index(serving.version) + 1 :]:
        try:
            model = runs.load(models.path(version))
        except SlatewiseError:  # it does not serve: nothing is lost yet
            continue
        found.append(Known(version, by_text(model), models.path(version)))
        break
    return found, list(serving.problems)


def _damage(models: Models) -> list[str]:
    """Say so where there should be a version to read."""
    now = models.current()
    return [] if now is None else [f"No version is whole, neither {now.version} nor one before it."]
