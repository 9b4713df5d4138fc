"""HTTP/1.1 on a connection, with bounds that uvicorn leaves to a proxy: on time, and on size."""

import asyncio
from http import HTTPStatus
from typing import Any

from pydantic_core import to_json
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 10
HEADER_BYTES = 32_768
WHOLE = "slatewise.whole"
"""Key in the scope of a request whose body has arrived already."""


class BoundedProtocol(HttpToolsProtocol):
    """A connection that is closed when it is slow or garrulous."""

    _head_bytes = 0
    _in_head = False
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Expect a request."""
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing any more."""
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came, unless the head of a request grows without end."""
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_head:
            # Counted after parsing: here the head has not ended, so all of it is head.
            self._head_bytes += len(data)
            if self._head_bytes > HEADER_BYTES:
                remedy = f"Send at most {HEADER_BYTES} bytes."
                self._refuse(431, "The headers are too large.", remedy)
                return
        elif self.cycle is None or not self.cycle.response_complete:
            return
        # More is to come: of a head, of a body that is not read any more, or another request.
        if self._patience is None and self.timeout_keep_alive_task is None:
            self._expect()

    def on_headers_complete(self) -> None:
        """Note that the head is complete."""
        self._in_head, self._head_bytes = False, 0
        self._arrived()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that the body is complete."""
        self.scope[WHOLE] = True  # type: ignore[literal-required]
        super().on_message_complete()

    def on_message_begin(self) -> None:
        """Note that a head begins."""
        self._in_head = True
        super().on_message_begin()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP."""
        self._refuse(400, "This is not HTTP.", "Send an HTTP/1.1 request.")

    def _expect(self) -> None:
        self._patience = self.loop.call_later(HEADER_SECONDS, self._too_slow)

    def _arrived(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _too_slow(self) -> None:
        if not self._in_head and self.cycle is not None:
            self.transport.close()  # a request was answered, and no other one began
        self._refuse(408, "The headers came too slowly.", "Send the request again.")

    def _refuse(self, status: int, detail: str, remedy: str) -> None:
        if self.transport.is_closing():
            return
        phrase = HTTPStatus(status).phrase
        problem = {"type": "about:blank", "title": phrase, "status": status}
        body = to_json(problem | {"detail": detail, "remedy": remedy})
        head = (
            f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/problem+json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + body)
        self.transport.close()
