"""The client that does not block, for programs with an event loop."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

import httpx

from slatewise.client import calls
from slatewise.client.calls import Answer, Call
from slatewise.client.client import headers, unreachable
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


class AsyncClient:
    """A service, asked by this program's event loop; the same as `Client`, awaited."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 10.0,
        retries: int = 3,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Connect to a URL when first asked; see `Client`."""
        self._http = httpx.AsyncClient(
            base_url=url, headers=headers(token), timeout=timeout, transport=transport
        )
        self._retries = retries

    async def recommend(
        self,
        user_id: str | None = None,
        *,
        timeout: float | None = None,
        **options: Unpack[RecommendOptions],
    ) -> Slate:
        """Make a slate for a user, or for an anonymous one."""
        return await self._send(calls.recommend(user_id, options), timeout)

    async def rank(
        self, items: Sequence[str], *, timeout: float | None = None, **options: Unpack[RankOptions]
    ) -> Ranking:
        """Order given items for a user."""
        return await self._send(calls.rank(items, options), timeout)

    async def feedback(self, events: Iterable[Event]) -> list[EventResult]:
        """Send feedback in batches; return the result of each event, in order."""
        results: list[EventResult] = []
        for batch in calls.batches(events):
            found = await self._send(calls.feedback(batch))
            results += found
        return results

    async def put_items(self, items: Iterable[Item]) -> int:
        """Add, show or hide items, each batch all or none; return how many."""
        return sum([await self._send(calls.put_items(batch)) for batch in calls.batches(items)])

    async def remove_item(self, item_id: str) -> bool:
        """Remove an item; return whether there was one."""
        return await self._send(calls.remove_item(item_id))

    async def items(self) -> AsyncIterator[Item]:
        """Return all items that are shown or hidden, by their ids."""
        after: str | None = None
        while True:
            page, after = await self._send(calls.item_page(after))
            for item in page:
                yield item
            if after is None:
                return

    async def visits(self, user_id: str) -> list[Visit]:
        """Return the newest slates of a user, oldest first; needs the role admin."""
        return await self._send(calls.visits(user_id))

    async def erase_user(self, user_id: str) -> int:
        """Erase a user; return how many slates that were. Needs the role admin."""
        return await self._send(calls.erase_user(user_id))

    async def experiment(self) -> dict[str, Any]:
        """Return how the arms do."""
        return await self._send(calls.experiment())

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close all connections."""
        await self.close()

    async def _send(self, call: Call[Answer], timeout: float | None = None) -> Answer:
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
                response = await self._http.send(request)
            except httpx.TransportError as error:
                problem = error
            wait = calls.wait_before(attempt, response)
            if wait is None or attempt == self._retries:
                break
            await asyncio.sleep(wait)
        if response is None:
            raise unreachable(str(self._http.base_url), problem) from problem
        return calls.answer_of(call, response)
