"""The versions of models that should serve: fetched, loaded, and begun where others began them."""

import logging
import math
import time
from pathlib import Path
from typing import Final

from slatewise.errors import SlatewiseError
from slatewise.service.serving.initial_state import share_beginning, take_beginning
from slatewise.service.serving.item_states import ItemStates
from slatewise.service.serving.items import ItemLog
from slatewise.service.serving.live import Live
from slatewise.service.serving.models import Models
from slatewise.service.serving.store_access import StoreAccess
from slatewise.service.settings import ServiceConfig
from slatewise.service.store import Store, StoreError
from slatewise.training import runs

logger = logging.getLogger(__name__)

_FETCH_AGAIN: Final = 60.0
"""Seconds before a version that could not be fetched is fetched again."""
_LOAD_AGAIN: Final = 60.0
"""Seconds before one that could not be loaded is loaded again: a disk may have been away."""


class Versions:
    """Loads what should serve, for one worker; called by one thread."""

    def __init__(self, directory: Path, store: Store, log: ItemLog, access: StoreAccess) -> None:
        self._directory, self._store, self._log, self._access = directory, store, log, access
        self._current: dict[str, tuple[int, int] | None] = {}
        self._load_again: dict[str, float] = {}
        self._problems: dict[str, str] = {}
        self._unfetched: dict[str, str] = {}
        self._fetch_again: dict[str, float] = {}

    @property
    def problems(self) -> list[str]:
        """What is wrong with versions that should serve."""
        return [*self._problems.values(), *self._unfetched.values()]

    def read_items(self) -> int | None:
        """Read changes of items; the number of the last, None if the store cannot be reached."""

        def read() -> int:
            self._log.read(self._store)
            return self._log.number

        return self._access.ask(read)

    def try_again(self, name: str) -> None:
        """Look for the version of a model again, though it is the one that was found last."""
        self._current.pop(name)

    def newest(self, name: str, config: ServiceConfig, old: Live | None) -> Live | None:
        """Return the version of a model that should serve, None if that is the old one.

        Where there is no version, it is the model before any training.
        """
        models = Models.of(self._directory, name, self._store)
        self._follow_hosts(name, models)
        stamp = models.stamp()
        is_due = time.monotonic() > self._load_again.get(name, math.inf)
        if old is not None and stamp == self._current.get(name) and not is_due:
            return None
        self._current[name] = stamp
        try:
            live, problem = self._loaded(name, models, config, old)
        except Exception as error:
            # Whatever is wrong with the new version, there is one that serves.
            live, problem = None, f"model '{name}' has a version that cannot serve: {error}"
            logger.debug("The reason:", exc_info=True)
        self._note(name, problem)
        if live is None and old is None:
            return Live.of_prior(name, config.models[name].model, config.source, self._log)
        return live

    def _follow_hosts(self, name: str, models: Models) -> None:
        """Fetch the version that another host promoted; what goes wrong is tried again later."""
        if models.shelf is None or time.monotonic() < self._fetch_again.get(name, 0.0):
            return
        try:
            self._access.ask(models.follow)
        except (SlatewiseError, OSError) as error:
            self._fetch_again[name] = time.monotonic() + _FETCH_AGAIN
            self._unfetched[name] = f"model '{name}' cannot be fetched from the store: {error}"
            logger.error("%s", self._unfetched[name])
        else:
            self._unfetched.pop(name, None)

    def _loaded(
        self, name: str, models: Models, config: ServiceConfig, old: Live | None
    ) -> tuple[Live | None, str | None]:
        """Load the version that should serve, if it is another than now, and say what is wrong."""
        loaded = models.load()
        if loaded is None:
            lost = models.stamp() is not None
            return None, f"no version of model '{name}' can be loaded." if lost else None
        problem = " ".join(loaded.problems) or None
        run = models.path(loaded.version)
        served = None if old is None else (old.version, old.digest)
        if served == (loaded.version, runs.content_digest(run)):
            return None, problem
        before = old.states if old is not None else None
        try:
            take_beginning(models.shelf, loaded.version, run)
            ItemStates.begin(loaded.model.terms, self._log, run, self._store, before)
        except StoreError as error:
            self._access.pause(error)
        self.read_items()
        self._access.ask(
            lambda: share_beginning(models.shelf, loaded.version, run, self._log.number)
        )
        learning = config.source if config.learning.between_nights else None
        live = Live.of_run(name, loaded.version, loaded.model, run, self._log, learning=learning)
        if live.base > self._log.number:  # another worker was first, and has read more
            self.read_items()
        return live, problem

    def _note(self, name: str, problem: str | None) -> None:
        """Report a problem once, and load the version again later; or forget the last problem."""
        if problem is None:
            self._problems.pop(name, None)
            self._load_again.pop(name, None)
            return
        if problem != self._problems.get(name):
            logger.error("%s", problem)
        self._problems[name] = problem
        self._load_again[name] = time.monotonic() + _LOAD_AGAIN
