"""Spans of OpenTelemetry: of a request, of making its slate, and of waiting for the store.

Off unless `tracing` of the settings says so, and then nothing of this is on the way of a request.
Where spans go, and how many, is said by OpenTelemetry's own variables in the environment
(`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_TRACES_SAMPLER`, `OTEL_SERVICE_NAME`).
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import copy_context
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from slatewise.errors import SlatewiseError, install_remedy
from slatewise.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

P = ParamSpec("P")
T = TypeVar("T")
_SERVER_ERROR = 500


class Tracing:
    """Makes spans, and sends them in the background."""

    def __init__(self, provider: "TracerProvider") -> None:
        from opentelemetry import trace  # noqa: PLC0415 (an extra)

        self._provider, self._kinds = provider, trace.SpanKind
        self._tracer = provider.get_tracer("slatewise", __version__)

    @classmethod
    def start(cls, processor: "SpanProcessor | None" = None) -> "Tracing":
        """Send spans by OTLP over HTTP, or to a processor of one's own."""
        try:
            from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
            from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415

            provider = TracerProvider(resource=Resource.create({"service.name": "slatewise"}))
            provider.add_span_processor(processor or _exporting())
        except ModuleNotFoundError as error:
            raise SlatewiseError(
                "tracing needs OpenTelemetry, which is not installed.",
                install_remedy("tracing"),
            ) from error
        return cls(provider)

    def close(self) -> None:
        """Send what waits."""
        self._provider.shutdown()

    def around(self, app: ASGIApp) -> ASGIApp:
        """Return an application whose requests are spans in the caller's trace."""

        async def traced(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
            else:
                await self._request(app, scope, receive, send)

        return traced

    def span(self, name: str) -> AbstractContextManager[object]:
        """Return a span, to be entered."""
        return self._tracer.start_as_current_span(name)

    @staticmethod
    def carried(work: Callable[P, T]) -> Callable[P, T]:
        """Return work that belongs to the present span, though it is done in another thread."""
        context = copy_context()
        return lambda *words, **names: context.run(work, *words, **names)

    async def _request(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        from opentelemetry.trace import StatusCode  # noqa: PLC0415
        from opentelemetry.trace.propagation import tracecontext  # noqa: PLC0415

        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        parent = tracecontext.TraceContextTextMapPropagator().extract(headers)
        method = scope["method"]
        with self._tracer.start_as_current_span(method, parent, self._kinds.SERVER) as span:

            async def sending(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= _SERVER_ERROR:
                        span.set_status(StatusCode.ERROR)
                await send(message)

            try:
                await app(scope, receive, sending)
            finally:
                # The route, not the path, which may name people.
                route = getattr(scope.get("route"), "path_format", "unknown")
                span.update_name(f"{method} {route}")
                span.set_attributes({"http.request.method": method, "http.route": route})


def _exporting() -> "SpanProcessor":
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    return BatchSpanProcessor(OTLPSpanExporter())
