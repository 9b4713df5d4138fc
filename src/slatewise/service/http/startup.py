"""Before the first request: the directory, the store and, perhaps, a model to begin with."""

import logging
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from slatewise.errors import SlatewiseError
from slatewise.service.settings import ServiceConfig
from slatewise.service.store import Store, StoreError

if TYPE_CHECKING:
    from slatewise.model.fitted import SlateModel
    from slatewise.service.logs import LoadReport
    from slatewise.service.serving.models import Models

Progress = Callable[[str, int, int | None], None]
FIRST = "main"
_log = logging.getLogger(__name__)


def prepare(
    directory: Path,
    config: ServiceConfig,
    run: Path | None,
    *,
    log: bool = True,
    progress: Progress = lambda stage, done, total: None,
) -> "LoadReport | None":
    """Make the directory and the store; `run` becomes the first version, where there is none yet.

    With `log`, the log that it was trained on is loaded, if it is there, and what became of it is
    returned. What is wrong is found here, before any worker starts; a run that is none, before
    anything is made.
    """
    model = None if run is None else _first_model(run, directory, config)
    _make_private(directory)
    store = Store.open(config.store_url(directory))
    try:
        store.check()
        if run is None or model is None or _is_shared(run, directory, config, store):
            return None
        report = _load_log(run, directory, store, progress) if log else None
        _begin(run, model, directory, config, store)
        return report
    finally:
        store.close()


def _make_private(directory: Path) -> None:
    """Make the directory for its owner alone; warn where others may read one that is there."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = stat.S_IMODE(directory.stat().st_mode)
    if mode & 0o077:
        what = "may be read by others, and holds what people clicked"
        _log.warning("%s %s (mode %o): chmod 700 %s", directory, what, mode, directory)


def begin_with(run: Path, directory: Path, config: ServiceConfig, store: Store) -> None:
    """Put the items of a run into the store and let it serve; a model that has versions keeps them.

    Items that the store has heard of stay as they are. Killed in between, it can be done again.
    """
    model = _first_model(run, directory, config)
    if model is not None:
        _begin(run, model, directory, config, store)


def _is_shared(run: Path, directory: Path, config: ServiceConfig, store: Store) -> bool:
    """Return whether another host that shares the store has a model already, which is used."""
    models = _models(directory, config, store)
    if models.shelf is None or not models.shelf.serial():
        return False
    _log.warning("The store has a model already: %s is not used.", run)
    return True


def _load_log(run: Path, directory: Path, store: Store, progress: Progress) -> "LoadReport | None":
    """Load the log of a run; where that is not possible, warn and start without it."""
    from slatewise.service.logs import load_dataset  # noqa: PLC0415 (torch)
    from slatewise.training import runs  # noqa: PLC0415

    try:
        return load_dataset(runs.dataset_of(run), directory, store, progress)
    except StoreError:
        raise
    except SlatewiseError as error:
        _log.warning("The log of %s is not loaded: %s %s", run, error.problem, error.remedy)
        return None


def _first_model(run: Path, directory: Path, config: ServiceConfig) -> "SlateModel | None":
    """Load a run; None where there is a model already, and it is not used."""
    # Torch takes seconds to load, and a service that goes on needs nothing of this.
    from slatewise.training import runs  # noqa: PLC0415

    if _models(directory, config).current() is None:
        return runs.load(run)
    _log.warning("There is a model already: %s is not used.", run)
    return None


def _begin(
    run: Path, model: "SlateModel", directory: Path, config: ServiceConfig, store: Store
) -> None:
    groups = [model.group_names[group] for group in model.posterior.item_groups.tolist()]
    store.add_items(
        (str(item), group, None) for item, group in zip(model.item_ids, groups, strict=True)
    )
    models = _models(directory, config, store)
    number = partial(store.take_version, models.directory.name)
    models.promote(models.add(run, number), f"begun with {run.name}")


def _models(directory: Path, config: ServiceConfig, store: Store | None = None) -> "Models":
    from slatewise.service.serving.models import Models  # noqa: PLC0415 (torch is slow to load)

    name = FIRST if FIRST in config.models else next(iter(config.models))
    return Models.of(directory, name, store)
