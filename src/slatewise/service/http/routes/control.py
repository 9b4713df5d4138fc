"""What an operator changes while the service runs: arms, and which version serves."""

from fastapi import APIRouter, Request

from slatewise.errors import SlatewiseError
from slatewise.service.http.backend import Backend
from slatewise.service.http.guard import guarded
from slatewise.service.http.page_schemas import (
    ArmBody,
    ArmsAnswer,
    ArmsBody,
    PathModel,
    RollbackAnswer,
)
from slatewise.service.http.problems import Problem
from slatewise.service.http.security import Role
from slatewise.service.serving.models import Models
from slatewise.service.settings import ArmConfig, ServiceConfig
from slatewise.service.settings.changed_arms import changed_arms_text, with_changed_arms
from slatewise.service.store import StoreError

router = APIRouter(prefix="/v1", tags=["control"], route_class=guarded(Role.ADMIN))


@router.put("/arms", summary="Start, stop and weigh arms")
async def put_arms(request: Request, body: ArmsBody) -> ArmsAnswer:
    """Start, stop and weigh arms; every worker of all hosts follows within a second.

    Arms that are not named rest. It holds until it is undone or the arms of the settings are
    changed. The experiment counts users who move to another arm, and starts anew.
    """
    backend: Backend = request.app.state.backend
    given = backend.service.given
    # Those of the settings stay first: the first arm is what others are compared with.
    resting = {name: arm.model_copy(update={"share": 0.0}) for name, arm in given.arms.items()}
    arms = {name: _arm(backend.config, name, one) for name, one in body.arms.items()}
    try:
        text = changed_arms_text(given, resting | arms)
    except SlatewiseError as error:
        raise Problem(409, f"These arms cannot run: {error.problem}", _ARMS) from None
    await _put(backend, text)
    return _answer(with_changed_arms(given, text))


@router.delete("/arms", summary="Return to the arms of the settings")
async def restore(request: Request) -> ArmsAnswer:
    """Undo all changes of arms that were made while the service ran."""
    backend: Backend = request.app.state.backend
    await _put(backend, "")
    return _answer(backend.service.given)


@router.post("/models/{model}/rollback", summary="Serve the previous version")
async def rollback(request: Request, model: PathModel) -> RollbackAnswer:
    """Let the version before serve again; all workers of all hosts follow within a second.

    The present version stays on disk and serves no more.
    """
    backend: Backend = request.app.state.backend
    if model not in backend.config.models:
        names = ", ".join(backend.config.models)
        raise Problem(404, "There is no such model.", f"The models are {names}.")
    models = Models.of(backend.service.directory, model, backend.store)
    before = await backend.read(models.current)
    try:
        now = await backend.read(models.rollback)
    except StoreError:
        raise
    except SlatewiseError as error:
        raise Problem(409, "There is no earlier version to return to.", error.remedy) from None
    assert before is not None
    return RollbackAnswer(model=model, version=now.version, instead_of=before.version)


_ARMS = "Name models of the settings, and give one arm or more a share."


async def _put(backend: Backend, text: str) -> None:
    await backend.written(backend.writer.call(lambda: backend.store.put_arms(text)))
    await backend.read(backend.service.follow_arms)


def _arm(config: ServiceConfig, name: str, body: ArmBody) -> ArmConfig:
    """Return an arm: as it is now, with what was given."""
    present = config.arms.get(name)
    values = {} if present is None else present.model_dump(exclude_unset=True)
    if present is None:
        values["model"] = next(iter(config.arms.values())).model
    if body.strategy is not None and body.strategy != values.get("strategy"):
        # Settings of a strategy mean nothing to another one.
        kept = ("model", "propensities")
        values = {key: value for key, value in values.items() if key in kept}
        values["strategy"] = body.strategy
    values["share"] = body.share
    if body.model is not None:
        values["model"] = body.model
    return ArmConfig.model_validate(values)


def _answer(config: ServiceConfig) -> ArmsAnswer:
    total = sum(config.shares.values())
    return ArmsAnswer(shares={name: share / total for name, share in config.shares.items()})
