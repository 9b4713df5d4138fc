"""People: what is known of them, and forgetting it."""

from datetime import UTC, datetime

from fastapi import APIRouter, Request

from slatewise.service.http.backend import Backend
from slatewise.service.http.guard import guarded
from slatewise.service.http.schemas import (
    ErasedAnswer,
    PathId,
    UserAnswer,
    VisitAnswer,
)
from slatewise.service.http.security import Role
from slatewise.service.store.records import SlateRecord, Visit
from slatewise.service.store.workspace import clear_leftovers

_LEFT = (
    "Bytes of it stand in SQLite's write-ahead log until a process that reads the store has ended; "
    "they are removed then."
)
router = APIRouter(prefix="/v1", tags=["users"], route_class=guarded(Role.ADMIN))


@router.get("/users/{user_id:id}", summary="Slates and clicks of a person")
async def get_user(request: Request, user_id: PathId) -> UserAnswer:
    """Return her newest slates and clicks, oldest first; none for an unknown user.

    Slates of which nothing was heard yet, as many at most as others, are among them.
    """
    backend: Backend = request.app.state.backend
    store, most = backend.store, backend.config.history
    known = await backend.read(lambda: store.history(user_id, most))
    unheard = await backend.read(lambda: store.unanswered(user_id, most))
    both = [_visit_answer(visit.slate, visit) for visit in known.visits]
    both += [_visit_answer(slate, None) for slate in unheard]
    return UserAnswer(user_id=user_id, visits=sorted(both, key=lambda visit: visit.time))


@router.delete("/users/{user_id:id}", summary="Erase a person")
async def erase_user(request: Request, user_id: PathId) -> ErasedAnswer:
    """Erase all that is known of a user, for good, from the log and from what training reads.

    Events from before that come late are refused; what she does from now on is recorded again.
    """
    backend: Backend = request.app.state.backend
    now = backend.service.clock.now()
    # What waits of hers is written first, and so erased too. Not by the writer: feedback goes on.
    await backend.written(backend.writer.call(lambda: None))
    slates = await backend.read(lambda: backend.store.erase(user_id, now))
    backend.service.changed_users([user_id])
    # A killed training or loading may have left a copy of the log.
    await backend.read(lambda: clear_leftovers(backend.service.directory))
    left = await backend.read(lambda: backend.store.has_traces_in_log)
    return ErasedAnswer(user_id=user_id, slates=slates, notes=[_LEFT] if left else [])


def _visit_answer(slate: SlateRecord, visit: Visit | None) -> VisitAnswer:
    """Describe a slate; without a visit, nothing is known of what became of it."""
    return VisitAnswer(
        slate_id=slate.slate_id,
        time=datetime.fromtimestamp(slate.time / 1_000_000, UTC).isoformat(timespec="microseconds"),
        source=slate.source,
        items=list(slate.items),
        answered=visit is not None,
        seen=None if visit is None else visit.seen,
        clicked=[] if visit is None else list(visit.clicked),
        arm=None if slate.serving is None else slate.serving.arm,
    )
