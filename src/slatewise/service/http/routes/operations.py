"""For those who run the service: is it well, what does it do, how is the experiment going."""

import asyncio
from time import monotonic, time
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from slatewise.service.http.backend import Backend
from slatewise.service.http.guard import guarded
from slatewise.service.http.limits import costs
from slatewise.service.http.problems import NO_STORE, RETRY_SECONDS, Problem
from slatewise.service.http.schemas import LiveAnswer, ReadyAnswer
from slatewise.service.http.security import Role
from slatewise.service.nights.watch import LATE_HOURS
from slatewise.service.store import StoreError

FRESH = 10.0
"""seconds for which an overview of the experiment serves again"""
PING_SECONDS = 2.0
DAMAGED = "a model's newest version cannot serve; the log says why, and what serves instead"
LATE_SECONDS = 120.0
LATE = "models, items and popularity have not been followed for two minutes; the log says why"
NO_NIGHT = f"no night went well for {LATE_HOURS} hours; its reports and the log say why"

health = APIRouter(prefix="/health", tags=["operation"])
metrics = APIRouter(tags=["operation"], route_class=guarded(Role.READ))
experiment = APIRouter(prefix="/v1", tags=["operation"], route_class=guarded(Role.READ))


@health.get("/live", summary="Is the process alive?")
async def live() -> LiveAnswer:
    """Answer, which is all that is asked."""
    return LiveAnswer(status="alive")


@health.get("/ready", summary="Can requests be answered?")
async def ready(request: Request) -> ReadyAnswer:
    """Say whether slates can be made and feedback be taken."""
    backend: Backend = request.app.state.backend
    if not await _store_answers(backend):
        headers = {"Retry-After": str(RETRY_SECONDS)}
        raise Problem(503, NO_STORE, "Slates can be made; feedback must wait.", headers)
    if not backend.is_refreshing:
        remedy = "Restart the service; its log says what happened."
        raise Problem(503, "This worker no longer follows models and items.", remedy)
    return ReadyAnswer(status="ready", notes=await readiness_notes(backend))


async def readiness_notes(backend: Backend) -> list[str]:
    """Return what is not as it should be, and does not keep the service from serving."""
    # What exactly is wrong names files and hosts: that is for the log, not for everybody.
    missing = backend.service.missing_past()
    damaged = set(await backend.probe(backend.service.ready)) - set(missing)
    late = [LATE] if time() - backend.refreshed > LATE_SECONDS else []
    clock = backend.service.clock_watch.notes
    at_night = backend.config.retraining.at is not None
    nights = [f"Model {name}: {NO_NIGHT}" for name in backend.nights.late()] if at_night else []
    weak = backend.service.weak_exploration()
    return [*([DAMAGED] if damaged else []), *late, *clock, *missing, *nights, *weak]


@metrics.get(
    "/metrics",
    summary="Prometheus metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def show_metrics(request: Request) -> Response:
    """Return counts and times of all workers."""
    backend: Backend = request.app.state.backend
    backend.metrics.later.now()
    backend.count()
    text = await backend.probe(backend.metrics.text)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@experiment.get("/experiment", summary="How the arms do")
@costs(20)
async def show_experiment(request: Request) -> dict[str, Any]:
    """Return arms, shares, click rates with intervals, diversity and advice."""
    backend: Backend = request.app.state.backend
    state = request.app.state
    if not hasattr(state, "overview"):
        state.overview, state.overview_at, state.overview_lock = {}, -FRESH, asyncio.Lock()
    async with state.overview_lock:
        if monotonic() - state.overview_at >= FRESH:
            state.overview = await backend.look(lambda: _overview(backend))
            state.overview_at = monotonic()
    return dict(state.overview)


def _overview(backend: Backend) -> dict[str, Any]:
    # The numerical parts of an analysis take a second to load: only who asks pays.
    from slatewise.service.analysis import overview  # noqa: PLC0415

    return overview(backend.store, backend.config)


async def _store_answers(backend: Backend) -> bool:
    if backend.writer.problem is not None:
        return False
    try:
        async with asyncio.timeout(PING_SECONDS):
            await backend.probe(backend.store.ping)
    except (StoreError, TimeoutError):
        return False
    return True
