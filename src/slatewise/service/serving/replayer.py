"""Make a slate of the log again, with the same items every time."""

from pathlib import Path
from typing import Final

from slatewise.errors import SlatewiseError
from slatewise.service.serving.initial_state import take_beginning
from slatewise.service.serving.items import ItemLog
from slatewise.service.serving.live import Live
from slatewise.service.serving.models import Models
from slatewise.service.serving.prior import PRIOR, prior_version
from slatewise.service.serving.request import KEPT, Request, is_whole
from slatewise.service.serving.users import (
    ANONYMOUS,
    CLICKS,
    User,
    history_of_visits,
    newest_visits,
)
from slatewise.service.settings import ServiceConfig
from slatewise.service.store import Store
from slatewise.service.store.records import Serving, SlateRecord
from slatewise.slates.propensities import Propensities, propensities
from slatewise.slates.slate import Slate
from slatewise.slates.strategies import Strategy, strategy_from
from slatewise.training import runs

_KEPT: Final = 4
"""Versions that stay in memory."""


def replay(directory: Path, config: ServiceConfig, store: Store, slate: SlateRecord) -> Slate:
    """Make the very same slate again from the log; for many, keep a `Replayer`."""
    return Replayer(directory, config, store).slate(slate)


class Replayer:
    """Makes slates again, best in the order in which they were made.

    Of one version, items and popularity only go forward in time: for an earlier slate they are
    built anew.
    """

    def __init__(self, directory: Path, config: ServiceConfig, store: Store) -> None:
        self._directory, self._config, self._store = directory, config, store
        self._live: dict[tuple[str, str], Live] = {}
        self._log = ItemLog()

    def slate(self, record: SlateRecord, strategy: str | None = None) -> Slate:
        """Return the slate of a record, or what another strategy would have made of it."""
        serving = _serving(record)
        live = self._as_of(serving)
        line = strategy or serving.strategy
        return self._make(live, record, serving, strategy_from(line))

    def propensities(
        self, record: SlateRecord, strategy: str | None = None, draws: int = 1_000, seed: int = 0
    ) -> tuple[Slate, Propensities]:
        """Estimate how likely items were at each position for a strategy, or for its own.

        The slate that comes with it is the one that was shown.
        """
        live, slate = self.made(record)
        chosen = strategy_from(strategy or _serving(record).strategy)
        return slate, propensities(live.ranker, chosen, slate, draws, seed)

    def made(self, record: SlateRecord) -> tuple[Live, Slate]:
        """Return the version that served, as it was then, and the slate that it made."""
        serving = _serving(record)
        live = self._as_of(serving)
        return live, self._make(live, record, serving, strategy_from(serving.strategy))

    def _make(self, live: Live, record: SlateRecord, serving: Serving, strategy: Strategy) -> Slate:
        request = Request.of_plain(serving.request, serving.k, serving.seed)
        user = self._user(record, serving)
        asked = user.lookup(request.clicks), request, strategy, serving.seed, record.time
        return live.answer(*asked).slate

    def _user(self, record: SlateRecord, serving: Serving) -> User:
        if record.user_id is None or not serving.known:
            return ANONYMOUS
        last = int(serving.request.get("history", self._config.history))
        stored = self._store.history(record.user_id, last, serving.known)
        clicks = serving.request.get(CLICKS)
        visits = stored.visits if clicks is None else newest_visits(stored.visits, int(clicks))
        return User(history_of_visits(visits, self._log), stored.seq, 0, 0.0)

    def _as_of(self, serving: Serving) -> Live:
        """Return the version that served, with items and popularity of that moment."""
        self._log.read(self._store)
        key = serving.model, serving.version
        live = self._live.pop(key, None)
        if live is None or not _goes_forward(live, serving):
            live = self._open(*key, serving.catalogue)
        self._live[key] = live
        while len(self._live) > _KEPT:
            self._live.pop(next(iter(self._live)))
        live.apply_items(serving.catalogue, self._store)
        if serving.refreshed is not None:
            live.refresh(self._store, serving.refreshed, serving.counted)
        if serving.learned:
            live.learn(self._store, serving.learned, resume=False)
        return live

    def _open(self, name: str, version: str, until: int) -> Live:
        if version.startswith(PRIOR):
            config = self._config.models[name].model
            if prior_version(config) != version:
                raise SlatewiseError(
                    f"the slate was made before training, by another model than '{name}' is now.",
                    "Replay it with the configuration of that time.",
                )
            return Live.of_prior(name, config, self._config.source, self._log)
        models = Models.of(self._directory, name, self._store)
        run, source = models.bring(version), self._config.source
        take_beginning(models.shelf, version, run)
        return Live.of_run(name, version, runs.load(run), run, self._log, until, learning=source)


def _serving(record: SlateRecord) -> Serving:
    if record.serving is None:
        raise SlatewiseError(
            f"slate {record.slate_id} was not made by this service.",
            "Only slates with an arm can be made again.",
        )
    if not is_whole(record.serving.request):
        raise SlatewiseError(
            f"slate {record.slate_id} was asked for with lists too long to be logged.",
            f"Only slates whose lists have up to {KEPT:,} bytes can be made again.",
        )
    return record.serving


def _goes_forward(live: Live, serving: Serving) -> bool:
    counted = live.states.counted if live.states is not None else 0
    learned = live.learning.number if live.learning is not None else 0
    return (
        live.applied <= serving.catalogue
        and counted <= (serving.counted or 0)
        and learned <= (serving.learned or 0)
    )
