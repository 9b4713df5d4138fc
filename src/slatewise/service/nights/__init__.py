"""Nights: what was clicked becomes a better model, which serves if it is no worse."""

from slatewise.service.nights.night import retrain
from slatewise.service.nights.report import Night
from slatewise.service.store.workspace import clear_leftovers

__all__ = ["Night", "clear_leftovers", "retrain"]
