"""Before a route is reached: the token, its role, how often it asks, and how much it sends."""

import asyncio
import math
from collections.abc import Callable, Coroutine
from functools import cached_property
from typing import Any, ClassVar
from urllib.parse import unquote_to_bytes

from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from slatewise.service.http import problems
from slatewise.service.http.limits import BYTES, Cost, RateLimit, cost_of
from slatewise.service.http.problems import Problem
from slatewise.service.http.protocol import WHOLE
from slatewise.service.http.security import Role, Tokens, is_loopback

BODY_SECONDS = 10
"""in which a body must have arrived"""
GUESSES = 5.0
"""unknown tokens a second that a worker answers at once"""
BRAKE_SECONDS = 1.0
"""that others wait for their answer"""
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="slatewise"'}
_SEND = "Send the header Authorization: Bearer TOKEN."
_CLOSE = {"Connection": "close"}
_THROWN_AWAY = 8


class UnknownTokenError(Problem):
    """An unknown token: revoked, or guessed."""

    def __init__(self) -> None:
        super().__init__(401, "The token is not known.", _SEND, CHALLENGE)


class Gate:
    """Admits requests by their tokens; without tokens, all from this machine."""

    def __init__(self, tokens: Tokens | None, rate: RateLimit, body_bytes: int) -> None:
        self.tokens, self.rate, self.body_bytes = tokens, rate, body_bytes
        self._guesses = RateLimit.alone(GUESSES)

    def admit(self, request: Request, role: Role, units: float = 1.0) -> int:
        """Admit a request of some units, or refuse it; return the number of its token."""
        raw = request.scope.get("raw_path") or b""
        if b"%" in raw:
            _check_text(raw)
        number = self._known(request, role)
        self.charge(number, units)
        return number

    def charge(self, number: int, units: float, before: float = 0.0) -> None:
        """Refuse what costs some units, if a token asks or sends too much.

        `before` has the units that were charged for the same request already.
        """
        wait = self.rate.take(number, units=units, before=before)
        if wait:
            seconds = str(math.ceil(wait))
            raise Problem(
                429,
                "This token asks more often, or sends more, than it may.",
                f"Wait {seconds} s; the rate is requests_per_second of [limits].",
                {"Retry-After": seconds},
            )

    async def brake(self) -> None:
        """Delay the answer to an unknown token, if there are many of them: they may be guesses.

        With the bound on connections, that bounds the guesses.
        """
        if self._guesses.take(0):
            await asyncio.sleep(BRAKE_SECONDS)

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
            raise UnknownTokenError
        if self.tokens.roles[number] < role:
            needed = role.name.lower()
            raise Problem(403, "The token does not allow this.", f"Use a token with role {needed}.")
        return number


class GuardedRoute(APIRoute):
    """A route that needs a token of a role, checked before its body is read."""

    needs: ClassVar[Role]

    @cached_property
    def _cost(self) -> Cost:
        return cost_of(self.endpoint)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request that may pass."""
        handle = super().get_route_handler()

        async def admitted(request: Request) -> Response:
            return await handle(await self.admit(request.scope, request.receive))

        return admitted

    async def admit(self, scope: Scope, receive: Receive) -> "BoundedRequest":
        """Return the request if it may pass."""
        request = BoundedRequest(scope, receive)
        gate: Gate = request.app.state.backend.gate
        # Parameters are read only where they matter: most requests have none.
        request.units = (
            self._cost.of(request.query_params) if self._cost.asked else self._cost.units
        )
        # Before the body is read: a request that is refused costs no memory and no parsing.
        try:
            request.token = gate.admit(request, self.needs, request.units)
        except UnknownTokenError:
            await gate.brake()
            raise
        if scope["query_string"]:
            _check_query(request, [one.alias for one in self.dependant.query_params])
        return request


def guarded(role: Role, kind: type[GuardedRoute] = GuardedRoute) -> type[GuardedRoute]:
    """Return a kind of route that needs a role."""
    return type(f"{role.name.title()}{kind.__name__}", (kind,), {"needs": role})


def no_json(reason: object) -> Problem:
    """Return the problem of a body that cannot be read."""
    # What the parser says names the place, not the content.
    return Problem(400, f"The body is not JSON: {reason}.", "Correct the body.")


class BoundedRequest(Request):
    """A request whose body is JSON, not too large and not too slow."""

    token = 0
    """the number of its token"""
    units = 1.0
    """what was charged for it, before its body came"""

    async def body(self) -> bytes:
        """Return the body."""
        if not hasattr(self, "_body"):
            kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                raise Problem(
                    415, "The body is not JSON.", "Send Content-Type: application/json.", _CLOSE
                )
            gate: Gate = self.app.state.backend.gate
            most, here = gate.body_bytes, WHOLE in self.scope
            body = await (self._take(most) if here else _in_time(self._read(most)))
            # Charged afterwards: how long a body is, only its arrival tells for certain.
            if len(body) > BYTES:
                gate.charge(self.token, len(body) / BYTES, self.units)
            self._body = body
        return self._body

    async def _take(self, most: int) -> bytes:
        """Return a body that has arrived; nothing if the client has disconnected."""
        body: bytes = (await self.receive()).get("body", b"")
        if len(body) > most:
            raise _too_large(most)
        return body

    async def _read(self, most: int) -> bytes:
        """Read up to `most` bytes; of more, a little is thrown away, so that the answer arrives.

        A client that is still sending when its connection is closed may never see why.
        """
        length = self.headers.get("content-length", "0")
        parts, size = [], int(length) if length.isdecimal() else 0
        if size <= _THROWN_AWAY * most:
            size = 0
            try:
                async for part in self.stream():
                    size += len(part)
                    if size <= most:
                        parts.append(part)
                    elif size > _THROWN_AWAY * most:
                        break
            except ClientDisconnect:  # no fault of ours, and the log and metrics should not say so
                raise Problem(400, "The body ended too soon.", "Send it whole.", _CLOSE) from None
        if size > most:
            raise _too_large(most)
        return b"".join(parts)

    async def json(self) -> Any:
        """Return what the body says."""
        try:
            return from_json(await self.body(), allow_inf_nan=False)
        except ValueError as error:
            raise no_json(error) from None


async def _in_time(reading: Coroutine[Any, Any, bytes]) -> bytes:
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await reading
    except TimeoutError:
        raise Problem(408, "The body came too slowly.", "Send it again.", _CLOSE) from None


def _too_large(most: int) -> Problem:
    remedy = f"Send at most {most:,} bytes at once; batches can be divided."
    return Problem(413, "The body is too large.", remedy, _CLOSE)


def _check_text(raw: bytes) -> None:
    try:
        unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        raise Problem(400, "The path is not UTF-8.", "Encode ids in the path as UTF-8.") from None


def _check_query(request: Request, known: list[str]) -> None:
    """Refuse query parameters that the endpoint does not have."""
    names = [name for name, _ in request.query_params.multi_items()]
    for name in names:
        if name not in known:
            raise problems.misspelt("parameter", name, known, 400)
    if len(set(names)) < len(names):
        raise Problem(400, "A parameter is given twice.", "Give each once.")


def _check_host(request: Request) -> None:
    """Refuse names of other machines: a web page may have its name point here."""
    host = request.headers.get("host", "")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    if not is_loopback(name):
        raise Problem(403, "Without tokens only this machine is served.", "Ask 127.0.0.1.")
