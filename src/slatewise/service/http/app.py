"""The application that a worker runs."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from slatewise.service.http import problems
from slatewise.service.http.access import Access
from slatewise.service.http.backend import Backend
from slatewise.service.http.direct import DirectRoute
from slatewise.service.http.document import describe
from slatewise.service.http.guard import guarded
from slatewise.service.http.metrics import Metrics
from slatewise.service.http.routes import (
    control,
    insight,
    items,
    operations,
    page,
    slates,
    users,
)
from slatewise.service.http.security import Role
from slatewise.service.http.tracing import Tracing

document = APIRouter(prefix="/v1", route_class=guarded(Role.READ))


@document.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> dict[str, Any]:
    """Return the OpenAPI document."""
    return describe(request.app)


class _Application(FastAPI):
    """FastAPI, and a short way past it to the direct routes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.direct: dict[tuple[str | None, str | None], ASGIApp] = {}
        """by method and path"""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or start and end."""
        way = self.direct.get((scope.get("method"), scope.get("path")))
        if way is None:
            await super().__call__(scope, receive, send)
        else:
            scope["app"] = self
            await way(scope, receive, send)


def application(
    open_backend: Callable[[Metrics], Backend], tracing: Tracing | None = None
) -> FastAPI:
    """Return an application; its backend is opened when it starts and closed when it ends."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.backend = await asyncio.to_thread(open_backend, metrics)
        try:
            yield
        finally:
            metrics.later.now()
            await asyncio.to_thread(app.state.backend.close)
            # uvicorn ends a worker by the signal that asked for it: nothing else is done at exit.
            for handler in logging.getLogger().handlers:
                await asyncio.to_thread(handler.flush)

    metrics = Metrics()
    app = _Application(
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for router in (
        slates.reading,
        slates.writing,
        items.reading,
        items.changing,
        users.router,
        operations.experiment,
        insight.router,
        control.router,
        document,
        operations.health,
        operations.metrics,
        page.router,
    ):
        # As they are: including a router makes every request look for its route twice.
        app.router.routes.extend(router.routes)
    problems.install(app)
    app.add_middleware(Access, metrics=metrics)
    if tracing is not None:
        app.add_middleware(tracing.around)
    for route in app.routes:
        if isinstance(route, DirectRoute):
            way: ASGIApp = Access(route.app, metrics)
            way = way if tracing is None else tracing.around(way)
            app.direct |= {(method, route.path): way for method in route.methods or ()}
    return app
