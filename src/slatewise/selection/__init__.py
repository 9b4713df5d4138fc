"""Which terms a model should have for a log: tried one after the other, kept if they pay."""

from slatewise.selection.candidates import FEATURES, Choice
from slatewise.selection.config import VALIDATION_DRAWS, SelectionConfig, recipe_for
from slatewise.selection.forward import select
from slatewise.selection.record import (
    CHOSEN,
    SELECTION,
    CandidateResult,
    Round,
    Selection,
    read_choice,
)

__all__ = [
    "CHOSEN",
    "FEATURES",
    "SELECTION",
    "VALIDATION_DRAWS",
    "CandidateResult",
    "Choice",
    "Round",
    "Selection",
    "SelectionConfig",
    "read_choice",
    "recipe_for",
    "select",
]
