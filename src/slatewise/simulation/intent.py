"""Users' intents, and how they change: drift, switches after clicks, satiation."""

from dataclasses import dataclass

import numpy as np

from slatewise.simulation.arrays import Bools, Floats, Ints
from slatewise.simulation.catalogue import Catalogue
from slatewise.simulation.config import IntentConfig
from slatewise.simulation.space import Space


@dataclass
class Users:
    """A population as a struct of arrays; `interact` changes it in place.

    `history` is all that the platform's policies see; the rest is the truth.
    """

    state: Floats  # [U, D], intent
    group: Ints  # [U], the group that the intent is in
    recent: Ints  # [U, M], the last clicked items, newest first, −1 for none
    history: Ints  # [U, T], the clicked item of each interaction, −1 for none
    steps: Ints  # [U], interactions so far
    propensity: Floats  # [U], readiness to click anything
    seen: Ints  # [U, W, S], the last W slates as far as they were seen, newest first, −1 for none

    def __len__(self) -> int:
        """Return the number of users, U."""
        return len(self.group)

    def observed(self, who: Ints) -> Ints:
        """Click histories of the users `who` [B], oldest first: a copy, [B, T].

        T is the longest history among them; the shorter ones end in −1, like no-clicks.
        """
        longest = int(self.steps[who].max(initial=0))
        return self.history[who, :longest]

    def record(self, who: Ints, clicks: Ints) -> None:
        """Append the clicks [B] of the users `who` [B] to their histories."""
        capacity = self.history.shape[1]
        if self.steps[who].max(initial=0) == capacity:
            room = np.full((len(self), max(capacity, 1)), -1, dtype=np.int64)
            self.history = np.hstack([self.history, room])
        self.history[who, self.steps[who]] = clicks
        self.steps[who] += 1

    def remember(self, who: Ints, slates: Ints, scroll: Ints) -> None:
        """Keep what the users `who` [B] saw: the first `scroll` [B] items of `slates` [B, S]."""
        if self.seen.shape[1]:
            self.seen[who, 1:] = self.seen[who, :-1]
            unseen = np.arange(slates.shape[1]) >= scroll[:, None]
            self.seen[who, 0] = np.where(unseen, -1, slates)


class IntentProcess:
    """How users arrive and how their intent moves; common to both truths."""

    def __init__(self, config: IntentConfig, catalogue: Catalogue, space: Space) -> None:
        self._config, self._catalogue, self._space = config, catalogue, space

    def arrive(self, count: int, rng: np.random.Generator, *, capacity: int = 8) -> Users:
        """Return `count` new users, with room for `capacity` interactions before histories grow."""
        group = self._catalogue.draw_groups((count,), rng)
        return Users(
            state=self._space.intents(group, rng),
            group=group,
            recent=np.full((count, self._config.satiation_memory), -1, dtype=np.int64),
            history=np.full((count, capacity), -1, dtype=np.int64),
            steps=np.zeros(count, dtype=np.int64),
            propensity=np.zeros(count, dtype=np.float32),
            seen=np.zeros((count, 0, 1), dtype=np.int64),
        )

    def advance(self, users: Users, who: Ints, clicks: Ints, rng: np.random.Generator) -> None:
        """Take the users `who` [B] past the interaction in which they clicked `clicks` [B].

        Intents drift inside their group; after a click intent moves towards the item or, if that
        ended the errand, to a new point in another group.
        """
        users.record(who, clicks)
        self._drift(users, who, rng)
        clicked = clicks >= 0
        who, clicks = who[clicked], clicks[clicked]
        if self._config.satiation_memory:
            users.recent[who, 1:] = users.recent[who, :-1]
            users.recent[who, 0] = clicks
        pull = np.float32(self._config.click_pull)
        users.state[who] += pull * (self._space.vectors[clicks] - users.state[who])
        done = rng.random(len(who)) < self._config.switch
        self._switch(users, who[done], clicks[done], rng)

    def _drift(self, users: Users, who: Ints, rng: np.random.Generator) -> None:
        """First-order autoregression whose stationary law is that of the group's items."""
        keep = np.float32(self._config.persistence)
        group = users.group[who]
        means = self._space.means[group]  # [B, D]
        kept = keep * (users.state[who] - means)
        fresh = np.sqrt(1 - keep**2) * (self._space.intents(group, rng) - means)
        users.state[who] = means + kept + fresh

    def _switch(self, users: Users, who: Ints, clicks: Ints, rng: np.random.Generator) -> None:
        # The companion is that of the *clicked* item's group, which a model can observe.
        users.group[who] = np.where(
            rng.random(len(who)) < self._config.companion,
            self._space.companion[self._catalogue.group[clicks]],
            self._catalogue.draw_groups((len(who),), rng),
        )
        users.state[who] = self._space.intents(users.group[who], rng)


def satiated(recent: Ints, slates: Ints) -> Bools:
    """Mark the items of `slates` [B, S] that are among the `recent` clicks [B, M]: [B, S]."""
    mask = np.zeros(slates.shape, dtype=np.bool_)
    for column in recent.T:  # M is small; one [B, S] comparison each keeps memory low
        mask |= slates == column[:, None]
    return mask
