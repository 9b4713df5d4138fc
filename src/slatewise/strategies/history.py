"""What a user did, as far as it moves her: clicks, and slates that she saw without one.

Shapes: E events that move a user, L items of all of them, D dimensions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slatewise.errors import SlatewiseError
from slatewise.features.showings import Showing
from slatewise.model.fitted import ItemId

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Unclicked:
    """A slate that a user saw and clicked nothing of; it stands among her clicks."""

    items: Sequence[ItemId]
    """what she saw of it"""
    source: str
    """where it came from, by the name that the log has for that"""


@dataclass(frozen=True)
class Seen:
    """A slate that a user saw, with what she clicked of it; it stands among her clicks.

    To a model with history it says more than the clicks alone: what she was shown beside them.
    """

    items: Sequence[ItemId]
    """what she saw of it"""
    clicked: Sequence[ItemId]
    """what she clicked, in that order; nothing is the same as `Unclicked`"""
    source: str
    """where it came from, by the name that the log has for that"""


Event = ItemId | Unclicked | Seen
"""A click on an item, a slate without a click, or a slate with clicks."""


class PastSlate(NamedTuple):
    """A slate without a click, in numbers."""

    after: int
    """how many clicks came before it"""
    items: Ints
    source: int


class History(NamedTuple):
    """What a user did, in numbers."""

    clicks: Ints
    """items clicked, oldest first"""
    unclicked: tuple[PastSlate, ...]
    """slates without a click, oldest first"""
    unknown: list[ItemId]
    """ids of clicks and slates that are not known, and were left out"""
    shown: tuple[Showing, ...]
    """everything as slates, oldest first; a click that stands alone is a slate of one"""


def read_history(
    events: Sequence[Event],
    known: Callable[[Sequence[ItemId]], tuple[Ints, list[ItemId]]],
    sources: Sequence[str],
) -> History:
    """Turn ids into numbers by `known` (as `Catalogue.known`), and sources by their order.

    A slate of which no item is known is left out.
    """
    clicks: list[int] = []
    unclicked: list[PastSlate] = []
    unknown: list[ItemId] = []
    shown: list[Showing] = []
    for event in events:
        seen, clicked, source = _parts(event, sources)
        items, lost = known(seen)
        unknown += lost
        numbers = items.tolist()
        here = [numbers.index(number) for number in known(clicked)[0].tolist()]
        if not clicked and numbers:
            unclicked.append(PastSlate(len(clicks), items, source))
        clicks += [numbers[place] for place in here]
        if numbers:
            shown.append(Showing(tuple(numbers), tuple(here), source=source))
    return History(np.array(clicks, dtype=np.int64), tuple(unclicked), unknown, tuple(shown))


def _parts(event: Event, sources: Sequence[str]) -> tuple[Sequence[ItemId], Sequence[ItemId], int]:
    """Return what was seen, what was clicked, and the number of the source."""
    if isinstance(event, Unclicked):
        return event.items, (), _source(event.source, sources)
    if not isinstance(event, Seen):
        return [event], [event], 0
    missing = [item for item in event.clicked if item not in event.items]
    if missing:
        raise SlatewiseError(
            f"item {missing[0]!r} was clicked on a slate without it.",
            "Seen.items are all items seen, with those clicked.",
        )
    return event.items, event.clicked, _source(event.source, sources)


def as_shown(clicks: Ints, unclicked: Sequence[PastSlate]) -> tuple[Showing, ...]:
    """Return clicks, as slates of one, and slates without a click in the order of events."""
    parts = [(number, 1, Showing((click,), (0,))) for number, click in enumerate(clicks.tolist())]
    for slate in unclicked:
        showing = Showing(tuple(slate.items.tolist()), source=slate.source)
        parts.append((slate.after, 0, showing))
    return tuple(part[2] for part in sorted(parts, key=lambda part: part[:2]))


def _source(name: str, sources: Sequence[str]) -> int:
    if name not in sources:
        raise SlatewiseError(
            f"the model knows no slates from '{name}'.", f"They come from {', '.join(sources)}."
        )
    return list(sources).index(name)


class Events(NamedTuple):
    """All that moves one user, oldest first; a click is a slate of one."""

    kinds: Ints
    """[E] −1 for a click, else the place of the slate's source among the fractions"""
    items: Ints
    """[L]"""
    offsets: Ints
    """[E + 1] event e has the items from `offsets[e]` to the next"""

    @classmethod
    def of(cls, clicks: Ints, unclicked: Sequence[PastSlate], places: Ints) -> "Events":
        """Put clicks and slates in order, without the slates that move nobody.

        `places` [number of sources] are those of `Evidence`.
        """
        moving = [slate for slate in unclicked if places[slate.source] >= 0]
        if not moving:
            return cls(np.full(len(clicks), -1), clicks, np.arange(len(clicks) + 1))
        # A slate after n clicks comes before click number n, counted from 0.
        parts = [(slate.after, 0, int(places[slate.source]), slate.items) for slate in moving]
        parts += [(number, 1, -1, clicks[number : number + 1]) for number in range(len(clicks))]
        parts.sort(key=lambda part: part[:2])
        items = [part[3] for part in parts]
        return cls(
            kinds=np.array([part[2] for part in parts]),
            items=np.concatenate(items),
            offsets=np.cumsum([0, *map(len, items)]),
        )

    def averages(self, vectors: Floats) -> Floats:
        """Average the vectors [..., L, D] of each event's items: [..., E, D]."""
        lengths = np.diff(self.offsets)
        if len(self.items) == len(lengths):
            return vectors
        sums = np.add.reduceat(vectors, self.offsets[:-1], axis=-2)
        return np.divide(sums, lengths[:, None], dtype=np.float32)
