"""Items: offered, hidden and removed, in effect at once."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request

from slatewise.service.http.backend import Backend
from slatewise.service.http.guard import guarded
from slatewise.service.http.ids import PathId
from slatewise.service.http.problems import Problem
from slatewise.service.http.schemas import (
    ID_LENGTH,
    NO_NUL,
    ChangedAnswer,
    ItemAnswer,
    ItemBody,
    ItemsAnswer,
    ItemsBody,
)
from slatewise.service.http.security import Role
from slatewise.service.records import Item, ItemState

reading = APIRouter(prefix="/v1", tags=["items"], route_class=guarded(Role.READ))
changing = APIRouter(prefix="/v1", tags=["items"], route_class=guarded(Role.WRITE))

Change = tuple[str, str, ItemState]


@reading.get("/items", summary="List items")
async def list_items(
    request: Request,
    after: Annotated[
        str | None, Query(max_length=ID_LENGTH, pattern=NO_NUL, description="the last id before")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1_000, description="how many at most")] = 100,
) -> ItemsAnswer:
    """List the items by their ids, a page at a time, hidden ones too."""
    backend: Backend = request.app.state.backend
    found = await backend.read(lambda: backend.store.items(after or None, limit))
    last = found[-1].item_id if len(found) == limit else None
    return ItemsAnswer(items=[_told(item) for item in found], next=last)


@reading.get("/items/{item_id:id}", summary="Look at an item")
async def get_item(request: Request, item_id: PathId) -> ItemAnswer:
    """Return an item as it is now."""
    backend: Backend = request.app.state.backend
    return _told(await _known(backend, item_id))


@changing.put("/items", summary="Add or change many items")
async def put_items(request: Request, body: ItemsBody) -> ChangedAnswer:
    """Add, show or hide items: all of them or, where something is wrong, none."""
    backend: Backend = request.app.state.backend
    most = backend.config.limits.batch
    if len(body.items) > most:
        raise Problem(422, "Too many items.", f"Send at most {most} at once.")
    await _put(backend, [(item.id, item.group, ItemState(item.state)) for item in body.items])
    return ChangedAnswer(changed=len(body.items))


@changing.put("/items/{item_id:id}", summary="Add or change an item")
async def put_item(request: Request, item_id: PathId, body: ItemBody) -> ItemAnswer:
    """Add an item, show it or hide it: in effect for the next slate, without training."""
    backend: Backend = request.app.state.backend
    await _put(backend, [(item_id, body.group, ItemState(body.state))])
    return ItemAnswer(id=item_id, group=body.group, state=body.state)


@changing.delete("/items/{item_id:id}", summary="Remove an item")
async def remove_item(request: Request, item_id: PathId) -> ItemAnswer:
    """Remove an item for good; what was learned from its clicks stays."""
    backend: Backend = request.app.state.backend
    item = await _known(backend, item_id)
    await backend.written(backend.writer.call(lambda: backend.store.remove_items([item_id])))
    backend.service.changed_items()
    return ItemAnswer(id=item_id, group=item.group, state="removed")


async def _put(backend: Backend, changes: Sequence[Change]) -> None:
    await backend.written(backend.writer.call(lambda: backend.store.put_items(changes)))
    backend.service.changed_items()


async def _known(backend: Backend, item_id: str) -> Item:
    item = await backend.read(lambda: backend.store.item(item_id))
    if item is None or item.state is ItemState.REMOVED:
        raise Problem(404, "There is no such item.", "Add it with PUT.")
    return item


def _told(item: Item) -> ItemAnswer:
    return ItemAnswer(id=item.item_id, group=item.group, state=item.state.value)
