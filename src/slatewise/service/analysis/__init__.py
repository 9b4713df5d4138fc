"""What the log of a service says of its arms: click rates, when to stop, arms that did not run."""

from typing import Any
from weakref import WeakKeyDictionary

from slatewise.service.analysis.estimates import (
    Estimates,
    estimate,
    estimates_json,
    newest_visits,
    read_target,
)
from slatewise.service.analysis.report import ArmReport, Report, as_json, report
from slatewise.service.analysis.tally import Tally
from slatewise.service.analysis.variety import Variety, varieties
from slatewise.service.settings import ServiceConfig
from slatewise.service.store import Store
from slatewise.service.store.clock import DAY

LONGEST_DAYS = 92
"""How far back an overview looks."""
SAMPLE = 2_000
"""Newest slates of each arm by which an overview tells how varied they are."""

_tallies: WeakKeyDictionary[Store, Tally] = WeakKeyDictionary()


def overview(store: Store, config: ServiceConfig) -> dict[str, Any]:
    """Say how the arms do, for `GET /v1/experiment`.

    The log is read once a process, after that only what is new in it. (So an erased person's slates
    stay in these sums, without a name, until the process ends.)
    """
    tally = _tallies.get(store)
    if tally is None:
        tally = _tallies[store] = Tally(store.last_served() - LONGEST_DAYS * DAY)
    tally.read(store)
    found = report(tally, config)
    return as_json(found, varieties(store, found.start, found.end + 1, SAMPLE))


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
    "read_target",
    "report",
    "varieties",
]
