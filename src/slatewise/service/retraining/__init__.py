"""Nights: what was clicked becomes a better model, which serves if it is no worse."""

from slatewise.service.retraining.night import retrain
from slatewise.service.retraining.report import Night, last_report
from slatewise.service.retraining.schedule import next_night
from slatewise.service.retraining.workspace import clear_leftovers

__all__ = ["Night", "clear_leftovers", "last_report", "next_night", "retrain"]
