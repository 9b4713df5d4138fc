"""Routes that are asked a thousand times a second: a body in, JSON out, nothing between.

They are described as any other. FastAPI's way from a request to an endpoint costs as much as many a
slate, so `application` leads their requests past it.
"""

from collections.abc import Callable
from typing import Any, get_type_hints

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.types import Receive, Scope, Send

from slatewise.service.http import problems
from slatewise.service.http.guard import BoundedRequest, GuardedRoute, no_json


class DirectRoute(GuardedRoute):
    """A route whose endpoint takes a body and a request, and returns JSON."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self._body: type[BaseModel] = get_type_hints(endpoint)["body"]
        self.app = self._respond

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        try:
            content = await self._answer(await self.admit(scope, receive))
        except problems.EXPECTED as error:
            response = await problems.respond(BoundedRequest(scope), error)
            await response(scope, receive, send)
        else:
            length, kind = str(len(content)).encode(), b"application/json"
            headers = [(b"content-length", length), (b"content-type", kind)]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": content})

    async def _answer(self, request: BoundedRequest) -> bytes:
        try:
            body = self._body.model_validate_json(await request.body())
        except ValidationError as error:
            raise _unfit(error) from None
        content: bytes = await self.endpoint(body, request)
        return content


def _unfit(error: ValidationError) -> Exception:
    """Return the problem of a body as FastAPI would."""
    first = problems.most_telling(error.errors(include_url=False, include_input=False))
    if first["type"] == "json_invalid":
        return no_json(first["ctx"]["error"])
    return RequestValidationError([{**first, "loc": ("body", *first["loc"])}])
