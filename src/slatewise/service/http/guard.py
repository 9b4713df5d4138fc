"""Before a route is reached: the token, its role, how often it asks, and how much it sends."""

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import unquote_to_bytes

from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import Response

from slatewise.service.http.limits import RateLimit
from slatewise.service.http.problems import Problem
from slatewise.service.http.security import Role, Tokens, is_loopback

BODY_SECONDS = 10
"""in which a body must have arrived"""
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="slatewise"'}
_SEND = "Send the header Authorization: Bearer TOKEN."
_CLOSE = {"Connection": "close"}


class Gate:
    """Who is let in; without tokens, whoever is on this machine."""

    def __init__(self, tokens: Tokens | None, rate: RateLimit, body_bytes: int) -> None:
        self.tokens, self.rate, self.body_bytes = tokens, rate, body_bytes

    def admit(self, request: Request, role: Role) -> None:
        """Let a request pass, or say why not."""
        raw = request.scope.get("raw_path") or b""
        if b"%" in raw:
            _check_text(raw)
        number = self._known(request, role)
        wait = self.rate.take(number)
        if wait:
            seconds = str(math.ceil(wait))
            raise Problem(
                429,
                "This token asks more often than it may.",
                f"Wait {seconds} s; the rate is requests_per_second of [limits].",
                {"Retry-After": seconds},
            )

    def _known(self, request: Request, role: Role) -> int:
        """Return the number of the request's token, which must have the role."""
        if self.tokens is None:
            _check_host(request)
            return 0
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not token:
            raise Problem(401, "No token.", _SEND, CHALLENGE)
        number = self.tokens.find(token.strip().encode("latin-1", "replace"))
        if number is None:
            raise Problem(401, "The token is not known.", _SEND, CHALLENGE)
        if self.tokens.roles[number] < role:
            needed = role.name.lower()
            raise Problem(403, "The token does not allow this.", f"Use a token with role {needed}.")
        return number


def guarded(role: Role) -> type[APIRoute]:
    """Return a kind of route that needs a token of a role, checked before its body is read."""

    class GuardedRoute(APIRoute):
        needs = role

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def admitted(request: Request) -> Response:
                gate: Gate = request.app.state.backend.gate
                gate.admit(request, role)
                return await handle(_BoundedRequest(request.scope, request.receive))

            return admitted

    return GuardedRoute


class _BoundedRequest(Request):
    """A request whose body is JSON, not too large and not too slow."""

    async def body(self) -> bytes:
        if not hasattr(self, "_body"):
            kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                raise Problem(
                    415, "The body is not JSON.", "Send Content-Type: application/json.", _CLOSE
                )
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    self._body = await self._read(self.app.state.backend.gate.body_bytes)
            except TimeoutError:
                raise Problem(408, "The body came too slowly.", "Send it again.", _CLOSE) from None
        return self._body

    async def _read(self, most: int) -> bytes:
        told = self.headers.get("content-length", "0")
        parts, size = [], int(told) if told.isdecimal() else 0
        if size <= most:
            size = 0
            async for part in self.stream():
                parts.append(part)
                size += len(part)
                if size > most:
                    break
        if size > most:
            remedy = f"Send at most {most:,} bytes at once; batches can be divided."
            raise Problem(413, "The body is too large.", remedy, _CLOSE)
        return b"".join(parts)

    async def json(self) -> Any:
        try:
            return from_json(await self.body(), allow_inf_nan=False)
        except ValueError as error:
            # Only what the parser says: it names the place, not the content.
            raise Problem(400, f"The body is not JSON: {error}.", "Correct the body.") from None


def _check_text(raw: bytes) -> None:
    try:
        unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        raise Problem(400, "The path is not UTF-8.", "Encode ids in the path as UTF-8.") from None


def _check_host(request: Request) -> None:
    """Refuse names of other machines: a web page may have its name point here."""
    host = request.headers.get("host", "")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    if not is_loopback(name):
        raise Problem(403, "Without tokens only this machine is served.", "Ask 127.0.0.1.")
