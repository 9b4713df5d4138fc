"""The client that waits, for programs with threads."""

import time
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

import httpx

from slatewise.client import calls
from slatewise.client.calls import Answer, Call
from slatewise.client.errors import UnreachableError
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


class Client:
    """A service, asked by this program. One for all threads; close it, or use it with `with`."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 10.0,
        retries: int = 3,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Connect to a URL when first asked.

        `timeout` is in seconds, of one attempt; `retries` is how often a request is sent again
        when no answer came, or one that says to come again.
        """
        self._http = httpx.Client(
            base_url=url, headers=headers(token), timeout=timeout, transport=transport
        )
        self._retries = retries

    def recommend(
        self,
        user_id: str | None = None,
        *,
        timeout: float | None = None,
        **options: Unpack[RecommendOptions],
    ) -> Slate:
        """Make a slate for a user, or for an anonymous one."""
        return self._send(calls.recommend(user_id, options), timeout)

    def rank(
        self, items: Sequence[str], *, timeout: float | None = None, **options: Unpack[RankOptions]
    ) -> Ranking:
        """Order given items for a user."""
        return self._send(calls.rank(items, options), timeout)

    def feedback(self, events: Iterable[Event]) -> list[EventResult]:
        """Send feedback in batches; return the result of each event, in order."""
        sent = (self._send(calls.feedback(batch)) for batch in calls.batches(events))
        return [result for results in sent for result in results]

    def put_items(self, items: Iterable[Item]) -> int:
        """Add, show or hide items, each batch all or none; return how many."""
        return sum(self._send(calls.put_items(batch)) for batch in calls.batches(items))

    def remove_item(self, item_id: str) -> bool:
        """Remove an item; return whether there was one."""
        return self._send(calls.remove_item(item_id))

    def items(self) -> Iterator[Item]:
        """Return all items that are shown or hidden, by their ids."""
        after: str | None = None
        while True:
            page, after = self._send(calls.item_page(after))
            yield from page
            if after is None:
                return

    def visits(self, user_id: str) -> list[Visit]:
        """Return the newest slates of a user, oldest first; needs the role admin."""
        return self._send(calls.visits(user_id))

    def erase_user(self, user_id: str) -> int:
        """Erase a user; return how many slates that were. Needs the role admin."""
        return self._send(calls.erase_user(user_id))

    def experiment(self) -> dict[str, Any]:
        """Return how the arms do."""
        return self._send(calls.experiment())

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close all connections."""
        self.close()

    def _send(self, call: Call[Answer], timeout: float | None = None) -> Answer:
        request = self._http.build_request(
            call.method,
            call.path,
            json=call.body,
            params=call.query,
            timeout=self._http.timeout if timeout is None else timeout,
        )
        problem: httpx.TransportError | None = None
        for attempt in range(self._retries + 1):
            response: httpx.Response | None = None
            try:
                response = self._http.send(request)
            except httpx.TransportError as error:
                problem = error
            wait = calls.wait_before(attempt, response)
            if wait is None or attempt == self._retries:
                break
            time.sleep(wait)
        if response is None:
            raise unreachable(str(self._http.base_url), problem) from problem
        return calls.answer_of(call, response)


def headers(token: str | None) -> dict[str, str]:
    """Return the headers of a token."""
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def unreachable(url: str, problem: httpx.TransportError | None) -> UnreachableError:
    """Return the error for an answer that did not come."""
    why = str(problem) or type(problem).__name__
    return UnreachableError(f"{url} did not answer: {why}.", "See that the service runs there.")
