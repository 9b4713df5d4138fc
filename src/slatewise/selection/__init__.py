"""Which terms a model should have for a log: left out one after the other, kept if they pay."""

from slatewise.selection.candidates import FEATURES, Choice
from slatewise.selection.config import SelectionConfig
from slatewise.selection.leave_out import select
from slatewise.selection.record import (
    CHOSEN,
    SELECTION,
    CandidateResult,
    Comparison,
    Selection,
    read_choice,
)

__all__ = [
    "CHOSEN",
    "FEATURES",
    "SELECTION",
    "CandidateResult",
    "Choice",
    "Comparison",
    "Selection",
    "SelectionConfig",
    "read_choice",
    "select",
]
