"""A night, top to bottom: take the window out of the store, train, judge, promote.

What serves is replaced at the very end and by one renamed file, so that a night that fails, or is
killed, at whatever moment leaves everything as it was.
"""

import time
from collections.abc import Sequence
from pathlib import Path

from safetensors import SafetensorError

from slatewise.errors import SlatewiseError
from slatewise.service.config import ServiceConfig
from slatewise.service.nights.material import Material
from slatewise.service.nights.one_model import NotEnoughError, Task, retrain_model
from slatewise.service.nights.report import Night
from slatewise.service.nights.window import Progress, VisitStore
from slatewise.service.serving.models import Models
from slatewise.service.store.workspace import workspace


def retrain(
    directory: Path,
    config: ServiceConfig,
    store: VisitStore,
    *,
    now: int,
    names: Sequence[str] | None = None,
    seed: int = 0,
    fresh: bool = False,
    progress: Progress = lambda stage, done, total: None,
) -> list[Night]:
    """Retrain the models of a service, all or those named; return what became of each.

    The window ends at `now`, in microseconds since 1970. With `fresh`, training starts from
    nothing, and terms are chosen anew. A second retraining at once is refused. The same store,
    configuration, versions and seed give the same models, bit for bit on one machine.
    """
    for name in names or ():
        if name not in config.models:
            raise SlatewiseError(
                f"there is no model '{name}'.", f"The models are {', '.join(config.models)}."
            )
    with workspace(directory) as folder:
        material = Material(folder, store, now, config.retraining.window_days, progress)
        return [
            _night(
                Task(
                    name,
                    config.models[name],
                    config.retraining,
                    Models.of(directory, name),
                    material,
                    seed,
                    fresh,
                    progress,
                )
            )
            for name in names or config.models
        ]


def _night(task: Task) -> Night:
    """Retrain one model and write the report; a problem ends its night and no other's."""
    night = Night(task.name, task.material.now, task.seed)
    begun = time.monotonic()
    night.before = _serving(task.models)
    try:
        retrain_model(task, night)
    except NotEnoughError as few:
        night.outcome, night.why = "not enough", str(few)
    except SlatewiseError as error:
        night.why = " ".join((error.problem, error.remedy)).strip(" .")
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        night.why = f"a file could not be read or written: {reason}. Check the disk"
    night.serving = _serving(task.models)
    night.seconds = round(time.monotonic() - begun, 3)
    try:
        night.write(task.models.directory)
    except OSError as error:
        night.notes.append(f"This report could not be kept: {error}.")
    return night


def _serving(models: Models) -> str | None:
    now = models.current()
    return None if now is None else now.version
