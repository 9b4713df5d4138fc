"""Slates out."""

from fastapi import APIRouter, Request
from pydantic_core import to_json

from slatewise.service import serving
from slatewise.service.http.backend import Backend
from slatewise.service.http.direct import DirectRoute
from slatewise.service.http.guard import guarded
from slatewise.service.http.problems import Problem
from slatewise.service.http.schemas import RecommendAnswer, RecommendBody
from slatewise.service.http.security import Role
from slatewise.service.store.records import SlateRecord
from slatewise.slates import Slate

USUAL_K = 20
router = APIRouter(prefix="/v1", tags=["slates"], route_class=guarded(Role.READ, DirectRoute))


@router.post("/recommend", response_model=RecommendAnswer, summary="Make a slate")
async def recommend(body: RecommendBody, request: Request) -> bytes:
    """Make a slate for a user, known or not, and log it.

    The slate counts as seen once its `slate_id` comes back to /v1/feedback.
    """
    backend: Backend = request.app.state.backend
    record, slate, notes = await backend.recommend(_wanted(body, backend))
    backend.writer.add_slate(record)
    assert record.serving is not None
    made = record.serving
    backend.metrics.slates_of(made.arm, made.model, made.version).inc()
    # Not through the model: checking what we made ourselves would cost more than writing it.
    return to_json(_told(record, slate, notes))


def _wanted(body: RecommendBody, backend: Backend) -> serving.Request:
    limits = backend.config.limits
    k = min(USUAL_K, limits.k) if body.k is None else body.k
    if k > limits.k:
        raise Problem(422, f"k is {k}.", f"Ask for at most {limits.k} items.")
    if max(len(body.clicks), len(body.exclude), len(body.allow or ())) > limits.ids:
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


def _told(record: SlateRecord, slate: Slate, notes: list[str]) -> dict[str, object]:
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
        "variant": made.arm,
        "model": made.model,
        "version": made.version,
        "strategy": made.strategy,
        "seed": made.seed,
        "source": record.source,
        "unknown": [str(item) for item in slate.unknown],
        "notes": notes,
    }
