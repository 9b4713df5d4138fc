"""Around every request: a line in the log, its time in the metrics, an answer to every fault."""

import logging
from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from slatewise.service.http.metrics import Metrics
from slatewise.service.http.problems import unexpected

_log = logging.getLogger("slatewise.access")
UNKNOWN = "unknown"
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"))


class Access:
    """Middleware that sees every answer.

    Log and metrics name the route, not the path: paths have ids of people in them, who may want to
    be forgotten, and queries may hold secrets by mistake.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and note how it ended."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, sending)
        except Exception as error:
            response = unexpected(error)
            if not status:
                await response(scope, receive, sending)
        finally:
            self.metrics.later(self._note, scope, status, perf_counter() - start)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path_format", UNKNOWN)
        method = scope["method"] if scope["method"] in _METHODS else UNKNOWN
        self.metrics.requests_of(method, route, status).inc()
        self.metrics.seconds_of(route).observe(seconds)
        _log.info("%s %s %d %.1f ms", method, route, status, 1_000 * seconds)
