"""Requests as values: how each is written, and how its answer is read. No connection is here.

All of them may be sent again when no answer came. Events are known by what they say, items are put
and removed as they should be, and a slate that was made and never arrived was not seen.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote

import httpx

from slatewise.client.errors import ServiceError
from slatewise.client.types import (
    Event,
    EventResult,
    Item,
    Ranking,
    RankOptions,
    RecommendOptions,
    Slate,
    Visit,
)

Answer = TypeVar("Answer")

BATCH: Final = 500
"""events, or items, of one request: half of what a service takes unless its limits say otherwise"""
PAGE: Final = 1_000
"""items of a page"""
_AGAIN: Final = frozenset({429, 502, 503, 504})
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


@dataclass(frozen=True)
class Call(Generic[Answer]):
    """A request and what its answer means."""

    method: str
    path: str
    read: Callable[[Any], Answer]
    """makes the answer of its JSON"""
    body: Mapping[str, Any] | None = None
    query: Mapping[str, str] | None = None
    missing: Answer | None = None
    """the answer to 404, where that is one"""


def recommend(user_id: str | None, options: RecommendOptions) -> Call[Slate]:
    """Ask for a slate."""
    return Call("POST", "/v1/recommend", Slate.model_validate, {"user_id": user_id, **options})


def rank(items: Sequence[str], options: RankOptions) -> Call[Ranking]:
    """Ask for an order of items."""
    return Call("POST", "/v1/rank", Ranking.model_validate, {"items": list(items), **options})


def feedback(events: Sequence[Event]) -> Call[list[EventResult]]:
    """Send feedback on slates."""
    sent = [event.model_dump(exclude_none=True) for event in events]
    return Call("POST", "/v1/feedback", _results, {"events": sent})


def put_items(items: Sequence[Item]) -> Call[int]:
    """Add, show or hide items."""
    sent = [item.model_dump(exclude_none=True) for item in items]
    return Call("PUT", "/v1/items", lambda found: int(found["changed"]), {"items": sent})


def remove_item(item_id: str) -> Call[bool]:
    """Remove an item; false if there was none, as when it was removed and no answer came."""
    return Call("DELETE", f"/v1/items/{_quoted(item_id)}", lambda found: True, missing=False)


def item_page(after: str | None) -> Call[tuple[list[Item], str | None]]:
    """List a page of items."""
    query = {"limit": str(PAGE)} | ({} if after is None else {"after": after})
    return Call("GET", "/v1/items", _page, query=query)


def visits(user_id: str) -> Call[list[Visit]]:
    """See what is known of a user."""
    path = f"/v1/users/{_quoted(user_id)}"
    return Call("GET", path, lambda found: [Visit.model_validate(one) for one in found["visits"]])


def erase_user(user_id: str) -> Call[int]:
    """Erase a user."""
    path = f"/v1/users/{_quoted(user_id)}"
    return Call("DELETE", path, lambda found: int(found["slates"]))


def experiment() -> Call[dict[str, Any]]:
    """See how the arms do."""
    return Call("GET", "/v1/experiment", dict)


def answer_of(call: Call[Answer], response: httpx.Response) -> Answer:
    """Return the content of a response, or raise its error."""
    if response.is_success:
        return call.read(response.json())
    if response.status_code == httpx.codes.NOT_FOUND and call.missing is not None:
        return call.missing
    raise ServiceError.of(response)


def wait_before(attempt: int, response: httpx.Response | None) -> float | None:
    """Return how many seconds to wait before sending again; None if that would not help.

    `attempt` counts from 0; without a response, there was none.
    """
    if response is not None and response.status_code not in _AGAIN:
        return None
    # Of many clients that were refused at once, each comes back at another moment.
    pause = min(_FIRST_PAUSE * 2.0**attempt, _LONGEST_PAUSE) * random.uniform(0.5, 1.0)
    said = "" if response is None else str(response.headers.get("retry-after", ""))
    return max(pause, min(float(said), _LONGEST_PAUSE)) if said.isdecimal() else pause


Part = TypeVar("Part")


def batches(values: Iterable[Part]) -> Iterator[list[Part]]:
    """Divide into what one request may bring."""
    rest = iter(values)
    while batch := list(islice(rest, BATCH)):
        yield batch


def _results(found: Any) -> list[EventResult]:
    return [EventResult.model_validate(one) for one in found["events"]]


def _page(found: Any) -> tuple[list[Item], str | None]:
    return [Item.model_validate(one) for one in found["items"]], found["next"]


def _quoted(name: str) -> str:
    return quote(name, safe="")
