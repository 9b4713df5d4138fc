"""Feedback in."""

from fastapi import APIRouter, Request
from pydantic_core import to_json

from slatewise.service.http.backend import Backend
from slatewise.service.http.direct import DirectRoute
from slatewise.service.http.events import answers, parse_events
from slatewise.service.http.guard import guarded
from slatewise.service.http.problems import Problem
from slatewise.service.http.schemas import FeedbackAnswer, FeedbackBody
from slatewise.service.http.security import Role

router = APIRouter(prefix="/v1", tags=["slates"], route_class=guarded(Role.WRITE, DirectRoute))


@router.post("/feedback", response_model=FeedbackAnswer, summary="Tell what became of slates")
async def feedback(body: FeedbackBody, request: Request) -> bytes:
    """Record what users saw and clicked, in slates of this service or of others.

    What is answered as recorded is on disk. An event that is sent again is a duplicate and does not
    count twice. Events may come late and in any order: they are placed by their time.
    """
    backend: Backend = request.app.state.backend
    most = backend.config.limits.batch
    if len(body.events) > most:
        raise Problem(422, "Too many events.", f"Send at most {most} at once.")
    parsed = parse_events(body.events, backend.service.clock.now())
    written = []
    if parsed.outcomes:
        waiting = backend.writer.add(parsed.slates, parsed.outcomes)
        written = await backend.written(waiting)
    result = answers(body.events, parsed, written)
    for status in ("recorded", "duplicate", "refused"):
        backend.metrics.feedback.labels(status).inc(getattr(result, status))
    return to_json(result)
