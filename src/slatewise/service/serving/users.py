"""What users did, remembered as long as it is true."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from slatewise.service.serving.items import ItemLog
from slatewise.service.serving.offers import Offers
from slatewise.service.serving.past import NO_PAST, Listener, Past, Told, tell
from slatewise.service.store import Store
from slatewise.service.store.stamps import Stamps


class User:
    """What is known of one user, and what was told of it to the model that asked last."""

    def __init__(self, past: Past, stamp: int, read_at: float) -> None:
        self.past, self.stamp, self.read_at = past, stamp, read_at
        self._told: tuple[Offers, int, Told] | None = None

    def telling(self, clicks: Sequence[str]) -> Callable[[Offers, Listener], Told]:
        """Return what tells a model of the past and of clicks just now."""
        if clicks:
            return lambda offers, listener: tell(self.past, clicks, offers, listener)
        return self._tell

    def remember(self, before: "User") -> None:
        """Take over what was told before, of the same past: where it leads takes a millisecond."""
        if self.past.same(before.past):
            self._told = before._told

    def _tell(self, offers: Offers, listener: Listener) -> Told:
        """Tell of the past, as last time if nothing has been renumbered since."""
        before = self._told
        if before is not None and before[0] is offers and before[1] == offers.renumbered:
            return before[2]
        number = offers.renumbered
        told = tell(self.past, (), offers, listener)
        self._told = offers, number, told
        return told


NOBODY = User(NO_PAST, 0, 0.0)
"""Somebody without a name, or of whom nothing can be known now."""


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
        history = self._store.history(user_id, self._visits)
        user = User(Past.of(history, self._log), stamp, now)
        user.remember(self._users.get(user_id, NOBODY))
        self._keep(user_id, user)
        return user

    def last_known(self, user_id: str) -> User:
        """Return what was known of a user, however long ago, if the store cannot be asked.

        Nothing if it changed since: perhaps she was erased.
        """
        user = self._users.get(user_id, NOBODY)
        return user if user.stamp == self._stamps.user(user_id) else NOBODY

    def _keep(self, user_id: str, user: User) -> None:
        with self._lock:
            self._users[user_id] = user
            self._users.move_to_end(user_id)
            while len(self._users) > self._size:
                self._users.popitem(last=False)
