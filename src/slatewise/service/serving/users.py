"""What users did, remembered as long as it is true."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from slatewise.features.user_history import NO_HISTORY, UserHistory
from slatewise.service.serving.items import ItemLog
from slatewise.service.store import Store
from slatewise.service.store.records import Visit, positions
from slatewise.service.store.stamps import Stamps
from slatewise.slates.catalogue import Catalogue
from slatewise.slates.users import Ints, KnownUser

CLICKS: Final = "history_clicks"
"""In the log of a slate: how many clicks counted of a history that had more."""
UserLookup = Callable[[Catalogue, Ints], KnownUser]
"""Returns a user for a model, given its catalogue and its numbers of the log's sources."""


def history_of_visits(visits: Sequence[Visit], log: ItemLog) -> UserHistory:
    """Return visits in the indices of the log; only what was seen of a slate counts.

    In int32, since a worker keeps many.
    """
    visits = [visit for visit in visits if visit.seen]
    seen = [visit.slate.items[: visit.seen] for visit in visits]
    offsets = np.cumsum([0, *map(len, seen)], dtype=np.int32)
    clicks = [
        start + position
        for start, visit, items in zip(offsets.tolist(), visits, seen, strict=False)
        for position in positions(items, visit.clicked)
    ]
    return UserHistory(
        log.items.indices(item for items in seen for item in items).astype(np.int32),
        offsets,
        np.array(clicks, np.int32),
        log.source_indices(visit.slate.source for visit in visits).astype(np.int32),
        np.array([visit.slate.time for visit in visits], np.int64),
    )


def newest_visits(visits: Sequence[Visit], clicks: int) -> Sequence[Visit]:
    """Return the newest visits with at most `clicks` clicks in all, and always the last one."""
    first, left = len(visits), clicks
    while first and (left := left - len(visits[first - 1].clicked)) >= 0:
        first -= 1
    return visits[min(first, max(len(visits) - 1, 0)) :]


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
    """A user's history, with the form that the last model to ask needs it in."""

    def __init__(
        self, history: UserHistory, seq: int, stamp: int, read_at: float, *, cut: bool = False
    ) -> None:
        self.history, self.stamp, self.read_at = history, stamp, read_at
        self.cut = cut
        """whether visits were left out for their clicks"""
        self.seq = seq
        """the number of the last record in the history"""
        self._known: tuple[Catalogue, int, KnownUser] | None = None

    def lookup(self, clicks: Sequence[str]) -> UserLookup:
        """Return the lookup of the user with her history, and with clicks just now."""
        if clicks:
            return lambda *model: known_user(self.history, clicks, *model)
        return self._as_known

    def remember(self, before: "User") -> None:
        """Keep the form of an equal history, which takes a millisecond to compute."""
        if self.seq == before.seq and self.history.same(before.history):
            self._known = before._known

    def _as_known(self, catalogue: Catalogue, sources: Ints) -> KnownUser:
        """Return the user for a model, from the last time if no item was renumbered since."""
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
    """The most recent users; each is read again when her stamp changes or her entry is too old."""

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
        visits = newest_visits(stored.visits, self._visits)
        cut = len(visits) < len(stored.visits)
        user = User(history_of_visits(visits, self._log), stored.seq, stamp, now, cut=cut)
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
