"""The service in one worker: from a request to a slate that can be made again."""

import logging
import math
import secrets
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

from slatewise.errors import SlatewiseError
from slatewise.service.serving.arms import Arm, assign
from slatewise.service.serving.item_states import MissingPast
from slatewise.service.serving.items import ItemLog
from slatewise.service.serving.live import Live, ServedSlate
from slatewise.service.serving.request import KEPT, Request, is_whole
from slatewise.service.serving.store_access import StoreAccess
from slatewise.service.serving.users import ANONYMOUS, CLICKS, User, UserCache, UserLookup
from slatewise.service.serving.versions import Versions
from slatewise.service.settings import ServiceConfig
from slatewise.service.settings.changed_arms import with_changed_arms
from slatewise.service.store import Store, StoreError
from slatewise.service.store.clock import Clock, ClockWatch
from slatewise.service.store.features import Features
from slatewise.service.store.records import Serving, SlateRecord
from slatewise.service.store.stamps import Stamps
from slatewise.slates.propensities import propensities
from slatewise.slates.ranked import RankedItems
from slatewise.slates.slate import Slate
from slatewise.slates.strategies import Strategy, explores

logger = logging.getLogger(__name__)


class Service:
    """Makes slates for one worker process, from any of its threads.

    What others change (items, users, models) shows in the next request: of items and users, since
    workers of a directory share stamps; of models and of other hosts, since `refresh` looks.
    """

    def __init__(self, directory: Path, config: ServiceConfig, store: Store) -> None:
        self.directory, self.config, self.store = directory, config, store
        self.clock = Clock(_last_served(store))
        self.clock_watch = ClockWatch(self.clock)
        self._stamps = Stamps.open(directory / "shared.bin")
        self._log = ItemLog()
        self._users = UserCache(
            store,
            self._stamps,
            self._log,
            config.history,
            config.cache_users,
            # Workers of one host share stamps, which tell of all that changes.
            config.cache_seconds if store.is_shared else math.inf,
        )
        self.given = config
        """the settings without arms that were changed since"""
        self._changed_arms = ""
        self._strategies: dict[str, Strategy] = {}
        self._lines: dict[str, str] = {}
        self._take_arms(config)
        self._items_stamp: int | None = None
        self._access = StoreAccess()
        self._live: dict[str, Live] = {}
        self._versions = Versions(directory, store, self._log, self._access)
        self._past = MissingPast()
        self._learned = time.monotonic()
        self._joining = threading.Lock()

    @classmethod
    def open(cls, directory: Path, config: ServiceConfig, store: Store) -> "Service":
        """Open the service of a directory, which is made if it is not there."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        service = cls(directory, config, store)
        service.refresh()
        return service

    def at_hand(self, request: Request) -> bool:
        """Return whether a slate can be made now without asking the store."""
        if self._stamps.items() != self._items_stamp:
            return False
        return request.user_id is None or self._users.known(request.user_id) is not None

    def recommend(self, request: Request) -> tuple[SlateRecord, Slate, list[str]]:
        """Return the record of a slate (not written yet), the slate, and what could not be done."""
        request.require_sensible()
        notes: list[str] = []
        source = request.source or self.config.source
        request = replace(self._recent(request, notes), source=source)
        now = self.clock.now()
        slate_id = f"{now:014x}{secrets.token_hex(9)}"
        self._follow_items(notes)
        name = self._arm_of(request.user_id) or self._assign(slate_id)
        user, live = self._user(request.user_id, notes), self._live[self.config.arms[name].model]
        seed = secrets.randbits(48) if request.seed is None else request.seed
        answer = live.answer(
            user.lookup(request.clicks), request, self._strategies[name], seed, now
        )
        serving = self._serving(name, live, request, answer, user)
        if not is_whole(serving.request):
            notes.append(f"the slate cannot be made again: its lists have more than {KEPT:,} bytes")
        record = SlateRecord(
            slate_id,
            request.user_id,
            now,
            source,
            tuple(map(str, answer.slate.items)),
            serving,
        )
        notes += answer.slate.notes + self._missing(live)
        return record, answer.slate, notes

    def rank(self, request: Request) -> tuple[Arm, RankedItems, list[str]]:
        """Order the items that a request allows by the model of the user's arm.

        Nothing is random and nothing is kept: what is shown of it comes back as a slate of others.
        """
        request.require_sensible()
        notes: list[str] = []
        source = request.source or self.config.source
        request = replace(self._recent(request, notes), source=source)
        self._follow_items(notes)
        name = self._arm_of(request.user_id) or self._assign(secrets.token_hex(9))
        user, live = self._user(request.user_id, notes), self._live[self.config.arms[name].model]
        ranked = live.rank(user.lookup(request.clicks), request, self.clock.now())
        notes += ranked.notes + self._missing(live)
        arm = next(arm for arm in self.arms if arm.name == name)
        return replace(arm, version=live.version), ranked, notes

    def live(self, model: str | None = None) -> Live:
        """Return the version of a model that serves now, of the first without a name.

        With the items of now, for which the store may be asked.
        """
        self._follow_items([])
        name = next(iter(self.config.models)) if model is None else model
        if name not in self._live:
            raise SlatewiseError(
                f"there is no model '{name}'.", f"The models are {', '.join(self._live)}."
            )
        return self._live[name]

    def lookup(self, request: Request, notes: list[str]) -> UserLookup:
        """Return the lookup of a user among the current items; nothing is stored."""
        request.require_sensible()
        request = self._recent(request, notes)
        self._follow_items(notes)
        return self._user(request.user_id, notes).lookup(request.clicks)

    def refresh(self) -> None:
        """Look for new versions of models, changes of items and popularity; never fails.

        To be called every second, by one thread.
        """
        self.follow_arms()
        for name in self.config.models:
            live = self._versions.newest(name, self.config, self._live.get(name))
            if live is not None:
                self._join(live)
        self._follow_items([], look=True)
        for live in list(self._live.values()):
            self._follow_popularity(live)
        self._follow_answers()
        self._access.ask(lambda: self._past.look(self.store))
        self.clock_watch.look(lambda: self._access.ask(self.store.last_shown))

    def changed_items(self) -> None:
        """Notify all workers that items in the store have changed."""
        self._stamps.change_items()

    def refuse_misfits(self, features: Features) -> None:
        """Refuse features of an item that a model which serves knows as something else."""
        for live in list(self._live.values()):
            live.refuse_misfits(features)

    def outdated(self, features: Mapping[str, Features]) -> list[str]:
        """Say of which items models that serve go by other features until they are trained again.

        An item that training knew is where training left it: what was learned fits its old ones.
        """
        notes = []
        for name, live in list(self._live.items()):
            if items := live.outdated(features):
                more = f" and {len(items) - 1:,} more" if len(items) > 1 else ""
                notes.append(
                    f"model '{name}' was trained with other features of {items[0]!r}{more}: "
                    "these count from the next night on"
                )
        return notes

    def changed_users(self, ids: Iterable[str]) -> None:
        """Notify all workers that there is news of users in the store."""
        self._stamps.change_users(ids)

    def ready(self) -> list[str]:
        """Return what is missing for good slates, if anything."""
        missing = [*self._versions.problems, *self.missing_past()]
        try:
            self.store.ping()
        except StoreError as error:
            missing.append(str(error))
        return missing

    def missing_past(self) -> list[str]:
        """Return what models need of the past and the store does not have."""
        found = [note for live in list(self._live.values()) for note in self._missing(live)]
        return list(dict.fromkeys(found))

    def _missing(self, live: Live) -> list[str]:
        """Return what one model lacks; before training, the parts that it is going to have."""
        if live.untrained is not None:
            return live.untrained
        return self._past.notes(live.config.part_classes())

    def weak_exploration(self) -> list[str]:
        """Return which arms draw from models whose draws hardly explore, and why."""
        notes = {
            name: self._live[arm.model].config.exploration_note
            for name, arm in self.config.arms.items()
            if arm.share > 0 and explores(self._strategies[name])
        }
        return [f"Arm {name}: {note}" for name, note in notes.items() if note is not None]

    @property
    def arms(self) -> list[Arm]:
        """The arms with their shares and the versions that serve."""
        total = sum(self.config.shares.values())
        return [
            Arm(
                name,
                arm.share / total,
                arm.model,
                self._live[arm.model].version,
                self._lines[name],
                self._live[arm.model].digest,
            )
            for name, arm in self.config.arms.items()
        ]

    def follow_arms(self) -> None:
        """Take over arms that were changed while the service ran."""
        text = self._access.ask(self.store.arms)
        if text is not None and text != self._changed_arms:
            self._changed_arms = text
            self._take_arms(with_changed_arms(self.given, text))

    @property
    def has_changed_arms(self) -> bool:
        """Whether arms were changed while the service ran."""
        return bool(self._changed_arms)

    def _take_arms(self, config: ServiceConfig) -> None:
        """Use the arms of the settings; keep removed ones for requests in progress."""
        self._strategies |= {name: arm.made for name, arm in config.arms.items()}
        self._lines |= {name: arm.line for name, arm in config.arms.items()}
        self._assign = partial(assign, config.shares, config.salt)
        self._remembered = lru_cache(config.cache_users)(self._assign)
        gone = {name: arm for name, arm in self.config.arms.items() if name not in config.arms}
        if gone:
            resting = {name: arm.model_copy(update={"share": 0.0}) for name, arm in gone.items()}
            config = config.model_copy(update={"arms": {**config.arms, **resting}})
        self.config = config

    def _arm_of(self, user_id: str | None) -> str | None:
        """Return the arm of a user, None for an anonymous one."""
        return None if user_id is None else self._remembered(user_id)

    def _serving(
        self, name: str, live: Live, request: Request, answer: ServedSlate, user: User
    ) -> Serving:
        slate = answer.slate
        made_for = {} if slate.source is None else {"source": request.source}
        return Serving(
            arm=name,
            model=live.name,
            version=live.version,
            strategy=self._lines[name],
            seed=slate.seed,
            k=request.k,
            request=request.plain() | made_for | self._bounds(user),
            catalogue=answer.catalogue,
            known=user.seq,
            refreshed=answer.refreshed,
            propensities=self._propensities(name, live, slate),
            counted=answer.counted,
            learned=answer.learned,
            shown=answer.shown,
        )

    def _bounds(self, user: User) -> dict[str, int]:
        """Return how much of a user's history counts, as it is logged."""
        most = self.config.history
        return {"history": most, CLICKS: most} if user.cut else {"history": most}

    def _propensities(self, name: str, live: Live, slate: Slate) -> tuple[float, ...] | None:
        draws = self.config.arms[name].propensities
        if not draws:
            return None
        if not len(slate):
            return ()
        found = propensities(live.ranker, self._strategies[name], slate, draws, slate.seed)
        return tuple(found.of(slate)[0].tolist())

    def _recent(self, request: Request, notes: list[str]) -> Request:
        """Return a request with as many of its newest clicks as visits of a user count.

        What a slate costs, and what the log keeps of it, grows with every click.
        """
        most = self.config.history
        if len(request.clicks) <= most:
            return request
        notes.append(f"of {len(request.clicks):,} clicks only the last {most:,} count")
        return replace(request, clicks=request.clicks[-most:])

    def _user(self, user_id: str | None, notes: list[str]) -> User:
        """Return what is known of a user; without a store, what was known last."""
        if user_id is None:
            return ANONYMOUS
        known = self._users.known(user_id)
        if known is not None:
            return known
        read = self._access.ask(lambda: self._users.read(user_id))
        if read is not None:
            return read
        notes.append("history unavailable: the store cannot be reached")
        return self._users.last_known(user_id)

    def _follow_items(self, notes: list[str], *, look: bool = False) -> None:
        """Take over changes of items, if the stamp says that there are any, or after a look."""
        stamp = self._stamps.items()
        if stamp == self._items_stamp and not look:
            return
        number = self._versions.read_items()
        if number is None:
            notes.append("items may have changed: the store cannot be reached")
            return
        with self._joining:
            whole = [self._catches_up(live, number) for live in self._live.values()]
        if all(whole):
            self._items_stamp = stamp
        else:
            notes.append("new items may be missing: the store cannot be reached")

    def _catches_up(self, live: Live, number: int) -> bool:
        """Apply changes of items to a version; False if the store cannot provide them."""
        try:
            live.apply_items(number, self.store)
        except StoreError as error:
            self._access.pause(error)
            return False
        return live.applied >= live.base

    def _join(self, live: Live) -> None:
        """Serve a version, once it has the items and the popularity of now."""
        self._catches_up(live, self._log.number)
        self._follow_popularity(live)
        self._access.ask(lambda: live.learn(self.store))
        with self._joining:  # what has changed meanwhile is known to those that serve
            whole = self._catches_up(live, self._log.number)
            if not whole and live.name in self._live:
                self._versions.try_again(live.name)  # the old one serves meanwhile
                return
            self._live[live.name] = live
        logger.info("Model '%s' serves version %s.", live.name, live.version)

    def _follow_popularity(self, live: Live) -> None:
        now = self.clock.now()
        if live.due(now):
            self._access.ask(lambda: live.refresh(self.store, now))

    def _follow_answers(self) -> None:
        """Update versions that learn between nights by what is new, when it is time."""
        now = time.monotonic()
        if now - self._learned < self.config.learning.seconds:
            return
        self._learned = now
        for live in list(self._live.values()):
            if live.learning is not None:
                self._access.ask(partial(live.learn, self.store))


def _last_served(store: Store) -> int:
    try:
        return store.last_served()
    except StoreError:
        return 0
