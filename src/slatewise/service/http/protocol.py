"""HTTP/1.1 on a connection, with bounds that uvicorn leaves to a proxy: time, size, number."""

import asyncio
import resource
from collections import Counter
from collections.abc import Callable, Sized
from http import HTTPStatus
from time import monotonic
from typing import Any, ClassVar

import httptools
from pydantic_core import to_json
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 10
HEADER_BYTES = 32_768
"""of the head of a request, and of what may come unseen inside or after its body"""
CONNECTIONS = min(1_000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
"""of a worker: half of the files that it may open"""
PER_PEER = CONNECTIONS // 2
PIPELINED = 16
"""requests that may wait for the answer to one before them on their connection"""
WRITE_SECONDS = 10.0
WRITE_BYTES = 65_536
"""of a long answer that a client must take in WRITE_SECONDS; of a short one, all"""
LEAVE_SECONDS = 1.0
"""seconds that a worker that ends waits for another request on an idle connection"""
WHOLE = "slatewise.whole"
"""Key in the scope of a request whose body has arrived already."""


class PipelineFlow(FlowControl):
    """Reads no more from a connection as long as requests on it wait for their turn."""

    def __init__(self, transport: asyncio.Transport, waiting: Sized) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        """Read on, unless requests wait: uvicorn would take in more after each answer."""
        if not self._waiting:
            super().resume_reading()


class BoundedProtocol(HttpToolsProtocol):
    """A connection that is closed when it is slow, garrulous or one too many."""

    of_peer: ClassVar[Counter[str]] = Counter()
    """connections of this process by the address of the other side"""
    _header_bytes = 0
    """of the head and the trailers of a request, as far as they have been parsed"""
    _unseen = 0
    """bytes since the parser last had something to report: it may be keeping them"""
    _in_head = False
    _leaving = False
    """whether it is closed with its next answer, since the worker ends"""
    _idle_since = 0.0
    _patience: asyncio.TimerHandle | None = None
    _writing: asyncio.TimerHandle | None = None
    """while an answer waits to be taken"""
    _evicted = False

    def connection_made(self, transport: Any) -> None:
        """Expect a request; where there are too many connections, close one."""
        super().connection_made(transport)
        self.flow = PipelineFlow(transport, self.pipeline)
        self._idle_since = monotonic()
        self.of_peer[self._peer] += 1
        if self.of_peer[self._peer] > PER_PEER:
            self._make_room(lambda one: one._peer == self._peer)
        elif len(self.connections) > CONNECTIONS:
            self._make_room(lambda one: True)
        if not self.transport.is_closing():
            self._expect()

    def shutdown(self) -> None:
        """Close the connection with its next answer, which says so; idle ones after a while.

        Closed at once, it could cross a request that is on its way, and that would be lost.
        """
        self._leaving = True
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False
        else:
            self.loop.call_later(LEAVE_SECONDS, self._leave)

    def _leave(self) -> None:
        if self._is_idle:
            self._close()

    def _make_room(self, among: "Callable[[BoundedProtocol], bool]") -> None:
        """Close the connection that has been idle longest, or this new one if none is idle."""
        others: set[Any] = self.connections - {self}
        if spare := [one for one in others if one._is_spare and among(one)]:
            min(spare, key=lambda one: one._idle_since)._evict()
        else:
            self._refuse(503, "There are too many connections.", "Come again in a moment.")

    @property
    def _peer(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def _is_idle(self) -> bool:
        if self.transport.is_closing():
            return False
        return self.cycle is None or self.cycle.response_complete

    @property
    def _is_spare(self) -> bool:
        """Whether it may end where there are too many: idle, or its client takes no answer."""
        if self._evicted:
            return False
        return self.transport.is_closing() or self._is_idle or self.flow.write_paused

    def _evict(self) -> None:
        """End at once; what was written and not taken is lost."""
        self._evicted = True
        self.transport.abort()

    def _close(self) -> None:
        """Close once the client has taken what was written, which it must do in time."""
        self.transport.close()
        self._watch_writing()

    def pause_writing(self) -> None:
        """Wait for the client to take what was written."""
        super().pause_writing()
        self._watch_writing()

    def resume_writing(self) -> None:
        """Note that the client takes its answers."""
        super().resume_writing()
        self._taken()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection on which no other request came."""
        if not self.transport.is_closing():
            self._close()

    def on_response_complete(self) -> None:
        """Go on with the next request; read more only when none waits."""
        super().on_response_complete()
        self.flow.resume_reading()
        self._watch_writing()

    def _watch_writing(self) -> None:
        """Expect the client to take what was written."""
        if self._writing is None and (size := self.transport.get_write_buffer_size()):
            self._writing = self.loop.call_later(WRITE_SECONDS, self._check_written, size)

    def _check_written(self, before: int) -> None:
        self._writing = None
        # A buffer that is closed waits for its client for ever.
        if self.transport.get_write_buffer_size() > max(0, before - WRITE_BYTES):
            self.transport.abort()
        else:
            self._watch_writing()

    def _taken(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing any more."""
        self._arrived()
        self._taken()
        self.of_peer[self._peer] -= 1
        if not self.of_peer[self._peer]:
            del self.of_peer[self._peer]
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer a client that sends no more, and close then; at once if it asked for nothing."""
        last = self.pipeline[0][0] if self.pipeline else self.cycle
        if last is None or last.response_complete or last.more_body:
            return False
        last.keep_alive = False
        return True

    def data_received(self, data: bytes) -> None:
        """Take what came, unless a head, or what follows a body, grows without end."""
        self._idle_since = monotonic()
        self._unseen += len(data)
        self._unset_keepalive_if_required()
        self._parse(data)
        if self._unseen > HEADER_BYTES:
            self._too_large()
        if self.transport.is_closing() or not (self._in_head or self._is_idle):
            return
        # More is to come: of a head, of a body that is not read any more, or another request.
        if self._patience is None and self.timeout_keep_alive_task is None:
            self._expect()

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as found:
            if self._in_head:
                self._ignore_upgrade(data[found.args[0] :])
            else:  # CONNECT
                self.send_400_response("")
        except httptools.HttpParserError:
            self.send_400_response("")

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Stay with HTTP/1.1 when another protocol is offered, as curl --http2 does.

        The parser takes such a head for the end of HTTP: it is parsed again without its Upgrade.
        """
        version = self.parser.get_http_version().encode()
        head = b"%s %s HTTP/%s\r\n" % (self.parser.get_method(), self.url, version)
        kept = [b"%s: %s\r\n" % field for field in self.headers if field[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        self._parse(b"".join([head, *kept, b"\r\n", rest]))

    def on_message_begin(self) -> None:
        """Note that a head begins."""
        self._in_head, self._header_bytes = True, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Count the bytes of a path."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; of trailers, which would count as headers, only count the bytes."""
        self._count(len(name) + len(value) + len(b": \r\n"))
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Note that the head is complete, unless it is to be parsed again."""
        self._unseen = 0
        if self.parser.should_upgrade() and any(name == b"upgrade" for name, _ in self.headers):
            return
        self._in_head = False
        self._arrived()
        super().on_headers_complete()
        if len(self.pipeline) > PIPELINED:
            self.transport.abort()
            raise OverflowError  # which ends parsing
        if self._leaving and self.cycle is not None:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._unseen = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the body is complete."""
        self._unseen = 0
        if self._in_head:  # it ends in an Upgrade, and there has been no body yet
            return
        self.scope[WHOLE] = True  # type: ignore[literal-required]
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP."""
        self._refuse(400, "This is not HTTP.", "Send an HTTP/1.1 request.")

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > HEADER_BYTES:
            self._too_large()
            raise OverflowError  # which ends parsing

    def _too_large(self) -> None:
        self._refuse(431, "The headers are too large.", f"Send at most {HEADER_BYTES} bytes.")

    def _expect(self) -> None:
        self._patience = self.loop.call_later(HEADER_SECONDS, self._too_slow)

    def _arrived(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _too_slow(self) -> None:
        if not self._in_head and self.cycle is not None:
            self._close()  # a request was answered, and no other one began
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
        self._close()
