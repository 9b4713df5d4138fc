"""What the log of a service says of its arms: click rates, when to stop, arms that did not run."""

from slatewise.service.analysis.estimates import (
    Estimates,
    estimate,
    estimates_json,
    newest_visits,
    read_target,
)
from slatewise.service.analysis.overviews import overview, overview_over_time
from slatewise.service.analysis.report import ArmReport, Report, as_json, report
from slatewise.service.analysis.tally import Tally
from slatewise.service.analysis.variety import Variety, varieties

__all__ = [
    "ArmReport",
    "Estimates",
    "Report",
    "Tally",
    "Variety",
    "as_json",
    "estimate",
    "estimates_json",
    "newest_visits",
    "overview",
    "overview_over_time",
    "read_target",
    "report",
    "varieties",
]
