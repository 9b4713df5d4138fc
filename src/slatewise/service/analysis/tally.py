"""The slates of a service as columns: who was in which arm, who answered, who clicked.

Read once, and after that only what is new. A slate takes 31 bytes, a user about 150.

When shares change, some users move to another arm. From then on the arms are again what chance made
of all users, so `settled` says since when no user was moved, and a comparison should begin there.
One that begins earlier counts a user in the arm of her first slate, until she is moved; the arms
then differ in who came when, and no rule about those who were moved can mend that.
"""

import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection

from slatewise.evaluation.arms import ArmTotals
from slatewise.service.analysis import queries
from slatewise.service.store import Store
from slatewise.service.store.clock import DAY
from slatewise.slates.arrays import GrowingArray

_PAGE: Final = 100_000
"""Slates, or outcomes, in one statement: some 10 MB."""

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_Answers = Callable[[Connection, int, int, int], queries.OutcomeColumns]


@dataclass(frozen=True, eq=False)
class CountedSlates:
    """N slates that count, in the order in which the store learned of them."""

    arms: tuple[str, ...]
    users: Ints
    """[N] numbers"""
    arm: Ints
    """[N] into `arms`"""
    time: Ints
    """[N]"""
    answered: Bools
    """[N] whether anything is known of what became of it"""
    clicked: Bools
    """[N]"""
    changed: int
    """Users who were moved to another arm; their later slates are not among these."""

    def totals(self) -> dict[str, ArmTotals]:
        """Add up what users did with the slates that they saw, by arm."""
        seen = self.answered
        size = int(self.users.max(initial=-1)) + 1
        impressions = np.bincount(self.users[seen], minlength=size)
        clicks = np.bincount(self.users[seen & self.clicked], minlength=size)
        home = np.full(size, -1)
        home[self.users] = self.arm
        return {
            name: ArmTotals(clicks[mine], impressions[mine])
            for number, name in enumerate(self.arms)
            for mine in [(home == number) & (impressions > 0)]
        }

    def people(self) -> dict[str, int]:
        """Count the users of each arm, also those who never answered."""
        _, first = np.unique(self.users, return_index=True)
        counts = np.bincount(self.arm[first], minlength=len(self.arms))
        return dict(zip(self.arms, counts.tolist(), strict=True))

    def count(self) -> dict[str, tuple[int, int]]:
        """Count the slates of each arm, and those among them that were answered."""
        made = np.bincount(self.arm, minlength=len(self.arms))
        answered = np.bincount(self.arm[self.answered], minlength=len(self.arms))
        both = zip(made.tolist(), answered.tolist(), strict=True)
        return dict(zip(self.arms, both, strict=True))

    def by_day(self) -> Mapping[int, "CountedSlates"]:
        """Return the slates of each day (of UTC, as a number since 1970), days in order."""
        return self.by_period(DAY)

    def by_period(self, width: int) -> Mapping[int, "CountedSlates"]:
        """Return the slates of each period of `width` microseconds since 1970, by its number."""
        periods = self.time // width
        return {int(number): self.where(periods == number) for number in np.unique(periods)}

    def where(self, wanted: Bools) -> "CountedSlates":
        """Return some of the slates."""
        return CountedSlates(
            self.arms,
            self.users[wanted],
            self.arm[wanted],
            self.time[wanted],
            self.answered[wanted],
            self.clicked[wanted],
            self.changed,
        )


class Tally:
    """The slates of a store, as far as they have been read."""

    def __init__(self, start: int = 0) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._slates_read = self._answers_read = 0
        self._key = secrets.token_bytes(16)
        self._people: dict[bytes, int] = {}
        self._arms: dict[str, int] = {}
        self._seq, self._time = GrowingArray(np.int64), GrowingArray(np.int64)
        self._user, self._arm = GrowingArray(np.int64), GrowingArray(np.int32)
        self._answered, self._clicked = GrowingArray(np.bool_), GrowingArray(np.bool_)

    def read(self, store: Store) -> None:
        """Read what is new."""
        with self._lock:
            until = store.seq()
            while self._take_slates(store, until):
                pass
            # What left the store comes last: a slate that leaves now is then seen in one of them.
            for kind in (queries.answers, queries.past_answers):
                after: int | None = self._answers_read
                while after is not None:
                    after = self._take_answers(store, kind, after, until)
            self._slates_read = self._answers_read = until

    def first(self) -> dict[str, int]:
        """Return the time of the first slate of each arm."""
        with self._lock:
            time, arm = self._time.values, self._arm.values
            return {name: int(time[arm == number].min()) for name, number in self._arms.items()}

    def settled(self) -> int:
        """Return a time from which on no user is in two arms; 0 if none ever was."""
        with self._lock:
            order = np.argsort(self._user.values, kind="stable")
            columns = (self._user.values, self._arm.values, self._time.values)
            user, arm, time = (column[order] for column in columns)
        moved = (user[1:] == user[:-1]) & (arm[1:] != arm[:-1])
        return int(time[:-1][moved].max(initial=-1)) + 1

    def slates(self, start: int, end: int) -> CountedSlates:
        """Return the slates from `start` to before `end`, by the rule above."""
        with self._lock:
            inside = np.flatnonzero((self._time.values >= start) & (self._time.values < end))
            user, arm = self._user.values[inside], self._arm.values[inside]
            kept, changed = _at_home(user, arm)
            rows = inside[kept]
            return CountedSlates(
                tuple(self._arms),
                user[kept],
                arm[kept].astype(np.int64),
                self._time.values[rows],
                self._answered.values[rows],
                self._clicked.values[rows],
                changed,
            )

    def _take_slates(self, store: Store, until: int) -> bool:
        page = store.read(
            lambda reading: queries.served(reading, self._slates_read, until, self._start, _PAGE)
        )
        if not len(page.seq):
            return False
        order = np.argsort(page.seq)
        users, arms = ([names[n] for n in order.tolist()] for names in (page.users, page.arms))
        people = {user: self._person(user) for user in dict.fromkeys(users)}
        for arm in dict.fromkeys(arms):
            self._arms.setdefault(arm, len(self._arms))
        self._seq.extend(page.seq[order])
        self._time.extend(page.time[order])
        self._user.extend([people[user] for user in users])
        self._arm.extend([self._arms[arm] for arm in arms])
        self._answered.resize(len(self._seq))
        self._clicked.resize(len(self._seq))
        self._slates_read = int(page.seq.max())
        return True

    def _take_answers(self, store: Store, kind: _Answers, after: int, until: int) -> int | None:
        """Take the next page of answers; return the last number, None when there are no more."""
        page = store.read(lambda reading: kind(reading, after, until, _PAGE))
        if not len(page.seq):
            return None
        rows = np.searchsorted(self._seq.values, page.slate)
        # Slates that others made, or of another time, are not here.
        ours = rows < len(self._seq)
        ours[ours] = self._seq.values[rows[ours]] == page.slate[ours]
        self._answered.values[rows[ours]] = True
        self._clicked.values[rows[ours & page.clicked]] = True
        return int(page.seq.max())

    def _person(self, user: str) -> int:
        # Not the name, nor what could be made of it again: an erased person must not live on.
        digest = blake2b(user.encode(), digest_size=12, key=self._key).digest()
        return self._people.setdefault(digest, len(self._people))


def _at_home(user: Ints, arm: Ints) -> tuple[Bools, int]:
    """Mark the slates [N] before their user changed arms, and count the users who did."""
    size = int(user.max(initial=-1)) + 1
    home = np.full(size, -1, dtype=np.int64)
    home[user[::-1]] = arm[::-1]  # of several, the first one stays
    away = np.flatnonzero(arm != home[user])
    left = np.full(size, len(user))
    np.minimum.at(left, user[away], away)
    return np.arange(len(user)) < left[user], len(np.unique(user[away]))
