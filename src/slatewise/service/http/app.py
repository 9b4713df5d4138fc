"""The application that a worker runs."""

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from multiprocessing.connection import wait
from typing import Any

from fastapi import APIRouter, FastAPI, Request

from slatewise.service.http import problems
from slatewise.service.http.access import Access
from slatewise.service.http.backend import Backend, Setup
from slatewise.service.http.document import describe
from slatewise.service.http.guard import guarded
from slatewise.service.http.metrics import Metrics
from slatewise.service.http.routes import feedback, items, operating, recommending, users
from slatewise.service.http.security import Role

document = APIRouter(prefix="/v1", route_class=guarded(Role.READ))


@document.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> dict[str, Any]:
    """Return the OpenAPI document."""
    return describe(request.app)


def worker(setup: Setup) -> FastAPI:
    """Return the application of a worker, which ends when the process that started it is gone."""
    _end_with_parent()
    return application(partial(Backend.open, setup))


def application(open_backend: Callable[[Metrics], Backend]) -> FastAPI:
    """Return an application; its backend is opened when it starts and closed when it ends."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.backend = await asyncio.to_thread(open_backend, metrics)
        yield
        await asyncio.to_thread(app.state.backend.close)

    metrics = Metrics()
    app = FastAPI(
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for router in (
        recommending.router,
        feedback.router,
        items.reading,
        items.changing,
        users.router,
        operating.experiment,
        document,
        operating.health,
        operating.metrics,
    ):
        app.include_router(router)
    problems.install(app)
    app.add_middleware(Access, metrics=metrics)
    return app


def _end_with_parent() -> None:
    """End as after SIGTERM when the parent is killed: nobody else would ever end a worker."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent", daemon=True).start()
