"""What the page shows, and others may ask for: what serves, a map, slates to try, nights."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from time import monotonic
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from slatewise.service import serving
from slatewise.service.http.backend import Backend
from slatewise.service.http.guard import BoundedRequest, guarded
from slatewise.service.http.limits import costs
from slatewise.service.http.page_schemas import (
    NAME,
    LoadedAnswer,
    MapAnswer,
    ModelAnswer,
    NightsAnswer,
    PathModel,
    StatusAnswer,
    TokenAnswer,
    TryAnswer,
    TryBody,
)
from slatewise.service.http.problems import Problem
from slatewise.service.http.routes.operations import FRESH, readiness_notes
from slatewise.service.http.security import Role
from slatewise.service.insight import learning
from slatewise.service.serving.live import Live
from slatewise.service.store.clock import iso
from slatewise.slates.strategies import named_strategy
from slatewise.version import __version__

router = APIRouter(prefix="/v1", tags=["insight"], route_class=guarded(Role.READ))
_Result = TypeVar("_Result")
ModelQuery = Annotated[
    str | None, Query(pattern=NAME, max_length=64, description="the first without it")
]
ROUTES = ("/v1/recommend", "/v1/rank", "/v1/feedback")
"""whose requests and times are reported"""
MAP_SIZES = (1, 10, 100, 1_000, 4_000, 20_000, 50_000)
"""items that a map may have"""
_MOST_ITEMS = "how many items at most"


@router.get("/token", summary="What a token allows")
async def get_token(request: Request) -> TokenAnswer:
    """Return the role of the token that was sent; where none is needed, everything is allowed."""
    backend: Backend = request.app.state.backend
    role = role_of(request)
    return TokenAnswer(role=role.name.lower(), open=backend.gate.tokens is None)


@router.get("/status", summary="What serves, and how it does")
async def get_status(request: Request) -> StatusAnswer:
    """Return arms, versions, the last nights, requests with their times, and what is wrong."""
    backend: Backend = request.app.state.backend
    backend.metrics.later.now()
    backend.count()
    notes = await readiness_notes(backend)
    return StatusAnswer.model_validate(
        await backend.read(lambda: _status(backend)) | {"notes": notes}
    )


@router.get("/experiment/history", summary="How the arms did over time")
@costs(20)
async def get_history(request: Request) -> dict[str, Any]:
    """Return click rates with intervals, and the share of little-seen items, by period.

    Little seen is the quarter of the items on offer that training saw least. Counted anew every
    10 s at most.
    """
    backend: Backend = request.app.state.backend
    return await _fresh(request, "history", lambda: backend.look(lambda: _history(backend)))


@router.get("/loaded", summary="The loaded log by day and source")
@costs(20)
async def get_loaded(request: Request) -> LoadedAnswer:
    """Return slates and click rates of what the service was told of, by day and source.

    Of the newest 200,000 slates and the newest 60 days; counted anew every 10 s at most.
    """
    backend: Backend = request.app.state.backend
    return await _fresh(request, "loaded", lambda: backend.look(lambda: _loaded(backend)))


@router.get("/map", summary="Items in two dimensions", response_model=MapAnswer)
@costs(50)
async def get_map(
    request: Request,
    model: ModelQuery = None,
    limit: Annotated[int, Query(ge=1, le=MAP_SIZES[-1], description=_MOST_ITEMS)] = 20_000,
) -> Response:
    """Project the posterior means of items on offer onto their two principal components.

    Where there are more items than `limit`, which is rounded down to 1, 10, 100, 1,000, 4,000,
    20,000 or 50,000, a uniform sample is returned, the same every time; groups are counted over all
    of them.
    """
    backend: Backend = request.app.state.backend
    live = await _live(backend, model)
    # Few sizes: with any, every request could ask for a map of its own.
    most = max(size for size in MAP_SIZES if size <= limit)
    key = f"map {id(live)} {live.applied} {most}"
    content = await _fresh(request, key, lambda: backend.look(lambda: map_json(live, most)))
    return Response(content, media_type="application/json")


@router.post("/try", summary="Explained slates for an invented user, not logged")
@costs(100)
async def try_slates(request: Request, body: TryBody) -> TryAnswer:
    """Make slates of several strategies for a user, and say what each term adds to each item.

    The slates are those that the service would make, but nothing is logged.
    """
    backend: Backend = request.app.state.backend
    if body.user_id is not None and role_of(request) < Role.ADMIN:
        raise Problem(
            403, "The token does not allow looking at people.", "Use a token with role admin."
        )
    live = await _live(backend, body.model)
    return await backend.look(lambda: _try(backend, live, body))


@router.get("/nights", summary="Reports of the newest nights")
async def get_nights(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=200, description="how many of each model")] = 30,
) -> NightsAnswer:
    """Return the reports of the newest nights of every model: verdicts, scores and reliability."""
    backend: Backend = request.app.state.backend
    directory, models = backend.service.directory, backend.config.models
    return NightsAnswer(
        nights=await backend.read(
            lambda: {name: learning.night_reports(directory, name, limit) for name in models}
        )
    )


@router.get("/models/{model}", summary="Training curves, certainty by views")
@costs(20)
async def get_model(request: Request, model: PathModel) -> ModelAnswer:
    """Return how versions were trained, and how certain the present one is of items by views."""
    backend: Backend = request.app.state.backend
    live = await _live(backend, model)
    return await backend.look(
        lambda: ModelAnswer(
            model=live.name,
            version=live.version,
            versions=learning.plain(learning.version_reports(backend.service.directory, model)),
            scales=learning.plain(learning.scales_by_views(live)),
        )
    )


def role_of(request: Request) -> Role:
    """Return what the token of a request allows."""
    assert isinstance(request, BoundedRequest)
    tokens = request.app.state.backend.gate.tokens
    return Role.ADMIN if tokens is None else Role(tokens.roles[request.token])


async def _live(backend: Backend, model: str | None) -> Live:
    if model is not None and model not in backend.config.models:
        names = ", ".join(backend.config.models)
        raise Problem(404, "There is no such model.", f"The models are {names}.")
    return await backend.read(lambda: backend.service.live(model))


async def _fresh(request: Request, key: str, make: Callable[[], Awaitable[_Result]]) -> _Result:
    """Return what was made for others lately, or make it; one request at a time does."""
    state = request.app.state
    if not hasattr(state, "kept"):
        state.kept, state.keeping = {}, asyncio.Lock()
    async with state.keeping:
        kept: dict[str, tuple[float, Any]] = state.kept
        for old in [name for name, (at, _) in kept.items() if monotonic() - at >= FRESH]:
            del kept[old]
        if key not in kept:
            kept[key] = monotonic(), await make()
        result: _Result = kept[key][1]
        return result


def _status(backend: Backend) -> dict[str, Any]:
    service, config = backend.service, backend.config
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "slatewise": __version__,
        "time": now,
        "arms": [
            {
                "name": arm.name,
                "share": arm.share,
                "model": arm.model,
                "version": arm.version,
                "strategy": arm.strategy,
                "weight": config.arms[arm.name].share,
            }
            for arm in service.arms
        ],
        "changed": service.has_changed_arms,
        "models": [_model(backend, name) for name in config.models],
        "routes": backend.metrics.by_route(ROUTES),
        "queue": len(backend.writer),
        "dropped": backend.writer.dropped,
        "offered": service.live().catalogue.shown,
    }


def _model(backend: Backend, name: str) -> dict[str, Any]:
    directory, live = backend.service.directory, backend.service.live(name)
    current = learning.current_version(directory, name)
    return {
        "name": name,
        "version": live.version,
        "since": None if current is None else iso(current.since),
        "why": None if current is None else current.why,
        "previous": [] if current is None else list(current.previous),
        "last_night": learning.last_night(directory, name),
    }


def _history(backend: Backend) -> dict[str, Any]:
    from slatewise.service.analysis import overview_over_time  # noqa: PLC0415 (slow to load)
    from slatewise.service.insight.numbers import LittleSeen  # noqa: PLC0415

    few = LittleSeen(backend.service.live())
    return overview_over_time(backend.store, backend.config, few) | {"few_views": few.below}


def _loaded(backend: Backend) -> LoadedAnswer:
    from slatewise.service.insight.loaded_log import loaded_log  # noqa: PLC0415

    days = [vars(one) | {"start": iso(one.start)} for one in loaded_log(backend.store)]
    return LoadedAnswer.model_validate({"days": days})


def map_json(live: Live, limit: int) -> bytes:
    """Return the answer of `get_map`."""
    from slatewise.service.insight.item_map import item_map  # noqa: PLC0415

    found = item_map(live, limit)
    x, y = found.points.round(4).T.tolist() if len(found.ids) else ([], [])
    answer = MapAnswer(
        model=live.name,
        version=found.version,
        offered=found.offered,
        explained=found.explained,
        groups=[vars(group) for group in found.groups],
        ids=found.ids,
        x=x,
        y=y,
        group=found.group.tolist(),
        views=found.views.tolist(),
        scale=found.scales.round(4).tolist(),
    )
    return answer.model_dump_json().encode()


def _try(backend: Backend, live: Live, body: TryBody) -> TryAnswer:
    from slatewise.service.insight.trial import try_strategies  # noqa: PLC0415

    notes: list[str] = []
    user, source = body.user_id, backend.config.source
    wanted = serving.Request(user_id=user, clicks=tuple(body.clicks), k=body.k, source=source)
    lookup = backend.service.lookup(wanted, notes)
    strategies = [named_strategy(name) for name in dict.fromkeys(body.strategies)]
    trial = try_strategies(live, lookup, wanted, strategies, body.seed, backend.service.clock.now())
    for tried in trial.slates[:1]:
        notes += tried.slate.notes
    return TryAnswer.model_validate(
        {
            "model": live.name,
            "version": trial.version,
            "seed": body.seed,
            "clicked": [{"id": item, "group": group} for item, group in trial.clicked],
            "path": trial.path.tolist(),
            "spread": trial.spread.tolist(),
            "slates": [
                {
                    "strategy": tried.strategy,
                    "items": [
                        vars(reason)
                        | {"id": str(reason.item), "x": x, "y": y}
                        | {"nearest_click": _text(reason.nearest_click)}
                        for reason, (x, y) in zip(tried.reasons, tried.points.tolist(), strict=True)
                    ],
                }
                for tried in trial.slates
            ],
            "unknown": trial.unknown,
            "notes": notes,
        }
    )


def _text(item: object) -> str | None:
    return None if item is None else str(item)
