"""The result of a selection: what was chosen, and the gains that led to it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from slatewise.errors import InputError
from slatewise.files import write_json
from slatewise.model.config import ModelConfig
from slatewise.selection.candidates import FEATURES, ModelChoice
from slatewise.training.unused import without_unused
from slatewise.version import __version__

SELECTION: Final = "selection.json"
"""Name of the file in a run."""
FORMAT: Final = "slatewise-selection"
VERSION: Final = 2
CHOSEN: Final = ("terms", "evidence", "half_lives")
"""The settings of a model that a selection chooses."""
ANOTHER_SEED: Final = "the same model, another seed"
"""Name of the comparison that tells how much fits differ."""


@dataclass(frozen=True)
class CandidateResult:
    """The gain of a candidate over the model without it."""

    name: str
    gain: float
    """in nats per interaction, over the same model without it"""
    low: float
    high: float
    """its 95 % interval over users, paired"""
    kept: bool


@dataclass(frozen=True)
class Comparison:
    """The chosen model beside something else, on the judging users."""

    name: str
    log_likelihood: float
    """of the other, after calibration"""
    gain: float
    """of the chosen model over it"""
    low: float
    high: float
    """its 95 % interval over users, paired"""


@dataclass(frozen=True)
class Selection:
    """The chosen model, and how it was found."""

    model: ModelConfig
    """the model to train"""
    results: Sequence[CandidateResult]
    """candidates, the greatest gain first"""
    comparisons: Sequence[Comparison]
    """of the chosen model with the one it began with, every baseline, and another seed of it"""
    impossible: Mapping[str, str]
    """candidates that could not be tried, with the reason"""
    notes: Sequence[str]
    """remarks on the split"""
    about: Mapping[str, Any]
    """seed, settings, and how many users and interactions judged"""
    described: bool = False
    """whether it has item features"""

    @property
    def choice(self) -> ModelChoice:
        """The model to train, with or without item features."""
        return ModelChoice(self.model, self.described)

    @property
    def better(self) -> list[Comparison]:
        """What predicts better than the chosen model, so that the interval can tell."""
        return [one for one in self.comparisons if one.high < 0 and one.name != ANOTHER_SEED]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        model = self.model.model_dump(mode="json")
        return {
            "format": FORMAT,
            "version": VERSION,
            "slatewise": __version__,
            "chosen": {name: model[name] for name in CHOSEN} | {FEATURES: self.described},
            "name": self.choice.name,
            **self.about,
            "candidates": [asdict(one) for one in self.results],
            "comparisons": [asdict(one) for one in self.comparisons],
            "impossible": dict(self.impossible),
            "notes": list(self.notes),
        }

    def write(self, run: Path) -> None:
        """Write the selection into a run."""
        write_json(run / SELECTION, self.to_json())


def read_choice(run: Path, model: ModelConfig) -> ModelChoice | None:
    """Return `model` with the choice of an earlier selection; None if the run has none."""
    file = run / SELECTION
    if not file.exists():
        return None
    try:
        chosen = json.loads(file.read_text(encoding="utf-8"))["chosen"]
        values = {name: chosen[name] for name in CHOSEN}
        described = bool(chosen.get(FEATURES, False))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            "the selection is damaged.", "Remove the file; it will be made again.", file=file
        ) from error
    given = model.model_dump(exclude_unset=True)
    chosen_model = ModelConfig.build(given | values, str(file))
    return ModelChoice(without_unused(chosen_model, item_features=described), described)
