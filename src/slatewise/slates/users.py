"""Who asks for a slate: histories, filters and seeds."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slatewise.errors import SlatewiseError
from slatewise.features.showings import Showing
from slatewise.features.user_history import UserHistory
from slatewise.model.fitted import ItemId
from slatewise.ranking import Filter

Ints = npt.NDArray[np.int64]

NO_FILTER = Filter()


@dataclass(frozen=True)
class Seen:
    """A slate that a user saw, given among her clicks.

    Without a click it says what she did not want, with clicks what stood beside them.
    """

    items: Sequence[ItemId]
    """what she saw of it"""
    clicked: Sequence[ItemId] = ()
    """what she clicked, in that order"""
    source: str | None = None
    """where it came from, by the name that the log has for that; None if that is unknown"""
    time: int = 0
    """microseconds since 1970; 0 if that is unknown, which counts as just before the request"""


Event = ItemId | Seen
"""A click on an item of which no more is known, or a slate."""


def history_of_events(
    events: Sequence[Event],
    find: Callable[[ItemId], int | None],
    sources: Sequence[str],
) -> tuple[UserHistory, list[ItemId]]:
    """Turn ids into numbers by `find`, and sources by their order; return unknown ids, too.

    Items that are not known are left out, and slates of which nothing is left.
    """
    unknown: list[ItemId] = []
    showings = []
    for event in events:
        slate = event if isinstance(event, Seen) else Seen([event], [event])
        numbers = [-1 if number is None else number for number in map(find, slate.items)]
        unknown += [item for item, row in zip(slate.items, numbers, strict=True) if row < 0]
        source = source_number(slate.source, sources)
        showings.append(Showing(tuple(numbers), _clicks(slate), slate.time, source))
    history = UserHistory.of_showings(showings)
    return history.renumbered(history.items, history.sources), unknown


def _clicks(slate: Seen) -> tuple[int, ...]:
    """Return the positions clicked, refusing what cannot be."""
    items, clicked = list(slate.items), list(slate.clicked)
    missing = [item for item in clicked if item not in items]
    if missing:
        raise SlatewiseError(
            f"item {missing[0]!r} was clicked on a slate without it.",
            "Seen.items are all items seen, with those clicked.",
        )
    if len(set(clicked)) < len(clicked):
        raise SlatewiseError("an item of a slate was clicked twice.", "Name each click once.")
    return tuple(items.index(item) for item in clicked)


def source_number(name: str | None, sources: Sequence[str]) -> int:
    """Return the number of a source, −1 for None, refusing one that is not known."""
    if name is None:
        return -1
    if name not in sources:
        raise SlatewiseError(
            f"the model knows no slates from '{name}'.",
            f"Choose from {', '.join(sources)}, or leave the source out.",
        )
    return list(sources).index(name)


@dataclass
class KnownUser:
    """A user as one model knows her."""

    history: UserHistory
    """in rows of the model's table"""
    unknown: Sequence[ItemId] = ()
    """ids in her past that the model does not know"""
    profiles: npt.NDArray[np.float32] | None = None
    """[J, D] where that leaves her in draws of the model, once they were asked for"""
    moves: int = 0
    """of the table of items when they were"""


@dataclass(frozen=True)
class Users:
    """B users, each with what she did, what she must not be shown, and a seed of her own."""

    histories: Sequence[UserHistory]
    """[B]"""
    filters: Sequence[Filter]
    """[B]"""
    seeds: Sequence[int]
    """[B] of everything random in the slate of a user"""
    source: int | None = None
    """where their slates will be shown, as the model numbers it; None for its usual source"""
    time: int | None = None
    """when, in microseconds since 1970; None for the moment at which terms last learned of items"""

    @classmethod
    def of_clicks(cls, clicks: Sequence[Ints], seed: int, *, show_clicked: bool) -> "Users":
        """Take users of whom only clicks are known; b has seed + b."""
        histories = [UserHistory.of_clicks(row) for row in clicks]
        return cls.of_histories(histories, seed, show_clicked=show_clicked)

    @classmethod
    def of_histories(
        cls,
        histories: Sequence[UserHistory],
        seed: int,
        *,
        show_clicked: bool,
        source: int | None = None,
    ) -> "Users":
        """Take users who may be shown everything, or all but their own clicks; b has seed + b."""
        filters = [NO_FILTER if show_clicked else Filter(exclude=one.clicked) for one in histories]
        return cls(histories, filters, [seed + number for number in range(len(histories))], source)

    def each(self) -> Iterator["Users"]:
        """Yield them one by one."""
        for history, wanted, seed in zip(self.histories, self.filters, self.seeds, strict=True):
            yield Users([history], [wanted], [seed], self.source, self.time)

    def pieces(self, count: int) -> Iterator["Users"]:
        """Yield them in pieces of `count`, the last of which may be smaller."""
        for start in range(0, len(self), count):
            here = slice(start, start + count)
            asked = self.histories[here], self.filters[here], self.seeds[here]
            yield Users(*asked, self.source, self.time)

    def __len__(self) -> int:
        """Return B."""
        return len(self.histories)
