"""Slates, and the feedback on them."""

from fastapi import APIRouter, Request
from pydantic_core import to_json

from slatewise.service import serving
from slatewise.service.http.backend import Backend
from slatewise.service.http.direct import DirectRoute
from slatewise.service.http.events import KINDS, answers, parse_events, refuse_contradictions
from slatewise.service.http.guard import BoundedRequest, guarded
from slatewise.service.http.problems import Problem
from slatewise.service.http.schemas import (
    FeedbackAnswer,
    FeedbackBody,
    RankAnswer,
    RankBody,
    RecommendAnswer,
    RecommendBody,
)
from slatewise.service.http.security import Role
from slatewise.service.store.records import OutcomeStatus, SlateRecord
from slatewise.slates import Slate

USUAL_K = 20
reading = APIRouter(prefix="/v1", tags=["slates"], route_class=guarded(Role.READ, DirectRoute))
writing = APIRouter(prefix="/v1", tags=["slates"], route_class=guarded(Role.WRITE, DirectRoute))


@reading.post("/recommend", response_model=RecommendAnswer, summary="Make a slate")
async def recommend(body: RecommendBody, request: Request) -> bytes:
    """Make a slate for a user, known or not, and log it.

    The slate counts as seen once its `slate_id` comes back to /v1/feedback.
    """
    backend: Backend = request.app.state.backend
    record, slate, notes = await backend.recommend(_wanted(body, backend), _token(request))
    backend.writer.add_slate(record)
    assert record.serving is not None
    made = record.serving
    backend.metrics.slates_of(made.arm, made.model, made.version).inc()
    # Not through the model: checking what we made ourselves would cost more than writing it.
    return to_json(_answer(record, slate, notes))


@reading.post("/rank", response_model=RankAnswer, summary="Order given items")
async def rank(body: RankBody, request: Request) -> bytes:
    """Order items for a user: results of a search, a feed, candidates of another stage.

    Nothing is random and nothing is logged. Of what is shown, send a slate of yours to
    /v1/feedback. To explore among given items, ask /v1/recommend to `allow` only these.
    """
    backend: Backend = request.app.state.backend
    limits = backend.config.limits
    if max(len(body.items), len(body.clicks)) > limits.ids:
        raise Problem(422, "A list of ids is too long.", f"Send at most {limits.ids:,} ids.")
    wanted = serving.Request(
        user_id=body.user_id,
        clicks=tuple(body.clicks),
        k=body.k or len(body.items),
        allow=tuple(body.items),
        clicked="show",
        source=body.source,
    )
    arm, ranked, notes = await backend.rank(wanted, _token(request))
    columns = zip(
        map(str, ranked.items),
        ranked.groups,
        ranked.utilities.tolist(),
        ranked.probabilities.tolist(),
        strict=True,
    )
    return to_json(
        {
            "user_id": body.user_id,
            "items": [
                {"id": item, "group": group, "utility": utility, "probability": probability}
                for item, group, utility, probability in columns
            ],
            "left_out": [str(item) for item in ranked.left_out],
            "arm": arm.name,
            "model": arm.model,
            "version": arm.version,
            "unknown": [str(item) for item in ranked.unknown],
            "notes": notes,
        }
    )


@writing.post("/feedback", response_model=FeedbackAnswer, summary="Report what became of slates")
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
    written: list[OutcomeStatus] = []
    if parsed.outcomes:
        waiting = backend.writer.add(parsed.slates, parsed.outcomes)
        written = await backend.written(waiting)
    result = answers(body.events, parsed, written)
    for status in KINDS:
        backend.metrics.feedback_of(status).inc(result[status])
    backend.metrics.corrected.inc(written.count(OutcomeStatus.CORRECTED))
    refuse_contradictions(written, len(body.events))
    return to_json(result)


def _token(request: Request) -> int:
    return request.token if isinstance(request, BoundedRequest) else 0


def _wanted(body: RecommendBody, backend: Backend) -> serving.Request:
    limits = backend.config.limits
    k = min(USUAL_K, limits.k) if body.k is None else body.k
    if k > limits.k:
        raise Problem(422, f"k is {k}.", f"Ask for at most {limits.k} items.")
    groups = body.groups if isinstance(body.groups, dict) else ()
    lists = (body.clicks, body.exclude, body.allow or (), groups)
    if max(map(len, lists)) > limits.ids:
        raise Problem(422, "A list of ids is too long.", f"Send at most {limits.ids:,} ids.")
    return serving.Request(
        user_id=body.user_id,
        clicks=tuple(body.clicks),
        k=k,
        exclude=tuple(body.exclude),
        allow=None if body.allow is None else tuple(body.allow),
        groups=body.groups,
        clicked=body.clicked,
        source=body.source,
        seed=body.seed,
    )


def _answer(record: SlateRecord, slate: Slate, notes: list[str]) -> dict[str, object]:
    made = record.serving
    assert made is not None
    columns = zip(
        record.items,
        slate.groups,
        slate.relevance.tolist(),
        slate.uncertainty.tolist(),
        strict=True,
    )
    return {
        "slate_id": record.slate_id,
        "user_id": record.user_id,
        "items": [
            {"id": item, "group": group, "relevance": relevance, "uncertainty": uncertainty}
            for item, group, relevance, uncertainty in columns
        ],
        "arm": made.arm,
        "model": made.model,
        "version": made.version,
        "strategy": made.strategy,
        "seed": made.seed,
        "source": record.source,
        "unknown": [str(item) for item in slate.unknown],
        "notes": notes,
    }
