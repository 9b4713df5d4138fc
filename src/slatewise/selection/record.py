"""The result of a selection: what was chosen, and the gains that led to it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from slatewise.errors import InputError
from slatewise.model.config import ModelConfig
from slatewise.selection.candidates import FEATURES, Choice
from slatewise.training.runs import write_json
from slatewise.version import __version__

SELECTION: Final = "selection.json"
"""Name of the file in a run."""
FORMAT: Final = "slatewise-selection"
VERSION: Final = 1
CHOSEN: Final = ("terms", "evidence", "half_lives")
"""The settings of a model that a selection chooses."""

Outcome = Literal["kept", "tried again", "not kept", "hopeless"]
"""`hopeless`: the whole interval is below what a term must gain; it is not tried again."""


@dataclass(frozen=True)
class CandidateResult:
    """The gain of a candidate in one round."""

    name: str
    gain: float
    """in nats per interaction, over the same model without it"""
    low: float
    high: float
    """its 95 % interval over users, paired"""
    outcome: Outcome


@dataclass(frozen=True)
class Round:
    """The gains of all candidates, each added to the same model."""

    added_to: str
    """name of that model"""
    log_likelihood: float
    """of that model on the judging users, after calibration"""
    tried: Sequence[CandidateResult]


@dataclass(frozen=True)
class Selection:
    """The chosen model, and how it was found."""

    model: ModelConfig
    """the model to train"""
    rounds: Sequence[Round]
    impossible: Mapping[str, str]
    """candidates that could not be tried, with the reason"""
    notes: Sequence[str]
    """remarks on the split"""
    about: Mapping[str, Any]
    """seed, settings, and how many users and interactions judged"""
    described: bool = False
    """whether it has item features"""

    @property
    def choice(self) -> Choice:
        """The model to train, with or without item features."""
        return Choice(self.model, self.described)

    def last_results(self) -> Iterator[tuple[int, CandidateResult]]:
        """Yield for every candidate its last round (from 1), and its gain there."""
        found = {
            tried.name: (number, tried)
            for number, one in enumerate(self.rounds, start=1)
            for tried in one.tried
        }
        yield from sorted(found.values(), key=lambda row: (row[1].outcome != "kept", row[0]))

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
            "rounds": [asdict(one) for one in self.rounds],
            "impossible": dict(self.impossible),
            "notes": list(self.notes),
        }

    def write(self, run: Path) -> None:
        """Write the selection into a run."""
        write_json(run / SELECTION, self.to_json())


def read_choice(run: Path, model: ModelConfig) -> Choice | None:
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
    return Choice(ModelConfig.build(model.model_dump() | values, str(file)), described)
