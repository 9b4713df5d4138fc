"""Which model a log gets: settings that follow the log, terms chosen by held-out likelihood."""

from slatewise.selection.candidates import FEATURES, ModelChoice
from slatewise.selection.config import SelectionConfig
from slatewise.selection.fitting import (
    FittingPlan,
    finish_fit,
    fit,
    plan_fit,
    with_usual_likelihood,
)
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
    "Comparison",
    "FittingPlan",
    "ModelChoice",
    "Selection",
    "SelectionConfig",
    "finish_fit",
    "fit",
    "plan_fit",
    "read_choice",
    "select",
    "with_usual_likelihood",
]
