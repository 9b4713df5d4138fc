"""What users did, remembered as long as it is true."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np

from slatewise.features.user_history import NO_HISTORY, UserHistory
from slatewise.service.serving.items import ItemLog
from slatewise.service.store import Store
from slatewise.service.store.records import Visit
from slatewise.service.store.stamps import Stamps
from slatewise.slates.catalogue import Catalogue
from slatewise.slates.users import Ints, KnownUser

Know = Callable[[Catalogue, Ints], KnownUser]
"""Tells a model of a user, by its catalogue and its numbers of the log's sources."""


def history_of_visits(visits: Sequence[Visit], log: ItemLog) -> UserHistory:
    """Return visits in the indices of the log; only what was seen of a slate counts.

    In int32, since a worker keeps many.
    """
    visits = [visit for visit in visits if visit.seen]
    seen = [visit.slate.items[: visit.seen] for visit in visits]
    offsets = np.cumsum([0, *map(len, seen)], dtype=np.int32)
    clicks = [
        start + items.index(item)
        for start, visit, items in zip(offsets.tolist(), visits, seen, strict=False)
        for item in visit.clicked
    ]
    return UserHistory(
        log.items.indices(item for items in seen for item in items).astype(np.int32),
        offsets,
        np.array(clicks, np.int32),
        log.sources.indices(visit.slate.source for visit in visits).astype(np.int32),
        np.array([visit.slate.time for visit in visits], np.int64),
    )


def known_user(
    history: UserHistory, clicks: Sequence[str], catalogue: Catalogue, sources: Ints
) -> KnownUser:
    """Return what a model knows of a user, with clicks just now, which are slates of one.

    `history` is in the indices of the log, `sources` [its sources] are those of the model.
    """
    items = catalogue.rows(history.items.astype(np.int64))
    lost = catalogue.ids_at(history.clicked[items[history.clicks] < 0])
    numbers = sources[history.sources] if len(sources) else history.sources
    now, unknown = catalogue.known(clicks)
    past = history.renumbered(items, numbers)
    return KnownUser(past.clicking(now), list(dict.fromkeys([*lost, *unknown])))


class User:
    """What is known of one user, and what the model that asked last made of it."""

    def __init__(self, history: UserHistory, seq: int, stamp: int, read_at: float) -> None:
        self.history, self.stamp, self.read_at = history, stamp, read_at
        self.seq = seq
        """the number of the last record in the history"""
        self._known: tuple[Catalogue, int, KnownUser] | None = None

    def knowing(self, clicks: Sequence[str]) -> Know:
        """Return what tells a model of the history and of clicks just now."""
        if clicks:
            return lambda *model: known_user(self.history, clicks, *model)
        return self._as_known

    def remember(self, before: "User") -> None:
        """Take over what a model made of the same history: where it leads takes a millisecond."""
        if self.seq == before.seq and self.history.same(before.history):
            self._known = before._known

    def _as_known(self, catalogue: Catalogue, sources: Ints) -> KnownUser:
        """Return what a model knows, as last time if no item got another row since."""
        before = self._known
        if before is not None and before[0] is catalogue and before[1] == catalogue.renumbered:
            return before[2]
        number = catalogue.renumbered
        known = known_user(self.history, (), catalogue, sources)
        self._known = catalogue, number, known
        return known


ANONYMOUS = User(NO_HISTORY, 0, 0, 0.0)
"""An anonymous user, or one of whom nothing can be known now."""


class UserCache:
    """The users who came last; each is read again when her stamp or her time says so."""

    def __init__(
        self, store: Store, stamps: Stamps, log: ItemLog, visits: int, size: int, seconds: float
    ) -> None:
        self._store, self._stamps, self._log = store, stamps, log
        self._visits, self._size, self._seconds = visits, size, seconds
        self._users: OrderedDict[str, User] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, user_id: str) -> User | None:
        """Return what is known of a user, None if that has to be read."""
        user = self._users.get(user_id)
        if user is None or user.stamp != self._stamps.user(user_id):
            return None
        if time.monotonic() - user.read_at > self._seconds:
            return None
        self._keep(user_id, user)
        return user

    def read(self, user_id: str) -> User:
        """Read what the store knows of a user; `StoreError` if that is not to be had."""
        stamp = self._stamps.user(user_id)  # before the store is read: what comes later changes it
        now = time.monotonic()
        stored = self._store.history(user_id, self._visits)
        user = User(history_of_visits(stored.visits, self._log), stored.seq, stamp, now)
        user.remember(self._users.get(user_id, ANONYMOUS))
        self._keep(user_id, user)
        return user

    def last_known(self, user_id: str) -> User:
        """Return what was known of a user, however long ago, if the store cannot be asked.

        Nothing if it changed since: perhaps she was erased.
        """
        user = self._users.get(user_id, ANONYMOUS)
        return user if user.stamp == self._stamps.user(user_id) else ANONYMOUS

    def _keep(self, user_id: str, user: User) -> None:
        with self._lock:
            self._users[user_id] = user
            self._users.move_to_end(user_id)
            while len(self._users) > self._size:
                self._users.popitem(last=False)
