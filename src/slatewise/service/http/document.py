"""The OpenAPI document: what FastAPI knows of the routes, with roles and problems added."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from slatewise.service.http.problems import MEDIA_TYPE, ProblemAnswer
from slatewise.service.http.schemas import MOST
from slatewise.service.http.security import Role
from slatewise.service.settings import LimitsConfig
from slatewise.version import __version__

TITLE = "slatewise"
ABOUT = """Slates out, feedback in.

`POST /v1/recommend` makes a slate; `POST /v1/feedback` tells what became of it; `POST /v1/rank`
orders given items. Every error is a JSON problem with a remedy. Send a token as
`Authorization: Bearer TOKEN`: role *read* makes slates and looks, *write* also tells what happened
and changes items, *admin* also sees and erases people, changes arms and rolls back.
"""

_ANY = {
    400: "The request cannot be read.",
    401: "No token, or an unknown one.",
    403: "The token's role does not allow it.",
    422: "A value is not as it must be.",
    429: "The token asks too often; Retry-After says how long to wait.",
    500: "A mistake of the service; the problem names an id to look for in its log.",
    503: "The store takes nothing now; Retry-After says when to come again.",
}
_BODY = {
    408: "The body came too slowly.",
    413: "The body is too large.",
    415: "The body is not JSON.",
}
_CONTRADICTED = {409: "The feedback contradicts what is known of the slates."}
_MISSING = {404: "There is no such item."}
_NO_MODEL = "There is no such model."
_CONFLICTS = {
    "/v1/arms": "Such arms cannot run.",
    "/v1/models/{model}/rollback": "There is no earlier version to return to.",
}


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the document of an app."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=TITLE, version=__version__, description=ABOUT, routes=app.routes
        )
        parts = document.setdefault("components", {})
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        schemas = parts.setdefault("schemas", {})
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        schemas["Problem"] = ProblemAnswer.model_json_schema()
        _limit(schemas, app.state.backend.config.limits)
        for route in (one for one in app.routes if isinstance(one, APIRoute)):
            if route.include_in_schema:
                for method in route.methods or ():
                    _complete(document["paths"][route.path_format][method.lower()], route)
        app.openapi_schema = document
    return app.openapi_schema


def _limit(schemas: dict[str, Any], limits: LimitsConfig) -> None:
    """Write the limits of the configuration into the schemas of bodies."""
    wanted = schemas["RecommendBody"]["properties"]
    wanted["k"]["anyOf"][0]["maximum"] = min(limits.k, MOST)
    for ids in (wanted["clicks"], wanted["exclude"], wanted["allow"]["anyOf"][0]):
        ids["maxItems"] = min(limits.ids, MOST)
    for body, field in (("FeedbackBody", "events"), ("ItemsBody", "items")):
        schemas[body]["properties"][field]["maxItems"] = min(limits.batch, MOST)


def _complete(operation: dict[str, Any], route: APIRoute) -> None:
    """Add the token and the problems to an operation."""
    role: Role | None = getattr(route, "needs", None)
    problems = {500: _ANY[500], 503: _ANY[503]} if role is None else dict(_ANY)
    if role is not None:
        operation["security"] = [{"token": []}]
        operation["description"] += f"\n\nNeeds a token with role **{role.name.lower()}**."
    if "requestBody" in operation:
        problems |= _BODY
    if route.path_format == "/v1/feedback":
        problems |= _CONTRADICTED
    if route.path_format in _CONFLICTS:
        problems[409] = _CONFLICTS[route.path_format]
    if "{item_id}" in route.path_format:
        problems |= _MISSING
    if "model" in (
        one.alias for one in (*route.dependant.path_params, *route.dependant.query_params)
    ):
        problems[404] = _NO_MODEL
    if route.path_format == "/v1/try":
        problems[404] = _NO_MODEL
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for status, about in problems.items():
        operation["responses"][str(status)] = {"description": about, "content": content}
