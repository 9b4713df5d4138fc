"""What tracing costs a request: off, on but not sampled, and sampled.

An endpoint that answers at once is asked through what the service puts around its routes. The floor
is `off`, since then nothing of tracing stands there; the others have a span for the request and one
in it. Spans are given to a processor that sends batches nowhere, in a thread of its own, whose CPU
time counts too. Microseconds of CPU of the process, the least of some parts.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from harness import Row, Target, parse, parser, report
from slatewise.service.http.access import Access
from slatewise.service.http.metrics import Metrics
from slatewise.service.http.tracing import Tracing

REQUESTS, PARTS = 2_000, 5
MINIATURE = {"REQUESTS": 50, "PARTS": 1}
SCOPE: Scope = {"type": "http", "method": "POST", "path": "/v1/recommend", "headers": []}
SAMPLERS = {"on, not sampled": ALWAYS_OFF, "on, sampled": ALWAYS_ON}


class Nowhere(SpanExporter):
    """Where spans go."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Let go of spans."""
        return SpanExportResult.SUCCESS


def main() -> None:
    """Measure all three."""
    options = parse(parser(__doc__), globals())
    metrics = Metrics()
    rows: list[Row] = [{"tracing": "off", "cpu_us": _cost(Access(_endpoint(None), metrics))}]
    for name, sampler in SAMPLERS.items():
        provider = TracerProvider(sampler=sampler)
        provider.add_span_processor(BatchSpanProcessor(Nowhere()))
        tracing = Tracing(provider)
        cost = _cost(tracing.around(Access(_endpoint(tracing), metrics)))
        rows.append({"tracing": name, "cpu_us": cost})
        tracing.close()
    for row in rows:
        row["more_us"] = row["cpu_us"] - rows[0]["cpu_us"]
    columns = {"tracing": "{}", "cpu_us": "{:.1f}", "more_us": "{:.1f}"}
    limit = Target("µs more for a request that is sampled", rows[-1]["more_us"], 200)
    report(options, "CPU of a request by tracing", columns, rows, [limit])


def _endpoint(tracing: Tracing | None) -> ASGIApp:
    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        with nullcontext() if tracing is None else tracing.span("make a slate"):
            await send({"type": "http.response.body", "body": b"{}"})

    return respond


def _cost(app: ASGIApp) -> float:
    """Return the CPU microseconds of a request."""

    async def ask() -> None:
        for _ in range(REQUESTS):
            await app(dict(SCOPE), _nothing, _ignore)

    taken = []
    for _ in range(PARTS):
        start = time.process_time()
        asyncio.run(ask())
        taken.append(1e6 * (time.process_time() - start) / REQUESTS)
    return min(taken)


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _ignore(message: Any) -> None:
    return None


if __name__ == "__main__":
    main()
