"""The initial states of users, a module each."""

from slatewise.model.initial_states.base import (
    BASE,
    BatchMoves,
    Floats,
    InitialState,
    Ints,
    TrainingStart,
    click_counts,
)

__all__ = ["BASE", "BatchMoves", "Floats", "InitialState", "Ints", "TrainingStart", "click_counts"]
