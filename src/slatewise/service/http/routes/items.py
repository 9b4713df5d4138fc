"""Items: offered, hidden and removed, in effect at once."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from slatewise.errors import SlatewiseError
from slatewise.service.http.backend import Backend
from slatewise.service.http.guard import guarded
from slatewise.service.http.limits import costs
from slatewise.service.http.problems import Problem
from slatewise.service.http.schemas import (
    ID_LENGTH,
    NO_NUL,
    ChangedAnswer,
    ChangedItemAnswer,
    FeaturesBody,
    ItemAnswer,
    ItemBody,
    ItemsAnswer,
    ItemsBody,
    PathId,
)
from slatewise.service.http.security import Role
from slatewise.service.store.features import Features, features_text
from slatewise.service.store.records import Item, ItemState

reading = APIRouter(prefix="/v1", tags=["items"], route_class=guarded(Role.READ))
changing = APIRouter(prefix="/v1", tags=["items"], route_class=guarded(Role.WRITE))

Change = tuple[str, str, ItemState, Features | None]


@reading.get("/items", summary="List items", response_model_exclude_unset=True)
@costs(20, "search", "numbers")
async def list_items(
    request: Request,
    after: Annotated[
        str | None, Query(max_length=ID_LENGTH, pattern=NO_NUL, description="the last id before")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1_000, description="how many at most")] = 100,
    search: Annotated[
        str, Query(max_length=ID_LENGTH, pattern=NO_NUL, description="part of an id or group")
    ] = "",
    numbers: Annotated[
        bool, Query(description="whether to say what models know of the items")
    ] = False,
) -> ItemsAnswer:
    """List the items by their ids, a page at a time, hidden ones too."""
    backend: Backend = request.app.state.backend
    # A search looks at every item.
    ask = backend.look if search or numbers else backend.read
    found = await ask(lambda: _page(backend, after, limit, search, numbers=numbers))
    last = found[-1].id if len(found) == limit else None
    return ItemsAnswer(items=found, next=last)


@reading.get("/items/{item_id:id}", summary="See an item", response_model_exclude_unset=True)
async def get_item(request: Request, item_id: PathId) -> ItemAnswer:
    """Return an item as it is now."""
    backend: Backend = request.app.state.backend
    item = await _known(backend, item_id)
    return (await backend.read(lambda: _answers(backend, [item])))[0]


@changing.put(
    "/items", summary="Add, show or hide items, all or none", response_model_exclude_unset=True
)
async def put_items(request: Request, body: ItemsBody) -> ChangedAnswer:
    """Add, show or hide items: all of them or, where something is wrong, none."""
    backend: Backend = request.app.state.backend
    most = backend.config.limits.batch
    if len(body.items) > most:
        raise Problem(422, "Too many items.", f"Send at most {most} at once.")
    for index, item in enumerate(body.items):
        _refuse_misfits(backend, item.features, f"items.{index}.")
    await _put(backend, [_change(item.id, item) for item in body.items])
    notes = _notes(backend, {item.id: item.features for item in body.items})
    return ChangedAnswer(changed=len(body.items), **notes)


@changing.put(
    "/items/{item_id:id}", summary="Add, show or hide an item", response_model_exclude_unset=True
)
async def put_item(request: Request, item_id: PathId, body: ItemBody) -> ChangedItemAnswer:
    """Add an item, show it or hide it: in effect for the next slate, without training."""
    backend: Backend = request.app.state.backend
    _refuse_misfits(backend, body.features, "")
    await _put(backend, [_change(item_id, body)])
    found: dict[str, Any] = {} if body.features is None else {"features": body.features}
    found |= _notes(backend, {item_id: body.features})
    return ChangedItemAnswer(id=item_id, group=body.group, state=body.state, **found)


@changing.delete("/items/{item_id:id}", summary="Remove an item", response_model_exclude_unset=True)
async def remove_item(request: Request, item_id: PathId) -> ItemAnswer:
    """Remove an item for good; what was learned from its clicks stays."""
    backend: Backend = request.app.state.backend
    item = await _known(backend, item_id)
    await backend.written(backend.writer.call(lambda: backend.store.remove_items([item_id])))
    backend.service.changed_items()
    return ItemAnswer(id=item_id, group=item.group, state="removed")


def _change(item_id: str, body: ItemBody) -> Change:
    return item_id, body.group, ItemState(body.state), body.features


def _refuse_misfits(backend: Backend, features: FeaturesBody | None, prefix: str) -> None:
    """Refuse features that no store could keep, or that a model which serves cannot read."""
    if features is None:
        return
    try:
        features_text(features)
        backend.service.refuse_misfits(features)
    except SlatewiseError as error:
        raise Problem(422, f"{prefix}features: {error.problem}", error.remedy) from None


def _notes(backend: Backend, given: Mapping[str, FeaturesBody | None]) -> dict[str, list[str]]:
    """Return what does not count yet of the features given to items, nothing if all does."""
    features = {item: own for item, own in given.items() if own is not None}
    notes = backend.service.outdated(features) if features else []
    return {"notes": notes} if notes else {}


async def _put(backend: Backend, changes: Sequence[Change]) -> None:
    await backend.written(backend.writer.call(lambda: backend.store.put_items(changes)))
    backend.service.changed_items()


async def _known(backend: Backend, item_id: str) -> Item:
    item = await backend.read(lambda: backend.store.item(item_id))
    if item is None or item.state is ItemState.REMOVED:
        raise Problem(404, "There is no such item.", "Add it with PUT.")
    return item


def _page(
    backend: Backend, after: str | None, limit: int, search: str, *, numbers: bool
) -> list[ItemAnswer]:
    found = _answers(backend, backend.store.items(after or None, limit, search))
    return _with_numbers(backend, found) if numbers else found


def _with_numbers(backend: Backend, items: Sequence[ItemAnswer]) -> list[ItemAnswer]:
    """Return items with what every model knows of them."""
    from slatewise.service.insight.numbers import item_numbers  # noqa: PLC0415 (slow to load)

    ids = [item.id for item in items]
    known = {name: item_numbers(backend.service.live(name), ids) for name in backend.config.models}
    return [
        ItemAnswer(
            **item.model_dump(exclude_unset=True),
            numbers={name: vars(one[item.id]) for name, one in known.items() if item.id in one},
        )
        for item in items
    ]


def _answers(backend: Backend, items: Sequence[Item]) -> list[ItemAnswer]:
    """Return items with the features that they have."""
    features = backend.store.item_features([item.described for item in items])
    return [
        ItemAnswer(
            id=item.item_id,
            group=item.group,
            state=item.state.value,
            **({"features": features[item.described]} if item.described else {}),
        )
        for item in items
    ]
