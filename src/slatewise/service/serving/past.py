"""What a user did, kept in few bytes, and told to a model in its rows.

V visits, L items seen in all of them, C clicks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slatewise.features.history import CountedShowings
from slatewise.features.showings import Showing
from slatewise.service.serving.items import ItemLog
from slatewise.service.serving.offers import Offers
from slatewise.service.store.records import UserHistory
from slatewise.strategies.history import PastSlate

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Past:
    """A user's visits, oldest first."""

    items: npt.NDArray[np.int32]
    """[L] what she saw, as places of the `ItemLog`"""
    offsets: npt.NDArray[np.int32]
    """[V + 1] visit v has the items from `offsets[v]` to the next"""
    clicks: npt.NDArray[np.int32]
    """[C] which of the items she clicked, in the order of the clicks"""
    click_visits: npt.NDArray[np.int32]
    """[C] the visits of the clicks"""
    sources: tuple[str, ...]
    """[V]"""
    seq: int
    """the number of the last record in it"""

    @classmethod
    def of(cls, history: UserHistory, log: ItemLog) -> "Past":
        """Read what the store knows; only what was seen of a slate counts."""
        seen = [visit.slate.items[: visit.seen] for visit in history.visits]
        offsets = np.cumsum([0, *map(len, seen)], dtype=np.int32)
        clicks, visits = [], []
        for number, (visit, items) in enumerate(zip(history.visits, seen, strict=True)):
            for item in visit.clicked:
                clicks.append(int(offsets[number]) + items.index(item))
                visits.append(number)
        return cls(
            log.places(item for items in seen for item in items).astype(np.int32),
            offsets,
            np.array(clicks, np.int32),
            np.array(visits, np.int32),
            tuple(visit.slate.source for visit in history.visits),
            history.seq,
        )

    def same(self, other: "Past") -> bool:
        """Say whether another one has the same in it."""
        if (self.seq, self.sources) != (other.seq, other.sources):
            return False
        mine = (self.items, self.offsets, self.clicks, self.click_visits)
        theirs = (other.items, other.offsets, other.clicks, other.click_visits)
        return all(map(np.array_equal, mine, theirs))


NO_PAST = Past(
    np.empty(0, np.int32),
    np.zeros(1, np.int32),
    np.empty(0, np.int32),
    np.empty(0, np.int32),
    (),
    0,
)
"""Of somebody of whom nothing is known."""


@dataclass
class Told:
    """The same, as a model asks for it: in rows, without what it does not know."""

    clicks: Ints
    unclicked: tuple[PastSlate, ...]
    shown: Sequence[Showing]
    unknown: list[str]
    """ids of clicks that the model does not know"""
    profiles: Floats | None = None
    """where that leaves her in draws of the model, once somebody has asked"""


class Listener(NamedTuple):
    """What a model asks about a user, beside her clicks."""

    sources: dict[str, int]
    """the numbers of the sources that it knows"""
    evidence: frozenset[int]
    """those whose slates without a click move users"""
    history: bool
    """whether it asks what she was shown before"""


def tell(past: Past, clicks: Sequence[str], offers: Offers, listener: Listener) -> Told:
    """Tell a model of a user's past, and of clicks just now, which are slates of one."""
    rows = offers.rows(past.items.astype(np.int64))  # [L]
    clicked = rows[past.clicks]
    unknown = offers.ids_of_places(past.items[past.clicks[clicked < 0]])
    now, strange = offers.find(clicks)
    told = np.concatenate([clicked[clicked >= 0], now])
    unclicked = _unclicked(past, rows, listener) if listener.evidence else ()
    shown: Sequence[Showing] = ()
    if listener.history:
        shown = CountedShowings(*_met(rows, clicked, now), lambda: _showings(past, rows, now))
    return Told(told, unclicked, shown, list(dict.fromkeys([*unknown, *strange])))


def _unclicked(past: Past, rows: Ints, listener: Listener) -> tuple[PastSlate, ...]:
    """Return the slates without a click that move users: of the sources that count."""
    known = past.click_visits[rows[past.clicks] >= 0]  # [clicks that are known]
    with_click = set(past.click_visits.tolist())
    slates = []
    for visit, source in enumerate(past.sources):
        number = listener.sources.get(source)
        if number not in listener.evidence or visit in with_click:
            continue
        items = rows[past.offsets[visit] : past.offsets[visit + 1]]
        items = items[items >= 0]
        if number is not None and len(items):
            slates.append(PastSlate(int(np.searchsorted(known, visit)), items, number))
    return tuple(slates)


def _met(rows: Ints, clicked: Ints, now: Ints) -> tuple[Ints, Ints, int]:
    """Count clicks and views of every item she met: rows [m], counts [m, 2], the last click."""
    clicks = np.concatenate([clicked[clicked >= 0], now])
    items, where = np.unique(np.concatenate([rows[rows >= 0], now]), return_inverse=True)
    counts = np.zeros((len(items), 2), np.int64)
    counts[:, 1] = np.bincount(where, minlength=len(items))
    counts[:, 0] = np.bincount(np.searchsorted(items, clicks), minlength=len(items))
    return items, counts, int(clicks[-1]) if len(clicks) else -1


def _showings(past: Past, rows: Ints, now: Ints) -> tuple[Showing, ...]:
    """Return everything as slates, oldest first."""
    showings = []
    for visit in range(len(past.sources)):
        first, end = int(past.offsets[visit]), int(past.offsets[visit + 1])
        kept = np.flatnonzero(rows[first:end] >= 0)
        places = past.clicks[past.click_visits == visit] - first
        clicks = [int(np.searchsorted(kept, p)) for p in places if rows[first + p] >= 0]
        if len(kept):
            showings.append(Showing(tuple(rows[first:end][kept].tolist()), tuple(clicks)))
    return (*showings, *(Showing((row,), (0,)) for row in now.tolist()))
