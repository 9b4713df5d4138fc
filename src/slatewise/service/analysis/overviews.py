"""The results of the arms as the API shows them, of a log that is read once a process."""

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from slatewise.service.analysis.history import Bools, history, history_json
from slatewise.service.analysis.report import as_json, report
from slatewise.service.analysis.tally import Tally
from slatewise.service.analysis.variety import varieties
from slatewise.service.settings import ServiceConfig
from slatewise.service.store import Store
from slatewise.service.store.clock import DAY

LONGEST_DAYS = 92
"""How far back an overview looks."""
SAMPLE = 2_000
"""Newest slates of each arm by which an overview tells how varied they are."""

_tallies: WeakKeyDictionary[Store, Tally] = WeakKeyDictionary()


def overview(store: Store, config: ServiceConfig) -> dict[str, Any]:
    """Return the results of the arms, for `GET /v1/experiment`.

    The log is read once a process, after that only what is new in it. (So an erased person's slates
    stay in these sums, without a name, until the process ends.)
    """
    found = report(_tally_of(store), config)
    return as_json(found, varieties(store, found.start, found.end + 1, SAMPLE))


def overview_over_time(
    store: Store, config: ServiceConfig, is_little_seen: Callable[[Sequence[str]], Bools]
) -> dict[str, Any]:
    """Return the results of the arms by period, for `GET /v1/experiment/history`."""
    return history_json(history(_tally_of(store), store, config, is_little_seen))


def _tally_of(store: Store) -> Tally:
    """Return what is counted of a store, with what is new in it."""
    tally = _tallies.get(store)
    if tally is None:
        tally = _tallies[store] = Tally(store.last_served() - LONGEST_DAYS * DAY)
    tally.read(store)
    return tally
