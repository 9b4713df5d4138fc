"""Every error as a JSON problem (RFC 9457): what is wrong, and what to do about it."""

import logging
import re
import secrets
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from http import HTTPStatus
from itertools import takewhile
from typing import Any, get_type_hints

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from slatewise.errors import SlatewiseError
from slatewise.service.http import page_schemas, schemas
from slatewise.service.store import StoreError
from slatewise.service.store.writer import QueueFullError

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 1
NO_STORE = "The store cannot be reached, or takes nothing now."
EXPECTED = (HTTPException, RequestValidationError, SlatewiseError)
"""errors that `respond` has an answer for; others are faults of ours"""
_log = logging.getLogger(__name__)

_BODIES = (
    schemas.RecommendBody,
    schemas.FeedbackBody,
    schemas.Event,
    schemas.NamedItemBody,
    page_schemas.TryBody,
    page_schemas.ArmsBody,
    page_schemas.ArmBody,
)
_NAMES = {"body", "query", "path", "after", "limit", "item_id", "items"}.union(
    *(body.model_fields for body in _BODIES)
)
_MEMBERS: dict[int | str, type[BaseModel]] = {
    "events": schemas.Event,
    "items": schemas.NamedItemBody,
    "arms": page_schemas.ArmBody,
}
"""what the lists and tables of bodies have in them"""
_EXTRA = "extra_forbidden"
_LOOKED_AT = 20
"""errors among which the most telling one is looked for"""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")

_REMEDIES = {
    404: "The paths are listed in /v1/openapi.json.",
    405: "The methods of this path are named in the Allow header.",
}


class ProblemAnswer(BaseModel):
    """What went wrong, and what to do about it."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    type: str = Field(examples=["about:blank"])
    """a URI for the kind of problem; about:blank where the status says it all"""
    title: str = Field(examples=["Unauthorized"])
    """the name of the status"""
    status: int = Field(examples=[401])
    detail: str = Field(examples=["No token."])
    """what is wrong with this request"""
    remedy: str = Field(examples=["Send the header Authorization: Bearer TOKEN."])
    """what to do"""


class Problem(HTTPException):
    """An error that ends a request."""

    def __init__(
        self, status: int, detail: str, remedy: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, detail, dict(headers or {}))
        self.remedy = remedy


def unavailable(error: SlatewiseError) -> Problem:
    """Return what to answer when the store or its queue takes nothing now.

    What a store says of itself names its host and database: that is for the log, not for clients.
    """
    detail = NO_STORE if isinstance(error, StoreError) else error.problem
    remedy = "Send it again in a moment: what was recorded already does not count twice."
    return Problem(503, detail, remedy, {"Retry-After": str(RETRY_SECONDS)})


def answer(problem: HTTPException) -> Response:
    """Write a problem as a response."""
    remedy = problem.remedy if isinstance(problem, Problem) else _REMEDIES.get(problem.status_code)
    content = {
        "type": "about:blank",
        "title": HTTPStatus(problem.status_code).phrase,
        "status": problem.status_code,
        "detail": str(problem.detail),
        "remedy": remedy or "Correct the request.",
    }
    headers = dict(problem.headers or {})
    return Response(to_json(content), problem.status_code, headers, MEDIA_TYPE)


def unexpected(error: Exception) -> Response:
    """Answer for a fault of ours: an id to look it up in the log, and nothing else."""
    number = secrets.token_hex(8)
    _log.error("Error %s", number, exc_info=error)
    remedy = f"Look for error {number} in the log of the service, and report it."
    return answer(Problem(500, f"The service made a mistake (error {number}).", remedy))


def install(app: FastAPI) -> None:
    """Register the answers to all errors of an app."""
    for kind in EXPECTED:
        app.add_exception_handler(kind, respond)


async def respond(request: Request, error: Exception) -> Response:
    """Answer for an expected error: of the request, of its values, or of the store."""
    if isinstance(error, RequestValidationError):
        return answer(_invalid(error, request))
    if isinstance(error, StoreError | QueueFullError):
        return answer(unavailable(error))
    if isinstance(error, SlatewiseError):
        return answer(Problem(422, error.problem, error.remedy or "Correct the request."))
    assert isinstance(error, HTTPException)
    response = answer(error)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        response.headers["Allow"] = ", ".join(_methods(request))
    return response


def _methods(request: Request) -> list[str]:
    """Return the methods of a path: of all its routes, where Starlette names those of the first."""
    matching = (one for one in request.app.routes if one.matches(request.scope)[0] != Match.NONE)
    return sorted({method for one in matching for method in getattr(one, "methods", None) or ()})


def _named_by_us(part: int | str) -> bool:
    return isinstance(part, int) or part in _NAMES


def most_telling(errors: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the first error, or a misspelt field: then another one is missing, and comes first.

    Where a field may be of several kinds, of the kind that is wrong farthest inside: a table with a
    bad number is not to be told that it is no number.
    """
    for error in errors:
        if error["type"] == _EXTRA:
            return dict(error)
    field = _field(errors[0])
    same = (error for error in errors[:_LOOKED_AT] if _field(error) == field)
    return dict(max(same, key=lambda error: len(error["loc"])))


def _field(error: Mapping[str, Any]) -> str:
    """Return where an error is, as far as the names are ours."""
    return ".".join(str(part) for part in takewhile(_named_by_us, error["loc"]))


def _invalid(error: RequestValidationError, request: Request) -> Problem:
    """Name the first field that is wrong; what was sent in it is not repeated."""
    first = most_telling(error.errors())
    if first["type"] == _EXTRA:
        return _misspelt(first["loc"], request)
    detail = f"{_field(first)}: {first['msg'].removeprefix('Value error, ')}."
    return Problem(422, detail, "Correct the request; /v1/openapi.json has its schema.")


def _misspelt(loc: tuple[int | str, ...], request: Request) -> Problem:
    """Name an unknown field, and the fields that exist."""
    *above, name = loc
    inside = [part for part in above if part in _MEMBERS]
    endpoint = request.scope["route"].endpoint
    model: type[BaseModel] = _MEMBERS[inside[-1]] if inside else get_type_hints(endpoint)["body"]
    return misspelt("field", str(name), list(model.model_fields), 422, ".".join(map(str, above)))


def misspelt(kind: str, name: str, known: Sequence[str], status: int, where: str = "") -> Problem:
    """Return the problem of an unknown name: which it is, what may be meant, and what exists."""
    shown = f"'{name}'" if _NAME.fullmatch(name) else "of that name"
    meant = get_close_matches(name, known, 1, 0.6)
    remedy = f"Did you mean {meant[0]}? " if meant else ""
    remedy += f"The {kind}s are {', '.join(known)}." if known else f"There are no {kind}s."
    return Problem(status, f"{where and f'{where}: '}There is no {kind} {shown}.", remedy)
