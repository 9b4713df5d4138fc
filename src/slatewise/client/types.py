"""What clients send and get: small frozen objects with the names of the API.

Fields that a newer service adds are ignored, so that a client need not be as new as its service.
"""

from typing import Any, Literal, NotRequired, TypedDict

from pydantic import BaseModel, ConfigDict


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class RecommendOptions(TypedDict):
    """What a slate may be asked for with; see `POST /v1/recommend`."""

    clicks: NotRequired[list[str]]
    k: NotRequired[int]
    exclude: NotRequired[list[str]]
    allow: NotRequired[list[str]]
    groups: NotRequired[int | dict[str, int]]
    clicked: NotRequired[Literal["exclude", "show"]]
    source: NotRequired[str]
    seed: NotRequired[int]


class RankOptions(TypedDict):
    """What given items may be ordered with; see `POST /v1/rank`."""

    user_id: NotRequired[str]
    clicks: NotRequired[list[str]]
    k: NotRequired[int]
    source: NotRequired[str]


class SlateItem(_Value):
    """An item of a slate."""

    id: str
    group: str
    relevance: float | None
    uncertainty: float | None


class Slate(_Value):
    """A slate to show, and how it came about."""

    slate_id: str
    user_id: str | None
    items: tuple[SlateItem, ...]
    arm: str
    model: str
    version: str
    strategy: str
    seed: int
    source: str
    unknown: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def ids(self) -> list[str]:
        """The ids of the items, in the order in which to show them."""
        return [item.id for item in self.items]


class RankedItem(_Value):
    """An item in its order."""

    id: str
    group: str
    utility: float
    probability: float


class Ranking(_Value):
    """Given items, best first."""

    user_id: str | None
    items: tuple[RankedItem, ...]
    left_out: tuple[str, ...]
    arm: str
    model: str
    version: str
    unknown: tuple[str, ...]
    notes: tuple[str, ...]


class Event(_Value):
    """What a user did with a slate; of a slate that others made, also what it was.

    An event is known by its slate and what it says. To send it again is safe: it counts once.
    """

    slate_id: str
    seen: int | None = None
    """how many items she saw, from the first; all if not given"""
    clicked: str | tuple[str, ...] | None = None
    time: int | str | None = None
    """microseconds since 1970, or ISO 8601 with an offset; when it arrives, if not given"""
    user_id: str | None = None
    source: str | None = None
    items: tuple[str, ...] | None = None


class EventResult(_Value):
    """The result of an event; if recorded, it is on disk."""

    slate_id: str
    status: Literal["recorded", "duplicate", "refused"]
    problem: str | None = None
    remedy: str | None = None


class Item(_Value):
    """An item on offer."""

    id: str
    group: str
    state: Literal["shown", "hidden", "removed"] = "shown"
    features: dict[str, Any] | None = None
    """what is known of it; None leaves what the service has"""


class Visit(_Value):
    """A slate that was made for a user, and what she did."""

    slate_id: str
    time: str
    source: str
    items: tuple[str, ...]
    answered: bool
    seen: int | None
    clicked: tuple[str, ...]
    arm: str | None
