"""Connections that are slow, huge or no HTTP at all, on a real socket."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from slatewise.service.http import protocol
from slatewise.service.http.protocol import HEADER_BYTES, WHOLE, BoundedProtocol
from tests.service.http.conftest import eventually

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
SLOW = GET.replace(b"/", b"/slow", 1)
LAST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def hello(request: object) -> PlainTextResponse:
    return PlainTextResponse("hello")


async def whole(request: Request) -> PlainTextResponse:
    return PlainTextResponse("whole" if WHOLE in request.scope else "in parts")


async def echo(request: Request) -> PlainTextResponse:
    body = await request.body()
    return PlainTextResponse(f"{body.decode()} {request.headers.get('authorization')}")


MAY_ANSWER = threading.Semaphore(0)
"""Each release lets one request for /slow be answered."""


async def slow(request: object) -> PlainTextResponse:
    while not MAY_ANSWER.acquire(blocking=False):
        await asyncio.sleep(0.005)
    return PlainTextResponse("slow")


async def large(request: object) -> PlainTextResponse:
    return PlainTextResponse(b"y" * 5_000_000)


@contextmanager
def serving(keep_alive: int = 1) -> Iterator[tuple[int, uvicorn.Server]]:
    """Serve on a port in a thread; a connection is kept for some seconds."""
    while MAY_ANSWER.acquire(blocking=False):  # those of a test that failed
        pass
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(
            Starlette(
                routes=[
                    Route("/", hello),
                    Route("/slow", slow),
                    Route("/large", large),
                    Route("/whole", whole, methods=["POST"]),
                    Route("/echo", echo, methods=["POST"]),
                ]
            ),
            http=BoundedProtocol,
            ws="none",
            log_config=None,
            timeout_keep_alive=keep_alive,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        eventually(lambda: server.started)
        yield listening.getsockname()[1], server
        server.should_exit = True
        thread.join(20)
        server.force_exit = True  # where a test failed, an answer may be waited for for ever
        thread.join()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving() as (port, _):
        yield port


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for heads for a moment only; a busy machine may need longer for one that is sent."""
    monkeypatch.setattr(protocol, "HEADER_SECONDS", 0.3)


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


def until(connection: socket.socket, end: bytes) -> bytes:
    """Return what comes, up to an end."""
    answer = b""
    while not answer.endswith(end):
        answer += connection.recv(65_536)
    return answer


@pytest.mark.parametrize("used", [True, False])
def test_a_server_that_ends_answers_a_kept_connection_once_more_and_says_so(
    monkeypatch: pytest.MonkeyPatch, used: bool
) -> None:
    monkeypatch.setattr(protocol, "LEAVE_SECONDS", 60.0 if used else 0.2)
    with (
        serving(keep_alive=60) as (port, server),
        socket.create_connection(("127.0.0.1", port), timeout=50) as connection,
    ):
        connection.sendall(GET)
        assert b"200 OK" in connection.recv(65_536)
        (kept,) = server.server_state.connections
        server.should_exit = True
        eventually(lambda: kept._leaving)  # type: ignore[union-attr]
        if used:
            connection.sendall(GET)
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
        assert (b"200 OK" in answer) is used
        assert (b"connection: close" in answer) is used


@pytest.mark.usefixtures("hurry")
def test_a_request_is_answered_and_the_connection_kept_for_a_while() -> None:
    start = time.monotonic()
    with serving(keep_alive=3) as (port, _):
        answer = talk(port, GET, GET, pause=0.5)  # longer than headers may take, not than a pause
    assert answer.count(b"200 OK") == 2
    assert time.monotonic() - start > 3


def test_headers_in_pieces_are_fine_if_they_come_in_time(port: int) -> None:
    pieces = [GET[n : n + 5] for n in range(0, len(GET), 5)]
    assert b"200 OK" in talk(port, *pieces, pause=0.01)


@pytest.mark.usefixtures("hurry")
def test_a_connection_that_says_nothing_is_closed(port: int) -> None:
    start = time.monotonic()
    assert b" 408 " in talk(port)
    assert time.monotonic() - start < 10


@pytest.mark.usefixtures("hurry")
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


@pytest.mark.parametrize("fields", [1, 60])
def test_headers_that_come_in_one_packet_are_bounded_too(port: int, fields: int) -> None:
    large = b"".join(b"X: %s\r\n" % (b"y" * (60_000 // fields)) for _ in range(fields))
    answer = talk(port, GET[:-2] + large + b"\r\n")
    assert b" 431 " in answer
    assert b"200 OK" not in answer


CHUNKED = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n"


def test_trailers_are_no_headers(port: int) -> None:
    answer = talk(port, CHUNKED + b"Authorization: Bearer x\r\n\r\n", LAST)
    assert b"body None" in answer
    assert answer.count(b"200 OK") == 2


TRAILERS = {"fields": b"X: y\r\n" * 1_000, "one field": b"y" * 6_000, "line ends": b"\r\n" * 3_000}


@pytest.mark.parametrize("what", TRAILERS)
def test_what_follows_a_body_is_bounded(port: int, what: str) -> None:
    """The parser would keep all of it, before any token is looked at."""
    sent = 0
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(CHUNKED)
        with suppress(ConnectionError):
            while sent < 12_000_000:
                sent += connection.send(TRAILERS[what])
    assert sent < 12_000_000  # what was sent may lie in buffers of the system


def test_silent_connections_keep_nobody_out(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEADER_SECONDS", 60)
    for bound in ("PER_PEER", "CONNECTIONS"):
        with monkeypatch.context() as context, ExitStack() as opened:
            context.setattr(protocol, bound, 20)
            silent = [
                opened.enter_context(socket.create_connection(("127.0.0.1", port)))
                for _ in range(40)
            ]
            assert b"200 OK" in talk(port, LAST)
            silent[0].settimeout(60)
            assert silent[0].recv(1) == b""  # the one that was silent longest is closed
            silent[-1].sendall(GET)
            assert b"200 OK" in silent[-1].recv(65_536)
            assert BoundedProtocol.of_peer["127.0.0.1"] <= 20
    eventually(lambda: not BoundedProtocol.of_peer)


def test_an_offer_to_speak_another_protocol_loses_no_body(port: int) -> None:
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n"
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\n" + offer + b"Content-Length: 4\r\n\r\n"
    for pieces in ((head + b"body", LAST), (head, b"bo", b"dy", LAST), (head + b"body" + LAST,)):
        answer = talk(port, *pieces, pause=0.02)
        assert b"body None" in answer
        assert answer.count(b"200 OK") == 2
    assert b" 400 " in talk(port, b"CONNECT / HTTP/1.1\r\nHost: x\r\n\r\n")


def test_a_body_is_no_header(port: int) -> None:
    head = b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n"
    assert b"200 OK" in talk(port, head, *[b"y" * 50_000] * 4)


def test_a_body_that_is_there_with_its_head_is_known_to_be(port: int) -> None:
    head = b"POST /whole HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"
    assert talk(port, head + b"body").endswith(b"whole")
    assert talk(port, (head + b"body") * 2).count(b"whole") == 2


@pytest.mark.parametrize("before", [0, 1])
def test_a_body_that_comes_after_its_head_is_known_to_come_in_parts(port: int, before: int) -> None:
    head = b"POST /whole HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall((head + b"body") * before + head)  # and the last body never
        assert until(client, b"in parts").count(b"whole") == before


@pytest.mark.usefixtures("hurry")
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


def test_requests_that_wait_on_a_connection_are_answered_in_turn_and_bounded() -> None:
    with serving() as (port, server):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            connection.sendall(SLOW * 3)
            eventually(lambda: server.server_state.connections)
            (one,) = server.server_state.connections
            assert isinstance(one, BoundedProtocol)
            eventually(lambda: len(one.pipeline) == 2)
            MAY_ANSWER.release()
            assert until(connection, b"slow").count(b"200 OK") == 1
            eventually(lambda: len(one.pipeline) == 1)
            assert one.flow.read_paused
            MAY_ANSWER.release()
            assert until(connection, b"slow").count(b"200 OK") == 1
            eventually(lambda: not one.flow.read_paused)
            MAY_ANSWER.release()
            assert until(connection, b"slow").count(b"200 OK") == 1
        assert talk(port, GET * protocol.PIPELINED, LAST).count(b"200 OK") == 17
        assert talk(port, GET * 200 + LAST).count(b"200 OK") < 17


def test_answers_that_nobody_takes_keep_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    for head in (GET, LAST):
        with serving() as (port, server), socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            connection.connect(("127.0.0.1", port))
            with monkeypatch.context() as hasty:
                hasty.setattr(protocol, "WRITE_SECONDS", 0.5)
                connection.sendall(head.replace(b"/", b"/large", 1))
                eventually(lambda: server.server_state.total_requests)
                eventually(lambda: not server.server_state.connections)
            assert talk(port, LAST.replace(b"/", b"/large", 1)).endswith(b"y" * 4_000_000)


def test_answers_that_nobody_takes_make_room_for_others(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "PER_PEER", 4)
    with ExitStack() as opened:
        for head in (GET, LAST) * 4:
            connection = opened.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            connection.connect(("127.0.0.1", port))
            connection.sendall(head.replace(b"/", b"/large", 1))
            assert connection.recv(10) == b"HTTP/1.1 2"
        assert b"200 OK" in talk(port, LAST)
        assert BoundedProtocol.of_peer["127.0.0.1"] <= 4
