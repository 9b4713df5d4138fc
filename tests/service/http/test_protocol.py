"""Connections that are slow, huge or no HTTP at all, on a real socket."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from slatewise.service.http import protocol
from slatewise.service.http.protocol import HEADER_BYTES, WHOLE, BoundedProtocol

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def hello(request: object) -> PlainTextResponse:
    return PlainTextResponse("hello")


async def whole(request: Request) -> PlainTextResponse:
    return PlainTextResponse("whole" if WHOLE in request.scope else "in parts")


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with pytest.MonkeyPatch.context() as hurry, socket.create_server(("127.0.0.1", 0)) as listening:
        hurry.setattr(protocol, "HEADER_SECONDS", 0.3)
        config = uvicorn.Config(
            Starlette(routes=[Route("/", hello), Route("/whole", whole, methods=["POST"])]),
            http=BoundedProtocol,
            ws="none",
            log_config=None,
            timeout_keep_alive=1,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield listening.getsockname()[1]
        server.should_exit = True
        thread.join()


def talk(port: int, *pieces: bytes, pause: float = 0.0) -> bytes:
    """Send pieces; return all that comes until the connection is closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        answer = b""
        with suppress(ConnectionError):  # it may close before it has read all
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause)
        with suppress(ConnectionResetError):
            while part := connection.recv(65_536):
                answer += part
        return answer


def test_a_request_is_answered_and_the_connection_kept_for_a_while(port: int) -> None:
    start = time.monotonic()
    answer = talk(port, GET, GET, pause=0.5)  # longer than headers may take, not than a pause may
    assert answer.count(b"200 OK") == 2
    assert time.monotonic() - start > 1


def test_headers_in_pieces_are_fine_if_they_come_in_time(port: int) -> None:
    pieces = [GET[n : n + 5] for n in range(0, len(GET), 5)]
    assert b"200 OK" in talk(port, *pieces, pause=0.01)


def test_a_connection_that_says_nothing_is_closed(port: int) -> None:
    start = time.monotonic()
    assert b" 408 " in talk(port)
    assert time.monotonic() - start < 10


def test_headers_that_trickle_in_are_not_waited_for(port: int) -> None:
    for before in ((), (GET,)):  # the first request of a connection, and a later one
        answer = talk(port, *before, b"GET / HTTP/1.1\r\nX: ", b"y", b"y", b"y", pause=0.15)
        assert b" 408 " in answer
        assert b"application/problem+json" in answer


@pytest.mark.parametrize("line", [b"GET /", b"GET / HTTP/1.1\r\nX: "])
def test_headers_without_end_are_refused(port: int, line: bytes) -> None:
    answer = talk(port, line, b"y" * (HEADER_BYTES + 9 - len(line)))
    assert b" 431 " in answer
    assert b"remedy" in answer


def test_a_body_is_no_header(port: int) -> None:
    head = b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n"
    assert b"200 OK" in talk(port, head, *[b"y" * 50_000] * 4)


def test_a_body_that_is_there_with_its_head_is_known_to_be(port: int) -> None:
    head = b"POST /whole HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"
    for pieces, told in (((head + b"body",), b"whole"), ((head, b"body"), b"in parts")):
        assert talk(port, *pieces, pause=0.1).endswith(told)
    assert talk(port, (head + b"body") * 2).count(b"whole") == 2
    assert talk(port, head + b"body" + head, b"body", pause=0.1).count(b"in parts") == 1


def test_a_body_that_nobody_reads_is_not_waited_for(port: int) -> None:
    head = b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n"
    start = time.monotonic()
    assert talk(port, head, b"y", b"y", b"y", pause=0.2).count(b"HTTP/1.1") == 1
    assert time.monotonic() - start < 10


def test_what_is_not_http_is_refused_as_a_problem(port: int) -> None:
    for noise in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"HELO mail\r\n\r\n",
        b"\x00" * 9,
    ):
        answer = talk(port, noise)
        assert b" 400 " in answer
        assert b"application/problem+json" in answer
