"""What the service writes down, and reads again: slates, what became of them, and items.

Ids are text; times are microseconds since 1970. A sequence number (`seq`) says in which order the
store learned of things: whoever has seen everything up to a number asks for what came after it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


@dataclass(frozen=True)
class Serving:
    """How a slate came about: with it, the same slate can be made again, and judged off-policy."""

    arm: str
    model: str
    """the name of the model; its versions follow one another"""
    version: str
    strategy: str
    seed: int
    k: int
    request: Mapping[str, Any]
    """what the request asked for beside the user: clicks, exclude, allow, groups, clicked"""
    catalogue: int
    """the number of the last change of items that was taken into account"""
    known: int
    """the number of the last thing known of the user"""
    refreshed: int | None = None
    """the time as of which items' popularity was taken into account; None without popularity"""
    propensities: tuple[float, ...] | None = None
    """how likely each item was where it stands, where that was asked for"""


@dataclass(frozen=True)
class SlateRecord:
    """A slate that somebody was shown, by this service or by others."""

    slate_id: str
    user_id: str | None
    """None for somebody without a name: nothing else is known of her"""
    time: int
    source: str
    items: tuple[str, ...]
    """in shown order"""
    serving: Serving | None = None
    """None for a slate that others made"""


@dataclass(frozen=True)
class Outcome:
    """What a user did with a slate, as far as one message tells.

    Several messages about a slate add up: she saw as much as the one that says most, and clicked
    all that any of them names, in the order of their times.
    """

    slate_id: str
    seen: int | None
    """how many items, from the first; None for all"""
    clicked: tuple[str, ...]
    time: int

    @property
    def key(self) -> str:
        """What a retry of the same message has in common with it: all but the time."""
        seen = "" if self.seen is None else str(self.seen)
        return "|".join([seen, *self.clicked])


class Written(StrEnum):
    """What became of an outcome."""

    RECORDED = "recorded"
    DUPLICATE = "duplicate"
    """it was recorded before, and does not count again"""
    UNKNOWN_SLATE = "unknown slate"
    NOT_SHOWN = "not shown"
    """it names a click on an item that the slate does not have, or saw more than there is"""
    ERASED = "erased"
    """of a time before the person's data were erased: it is not kept"""


@dataclass(frozen=True)
class Visit:
    """A slate with all that is known to have become of it; only slates with an outcome are seen."""

    slate: SlateRecord
    seen: int
    clicked: tuple[str, ...]
    """in the order of the clicks"""


@dataclass(frozen=True)
class UserHistory:
    """What a user did."""

    visits: tuple[Visit, ...]
    """oldest first, by the time of the slate"""
    seq: int
    """the number of the last record in it; 0 for none"""


class ItemState(StrEnum):
    """Whether an item may be shown."""

    SHOWN = "shown"
    HIDDEN = "hidden"
    REMOVED = "removed"


@dataclass(frozen=True)
class Item:
    """An item, as it is now."""

    item_id: str
    group: str
    state: ItemState = ItemState.SHOWN
    seq: int = 0
    """the number of the change that made it so"""
