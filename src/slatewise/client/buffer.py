"""Feedback in batches, for programs that learn of one event at a time.

An event in a request of 50 costs the service a fifth of one that comes alone.
"""

import threading
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from slatewise.client.calls import BATCH
from slatewise.client.client import Client
from slatewise.client.types import Event, EventResult
from slatewise.errors import SlatewiseError


class FeedbackBuffer:
    """Collects events of all threads and sends them from one of its own.

    Use it with `with`, or close it: what waits is then sent. An event waits for `seconds` at most
    before it is sent. When `most` of them wait, since the service takes none, `add` is refused.
    """

    def __init__(
        self, client: Client, *, size: int = 50, seconds: float = 0.2, most: int = 10_000
    ) -> None:
        """Start the thread; `size` events are sent at once."""
        self._client, self._size, self._seconds, self._most = client, size, seconds, most
        self._waiting: list[tuple[Event, Future[EventResult]]] = []
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="feedback", daemon=True)
        self._thread.start()

    def add(self, event: Event) -> "Future[EventResult]":
        """Queue an event to be sent; the result comes when it is on disk, or was given up."""
        answer: Future[EventResult] = Future()
        with self._changed:
            if self._closed or len(self._waiting) >= self._most:
                raise SlatewiseError(
                    f"{len(self._waiting):,} events wait to be sent, or the buffer is closed.",
                    "See that the service can be reached; then add it again.",
                )
            self._waiting.append((event, answer))
            if len(self._waiting) in (1, self._size):
                self._changed.notify()
        return answer

    def close(self) -> None:
        """Send what waits and end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Send what waits and end."""
        self.close()

    def _run(self) -> None:
        while batch := self._take():
            try:
                results = self._client.feedback([event for event, _ in batch])
            except Exception as error:
                for _, answer in batch:
                    answer.set_exception(error)
            else:
                for (_, answer), result in zip(batch, results, strict=True):
                    answer.set_result(result)

    def _take(self) -> list[tuple[Event, "Future[EventResult]"]]:
        """Wait for events and then for more of them; return nothing when all is done."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            self._changed.wait_for(
                lambda: len(self._waiting) >= self._size or self._closed, self._seconds
            )
            batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
            for _, answer in batch:
                answer.set_running_or_notify_cancel()  # from here on it cannot be taken back
            return batch
